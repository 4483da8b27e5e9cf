"""Plant each bug of this folder in a copy of the source and see that its tests notice it.

``python run.py [NAME ...]``. A bug is a patch, named by what it breaks. Lines ``Tests:`` above it name the
tests that must fail with it, and pass without it.
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


def tests_of(patch: Path) -> list[str]:
    """The tests that a patch names."""
    lines = patch.read_text().partition("\n--- ")[0].splitlines()
    return [test for line in lines if line.startswith("Tests:") for test in line.split()[1:]]


def apply(patch: Path, root: Path, *how: str) -> subprocess.CompletedProcess:
    """``git apply`` a patch to the source below ``root``."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    command = ["git", "apply", *how, str(patch.absolute())]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


def run_tests(root: Path, tests: list[str]) -> tuple[int, str]:
    """pytest's exit code (0: all pass, 1: some fail) and the end of what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout[-2000:] + done.stderr[-500:]


def main(names: list[str]) -> int:
    patches = [patch for patch in PATCHES if not names or patch.stem in names]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "sihash"
        root.mkdir()
        for name in ("src", "tests"):  # with what is compiled already
            shutil.copytree(REPOSITORY / name, root / name)
        shutil.copy(REPOSITORY / "pyproject.toml", root)
        every = sorted({test for patch in patches for test in tests_of(patch)})
        code, said = run_tests(root, every)
        if code:
            print(f"Without any bug, these tests must pass:\n{said}")
            return 1
        unnoticed = []
        for patch in patches:
            applied = apply(patch, root)
            if applied.returncode:
                print(f"{patch.stem}: does not apply: {applied.stderr}")
                unnoticed.append(patch.stem)
                continue
            code, said = run_tests(root, tests_of(patch))
            noticed = code == 1
            print(f"{patch.stem}: {'noticed' if noticed else 'NOT NOTICED'}", flush=True)
            if not noticed:
                unnoticed.append(patch.stem)
                print(said)
            apply(patch, root, "--reverse")
    print(f"{len(patches) - len(unnoticed)} of {len(patches)} noticed")
    return bool(unnoticed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
