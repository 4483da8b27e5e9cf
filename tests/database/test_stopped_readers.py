"""A reader that stops inside a transaction holds up no writer, and loses none of what is acknowledged."""

from __future__ import annotations

import subprocess
import sys

import small

from sihash.database import Database

READER = """
import sys
from pathlib import Path
from sihash.store.catalogue import Catalogue
catalogue = Catalogue(Path(sys.argv[1]))
with catalogue.snapshot():
    catalogue.execute("SELECT count(*) FROM items")
    print("inside", flush=True)
    sys.stdin.read()
"""


def test_writers_go_on_beside_a_reader_that_stopped(folder):
    db = small.make(folder / "db")
    log = folder / "db" / "catalogue.sqlite-wal"
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(db.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert reader.stdout.readline() == b"inside\n"
        sizes = []
        for seed in range(1, 4):
            db.add(*small.rows(2, seed=seed))
            sizes.append(log.stat().st_size)
        assert sizes == sorted(set(sizes))  # what is acknowledged is in the log, which grows
        with Database(db.path) as other:
            assert len(other) == 66
    finally:
        reader.kill()
        reader.wait()
    db.add(*small.rows(2, seed=9))
    assert not log.exists() or log.stat().st_size == 0  # emptied by the next commit
    assert db.verify() == []
    db.close()
