"""Every test has a cache and a data directory of its own: none sees the user's."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    monkeypatch.delenv("SIHASH_DATA", raising=False)
