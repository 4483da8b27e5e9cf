"""A writer that is killed at any moment loses nothing that was acknowledged, and leaves nothing half done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import small

HERE = Path(__file__).parent
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run(script, *arguments):
    """Run a script of this folder in a process of its own, to be forked from."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / script), *map(str, arguments)],
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.timeout(3600)
def test_killed_writers():
    run("kill_loop.py", 1000 if small.SOAK else 50, os.environ.get("SIHASH_SEED", 1))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.timeout(3600)
def test_four_readers_beside_a_writer():
    run("read_loop.py", 300 if small.SOAK else 15, os.environ.get("SIHASH_SEED", 1))
