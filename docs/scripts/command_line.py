"""Write docs/reference/command-line.md from the program itself: `python docs/scripts/command_line.py`.

With --check nothing is written, and the exit code says whether the page is what the program would say.
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from typer.testing import CliRunner

from sihash.cli import app

PAGE = Path(__file__).parents[1] / "reference" / "command-line.md"
HEAD = """# Command line

Made from the program by `python docs/scripts/command_line.py`. Exit codes, and what `--json` prints:
[What scripts can rely on](../command-line.md).
"""


def help_of(*names: str) -> str:
    """What ``--help`` prints, 80 columns wide."""
    result = CliRunner().invoke(
        app, [*names, "--help"], prog_name="sihash", terminal_width=80, env={"COLUMNS": "80"}
    )
    return "\n".join(line.rstrip() for line in result.stdout.strip().splitlines())


def page() -> str:
    group = typer.main.get_command(app)
    verbs = [(name,) for name in group.commands if name != "data"]  # type: ignore[attr-defined]
    verbs += [("data", name) for name in group.commands["data"].commands]  # type: ignore[attr-defined]
    parts = [HEAD, f"```text\n{help_of()}\n```\n"]
    parts += [f"## sihash {' '.join(verb)}\n\n```text\n{help_of(*verb)}\n```\n" for verb in verbs]
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit(f"{PAGE} is not what the program says; run python docs/scripts/command_line.py.")
