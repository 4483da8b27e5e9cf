"""The first compilation of a process is said once."""

import logging
import os
import subprocess
import sys

import numba

from sihash import compiling


def test_it_is_said_once(caplog, monkeypatch):
    compiling.announce_compiling()
    compiling.announce_compiling()
    assert len(compiling._registered) == 1
    monkeypatch.setattr(compiling._Announcer, "_said", False)
    monkeypatch.setattr(compiling._registered[0], "_said", False, raising=False)
    with caplog.at_level(logging.INFO, logger="sihash.compiling"):
        for k in range(3):
            loop = lambda x, k=k: x + k  # noqa: E731
            loop.__module__ = "sihash.loops" if k else "of.others"
            numba.njit(loop)(1)
            assert len([r for r in caplog.records if "first use" in r.message]) == min(k, 1)


def test_a_script_shows_it(tmp_path):
    """With nothing compiled yet, and no word about logging in the script."""
    code = "import numpy as np; from sihash import SIH; SIH(n_bits=4, n_anchors=4).fit(np.eye(8), [0, 1] * 4)"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr.startswith("Compiling the inner loops of sihash for their first use")
    assert run.stderr.count("\n") == 1
