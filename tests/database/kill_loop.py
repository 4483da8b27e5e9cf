"""Kill a writer at random moments, over and over, and look at what it left: ``python kill_loop.py N SEED``.

The writer is a forked child that works on one database without pause. It writes down each operation before
it begins and after it was acknowledged. After a kill the database must be in the state after the last
acknowledged operation or, whole, in that after the one under way; an item must have the code that it came
with, for updates change none, and `verify` must be content.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

import small

from sihash.database import Database, DatabaseError, verify
from sihash.database.updating import UpdatePolicy

LONGEST = 0.4  # seconds until a kill, at most
UNDOABLE = UpdatePolicy().undoable_updates
KINDS = ("add", "add", "replace", "remove", "relabel", "update", "undo", "compact")
LABEL = 9  # what relabelled items have, and no other


class Model:
    """Ids, each with the mark that it came with last; those that are relabelled; what undoing needs."""

    def __init__(self, n):
        self.alive, self.next_id, self.history, self.operation = dict.fromkeys(range(n)), n, [], 1
        self.relabelled = set()

    def apply(self, kind, ids, mark):
        self.operation += 1
        if kind not in ("undo", "compact"):
            self.history.append((dict(self.alive), set(self.relabelled), kind == "update"))
        if kind in ("add", "replace"):
            self.next_id += len(ids)
            self.alive.update(dict.fromkeys(ids, mark))
            self.relabelled -= set(ids)
        elif kind == "remove":
            self.alive = {own: mark for own, mark in self.alive.items() if own not in ids}
        elif kind == "undo":
            self.alive, self.relabelled, _ = self.history.pop()
        elif kind == "relabel":
            self.relabelled |= set(ids)
        elif kind == "compact":
            self.history.clear()
        updates = [k for k, (_, _, is_update) in enumerate(self.history) if is_update]
        if len(updates) > UNDOABLE:
            del self.history[: updates[-UNDOABLE]]


def main(n_kills: int, seed: int) -> None:
    rng = random.Random(seed)
    met = dict.fromkeys((*KINDS, "create", "nothing"), 0)
    with small.fast_folder() as folder:
        small.make(folder / "warm").update("relearn")  # compiled code is loaded before any fork
        small.make(folder / "made", n=30).close()
        model = None
        for kill in range(n_kills):
            create = model is None and rng.random() < 0.5
            if model is None:
                root, log, model = folder / f"db{kill}", folder / f"log{kill}", Model(30)
                if not create:
                    small.copy(folder / "made", root)
            log.write_text("")
            child = os.fork()
            if child == 0:
                work(root, log, seed * 100_003 + kill, create, model)
            time.sleep(rng.uniform(0, LONGEST))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
            model, under_way = check(root, model, lines, create)
            met[under_way] += 1
            if model is None or len(model.alive) > 120 or rng.random() < 0.2:
                model = None
    print(json.dumps({"kills": n_kills, "seed": seed, "under way": met}))


def work(root, log, seed, create, model):
    """What the child does until it is killed."""
    rng = random.Random(seed)
    with open(log, "a") as out:

        def say(**words):
            out.write(json.dumps(words) + "\n")
            out.flush()

        try:
            if create:
                say(begin="create", ids=[])
                small.make(root, n=30)
                say(end="create", operation=1)
            db = Database(root)
            while True:
                step(db, model, rng, say)
        except BaseException as error:
            say(error=repr(error))
            os._exit(1)


def step(db, model, rng, say):
    kind, ids, mark = rng.choice(KINDS), [], rng.randrange(1 << 30)
    if kind == "add":
        ids = list(range(model.next_id, model.next_id + rng.randint(1, 6)))
    elif kind in ("remove", "replace"):
        ids = rng.sample(sorted(model.alive), 3) if len(model.alive) > 20 else []
    elif kind == "relabel":
        others = sorted(set(model.alive) - model.relabelled)
        ids = rng.sample(others, 3) if len(others) > 20 else []
    if (kind in ("remove", "replace", "relabel") and not ids) or (kind == "undo" and not model.history):
        return
    say(begin=kind, ids=ids, mark=mark)
    columns = {"mark": [mark] * len(ids)}
    if kind == "add":
        assert db.add(*small.rows(len(ids), seed=mark), columns=columns).added == ids
    elif kind == "replace":
        new = small.rows(len(ids), seed=mark)
        assert db.add(*new, ids=ids, columns=columns, replace=True).replaced == ids
    elif kind == "remove":
        db.remove(ids)
    elif kind == "relabel":
        db.relabel(ids, LABEL)
    else:
        getattr(db, kind)()
    operation = db._reader.catalogue.last_operation()
    if operation > model.operation:  # an update without anything new is none
        model.apply(kind, ids, mark)
    say(end=kind, operation=operation)


def check(root, model, lines, create):
    """Hold the database against what was acknowledged; the model of now, and what the kill interrupted."""
    assert not [line for line in lines if "error" in line], lines
    begun = [line for line in lines if "begin" in line]
    ended = [line for line in lines if "end" in line]
    pending = begun[len(ended)] if len(begun) > len(ended) else None
    try:
        db = Database(root)
    except DatabaseError as error:
        absent = "no database" in str(error) or "never finished" in str(error)
        if ended or not (create and absent):
            raise
        small.make(root, n=30).close()  # what is left is no obstacle
        return None, "create"
    for start, end in zip(begun, ended, strict=False):
        if end["operation"] > model.operation:
            model.apply(start["begin"], start["ids"], start.get("mark"))
    operation = db.info()["operation"]
    assert operation in (model.operation, model.operation + (pending is not None)), (operation, lines)
    if operation > model.operation:
        model.apply(pending["begin"], pending["ids"], pending.get("mark"))
    items = db.items(limit=10_000)
    assert {item.id: item.columns.get("mark") for item in items} == model.alive, lines
    relabelled = {item.id for item in items if item.label == LABEL}
    assert relabelled == set(model.alive) & model.relabelled, lines
    assert len(db.search(small.QUERIES[:1], k=len(items))[0].hits) == len(items)
    db._read(small.check_codes)
    assert verify(root) == []
    db.close()
    return model, pending["begin"] if pending else "nothing"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
