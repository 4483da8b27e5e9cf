"""The first compilation of a process is said once, in the log."""

import logging

import numba

from sihash import compiling


def test_it_is_said_once(caplog, monkeypatch):
    compiling.announce_compiling()
    compiling.announce_compiling()
    assert len(compiling._registered) == 1
    monkeypatch.setattr(compiling._Announcer, "_said", False)
    monkeypatch.setattr(compiling._registered[0], "_said", False, raising=False)
    with caplog.at_level(logging.INFO, logger="sihash.compiling"):
        for k in range(2):
            numba.njit(lambda x, k=k: x + k)(1)
    assert len([r for r in caplog.records if "first use" in r.message]) == 1
