"""Plant each bug of this folder in a copy of the source and see that its tests notice it.

``python run.py [NAME ...]``. A bug is a patch, named by what it breaks. Lines ``Tests:`` above it name the
tests that must fail with it, and pass without it. `make slow` plants them all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
PATCHES = sorted(HERE.glob("*.patch"))


def named_tests(patch: Path) -> list[str]:
    """The tests that a patch names."""
    lines = patch.read_text().partition("\n--- ")[0].splitlines()
    return [test for line in lines if line.startswith("Tests:") for test in line.split()[1:]]


def apply(patch: Path, root: Path, *how: str) -> subprocess.CompletedProcess:
    """``git apply`` a patch to the source below ``root``."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    command = ["git", "apply", *how, str(patch.absolute())]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


def run_tests(root: Path, tests: list[str], seconds: float | None = None) -> tuple[int, str]:
    """pytest's exit code (0: all pass, 1: some fail) and the end of what it says; at most so long."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests],
        cwd=root,
        env={**own, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    return done.returncode, done.stdout[-2000:] + done.stderr[-500:]


def copied(folder: Path) -> Path:
    """A copy of the source and its tests, with what is compiled already."""
    root = folder / "sihash"
    for name in ("src", "tests"):
        shutil.copytree(REPOSITORY / name, root / name)
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    return root


def without_bugs(patches: list[Path], folder: Path) -> tuple[bool, str]:
    """Whether all tests that patches name pass in a copy without a bug, and what they say."""
    code, said = run_tests(copied(folder), sorted({test for patch in patches for test in named_tests(patch)}))
    return code == 0, said


def planted(patch: Path, folder: Path) -> tuple[bool, str]:
    """Whether the tests of a bug notice it in a copy of the source, and what they say."""
    root = copied(folder)
    applied = apply(patch, root)
    if applied.returncode:
        return False, f"The patch does not apply: {applied.stderr}"
    code, said = run_tests(root, named_tests(patch))
    return code == 1, said


def main(names: list[str]) -> int:
    patches = [patch for patch in PATCHES if not names or patch.stem in names]
    with tempfile.TemporaryDirectory() as folder:
        passed, said = without_bugs(patches, Path(folder))
    if not passed:
        print(f"Without any bug, these tests must pass:\n{said}")
        return 1
    n_noticed = 0
    for patch in patches:
        with tempfile.TemporaryDirectory() as folder:
            noticed, said = planted(patch, Path(folder))
        n_noticed += noticed
        print(f"{patch.stem}: {'noticed' if noticed else f'NOT NOTICED. {said}'}", flush=True)
    print(f"{n_noticed} of {len(patches)} noticed")
    return n_noticed < len(patches)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
