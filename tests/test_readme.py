"""The examples of README.md and docs/ that are marked as runnable (```python runnable) run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python runnable\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def runnable_blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [p for p in PAGES if runnable_blocks(p)], ids=lambda p: p.name)
def test_examples(page, tmp_path, monkeypatch):
    """The blocks of a page run one after the other, each with the names of those before."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in runnable_blocks(page):
        exec(compile(block, page.name, "exec"), names)


def test_readme_has_an_example():
    assert runnable_blocks(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    missing = [
        target
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not missing
