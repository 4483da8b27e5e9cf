"""One writer at work, four readers that search without pause: ``python read_loop.py N_CHANGES SEED``.

Every answer must be of one version: its query code, and the codes of its hits, are those that this version
gave all along; distances and order follow from them; and nothing that was removed before the search began is
in it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback

import numpy as np
import small

from sihash.codes import hamming
from sihash.database import Database

N_READERS = 4


def main(n_changes: int, seed: int) -> None:
    with small.fast_folder() as folder:
        warm = small.make(folder / "warm")  # compiled code is loaded before any fork
        warm.update("relearn")
        warm.search(small.QUERIES, k=8, rank="hamming")
        root = folder / "db"
        small.make(root).close()
        readers = [start(read, root, folder, k) for k in range(N_READERS)]
        wait_for(folder / f"begun{k}" for k in range(N_READERS))
        write(root, folder / "removed", n_changes, random.Random(seed))
        (folder / "stop").touch()
        for reader in readers:
            assert os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1]) == 0, "a reader failed"
        told = [json.loads((folder / f"reader{k}").read_text()) for k in range(N_READERS)]
        assert min(len(each["versions"]) for each in told) > 1, told
        print(json.dumps({"changes": n_changes, "answers": [each["answers"] for each in told]}))


def wait_for(files):
    """Wait for each reader's first answer; one that fails says so by ending without it."""
    for file in files:
        while not file.exists():
            assert os.waitpid(-1, os.WNOHANG)[0] == 0, "a reader failed"
            time.sleep(0.01)


def start(work, *arguments):
    child = os.fork()
    if child:
        return child
    try:
        work(*arguments)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)


def write(root, removed, n_changes, rng):
    """Add, remove, update, undo and compact; what was removed for good is written down afterwards."""
    db = Database(root)
    for number in range(n_changes):
        db.add(*small.rows(4, seed=1000 + number))
        gone = rng.sample([item.id for item in db.items(limit=10_000)], 3)
        db.remove(gone)
        db.update()
        with open(removed, "a") as file:
            file.write("".join(f"{i}\n" for i in gone))
        if number % 5 == 4:
            db.compact()
        elif number % 5 == 2:
            db.undo()  # of the update
        time.sleep(0.01)


def read(root, folder, k):
    db = Database(root)
    query_codes, item_codes, n_answers = {}, {}, 0
    last = False
    while not last:
        last = (folder / "stop").exists()  # and once more: what was written last must be seen
        try:
            removed = {int(line) for line in (folder / "removed").read_text().split()}
        except FileNotFoundError:
            removed = set()
        for number, answer in enumerate(db.search(small.QUERIES, k=8, rank="hamming")):
            check(answer, number, removed, query_codes, item_codes)
            n_answers += 1
        (folder / f"begun{k}").touch()
    versions = sorted({version for version, _ in query_codes})
    (folder / f"reader{k}").write_text(json.dumps({"answers": n_answers, "versions": versions}))


def check(answer, number, removed, query_codes, item_codes):
    assert not removed & {hit.id for hit in answer.hits}, "a removed item was found"
    assert query_codes.setdefault((answer.version, number), answer.query_code) == answer.query_code
    for hit in answer.hits:
        assert item_codes.setdefault((answer.version, hit.id), hit.code) == hit.code, "a mixed version"
    query = np.frombuffer(answer.query_code, np.uint8)
    codes = np.array([np.frombuffer(hit.code, np.uint8) for hit in answer.hits])
    distances = hamming(query, codes)[0].tolist()
    assert distances == [hit.distance for hit in answer.hits]
    assert distances == sorted(distances)
    assert len(answer.hits) == 8


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
