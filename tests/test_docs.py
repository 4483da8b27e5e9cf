"""README.md and docs/: examples run, notebooks too, links lead somewhere, generated pages are up to date."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# Their examples need a service that runs: tests/server/test_service_docs.py.
WITH_A_SERVICE = {ROOT / "docs" / "service.md", ROOT / "docs" / "tutorials" / "service.md"}
BLOCK = re.compile(r"^```python runnable\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def of(path):
    return path.relative_to(ROOT).as_posix()


def text(page):
    return page.read_text(encoding="utf-8")


def runnable_blocks(page):
    return BLOCK.findall(text(page))


@pytest.mark.parametrize("page", [p for p in PAGES if runnable_blocks(p) and p not in WITH_A_SERVICE], ids=of)
def test_examples(page, tmp_path, monkeypatch):
    """The blocks of a page run one after the other, each with the names of those before."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in runnable_blocks(page):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_every_block_of_python_runs(page):
    assert not re.findall(r"^```python\n", text(page), re.MULTILINE), "mark it: ```python runnable"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=of)
def test_notebooks(notebook, tmp_path, monkeypatch):
    """On the data that come with scikit-learn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SIHASH_DATA", raising=False)
    names = {}
    for cell in json.loads(text(notebook))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)


def test_the_example_of_the_readme_prints_what_it_says(tmp_path, monkeypatch, capsys):
    """To the last digit but one: that one depends on the processor."""
    page = ROOT / "README.md"
    said = re.search(r"^It prints\n\n((?:    .*\n)+)", text(page), re.MULTILINE)[1].split()
    monkeypatch.chdir(tmp_path)
    for block in runnable_blocks(page):
        exec(block, {})
    printed = capsys.readouterr().out.split()
    numbers = [[float(word) for word in words if word[0] == "0"] for words in (said, printed)]
    assert numbers[1] == pytest.approx(numbers[0], abs=0.01)
    assert [word for word in printed if word[0] != "0"] == [word for word in said if word[0] != "0"]


def test_the_readme_is_short_and_has_an_example():
    page = ROOT / "README.md"
    assert runnable_blocks(page)
    assert len(text(page).split()) <= 700


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_links_lead_somewhere(page):
    missing = [target for target in LINK.findall(text(page)) if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_no_merge_was_left_unfinished(page):
    assert not re.search(r"^(<{7}|>{7}) ", text(page), re.MULTILINE)


# The reference is what the program says of itself, tables are what the records say.
@pytest.mark.parametrize("name", ["command_line.py", "result_tables.py"])
def test_generated_parts_are_up_to_date(name):
    script = ROOT / "docs" / "scripts" / name
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_page_has_its_place_in_the_site():
    listed = re.findall(r"[\w/-]+\.(?:md|ipynb)", text(ROOT / "mkdocs.yml"))
    pages = [of(page).removeprefix("docs/") for page in [*PAGES[1:], *NOTEBOOKS]]
    assert sorted(listed) == sorted(pages)
