"""What MkDocs does beside its own work: links out of docs/ lead to the repository.

"runnable" marks blocks for the tests; MkDocs knows no such word.
"""

import re
from typing import Any

OUTSIDE = re.compile(r"\]\((?:\.\./)+([A-Z][A-Za-z]*(?:\.md)?|benchmarks/[^)]*)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    markdown = markdown.replace("```python runnable", "```python")
    root = f"{config.repo_url.rstrip('/')}/blob/main"
    return OUTSIDE.sub(lambda link: f"]({root}/{link[1]}{link[2] or ''})", markdown)
