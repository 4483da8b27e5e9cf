"""A life of a database, drawn from one number, against an oracle in memory: ``python simulator.py SEED …``.

Operations come in any order while readers look on, others try to write, the clock steps, the disk fails or
fills up, the process is killed and the power goes. After each step the database must hold what was
acknowledged, answer as the oracle does, in its order, and be whole.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import sys
import traceback
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from unittest import mock

import numpy as np
import pytest
import small
from faulty_disk import FaultyDisk, Killed
from oracle import POOL, POOL_LABELS, Oracle

from sihash.database import Database, DatabaseBusy, DatabaseError, NoSuchItem, verify
from sihash.database.updating import UpdatePolicy
from sihash.ranking import RANKS
from sihash.store import catalogue as catalogue_module
from sihash.store import segments

PARAMS = {**small.PARAMS, "n_anchors": 6}
STEPS = 14
OWN_IDS = ["a", "b", "c/d", "ü", 500, *range(20, 30)]
KINDS = {
    "add": 5,
    "add_with_ids": 4,
    "remove": 3,
    "remove_class": 1,
    "relabel": 3,
    "relabel_class": 1,
    "update": 4,
    "reencode": 2,
    "undo": 3,
    "compact": 1,
    "open_again": 1,
    "export": 1,
    "verify": 1,
}
FAULTS = {"none": 10, "error": 2, "full": 2, "kill": 3, "least": 2, "most": 1, "no room": 1, "stopped": 1}


class Stopped(BaseException):
    """What Ctrl-C is."""


class Clock:
    """Goes on by itself, and is set back or forward by somebody."""

    def __init__(self, rng):
        self.rng, self.time = rng, datetime(2026, 1, 1, tzinfo=UTC)

    def now(self, _):
        hours = self.rng.choice([0, 0, 0, -24, 24, -8760, 87600])
        self.time += timedelta(hours=hours, milliseconds=5)
        return self.time


class Simulation:
    def __init__(self, seed: int, folder) -> None:
        self.seed, self.folder, self.rng = seed, folder, random.Random(seed)
        self.more = random.Random(-seed - 1)  # what it draws of second labels: others stay as they were
        self.several = self.more.choice([0, 0, 0.2, 0.5])  # share of the labelled items that get one
        self.done: list[str] = []  # what was done, to be read after a failure
        self.n_roots = 0

    def run(self) -> None:
        names, rng = random.Random(self.seed), self.rng
        with ExitStack() as stack:
            stack.enter_context(mock.patch("secrets.token_hex", lambda n: names.randbytes(n).hex()))
            stack.enter_context(
                mock.patch.object(catalogue_module, "datetime", Clock(random.Random(self.seed)))
            )
            if rng.random() < 0.5:  # segments that are full after a few items
                stack.enter_context(
                    mock.patch.object(segments, "BYTES", 4 * small.WIDTH * rng.choice([6, 12]))
                )
            undoable = rng.choice([2, 10])
            self.policy = UpdatePolicy(undoable_updates=undoable, sweep_patience=0)  # nobody sweeps beside us
            self.begin(undoable)
            for _ in range(STEPS):
                self.step()
            self.close()

    # The database, and those who look at it.

    def begin(self, undoable: int) -> None:
        n = self.rng.randint(12, 20)
        rows = self.rng.sample(range(len(POOL)), n)
        labels = [(int(POOL_LABELS[row]) % 3,) for row in rows]
        for k in range(3, n):
            labels[k] = () if self.rng.random() < 0.1 else labels[k]
        labels[:3] = [(0,), (1,), (1,)]
        several, self.several = self.several, self.several * self.more.choice([0, 1])
        labels[3:] = [self.with_more(own) for own in labels[3:]]
        self.several = several
        self.oracle = Oracle(rows, labels, undoable)

        def create(root):
            Database.create(root, POOL[rows], self.said(labels), **PARAMS).close()

        root = self.new_root()
        disk = FaultyDisk(root)
        if self.rng.random() < 0.5:
            disk.plan = {self.rng.randrange(60): Killed()}
        how = self.rng.choice(["kill", "least", "most"])
        self.done.append(f"create {n} ({how} {[*disk.plan]})")
        with disk.in_use():
            try:
                create(root)
            except Killed:
                root = disk.left(self.new_root(), how)
        if disk.was_killed:
            try:
                Database(root).close()
            except DatabaseError as error:
                if "no database" not in str(error) and "never finished" not in str(error):
                    raise
                create(root)  # what is left is no obstacle
        self.use(root)
        self.oracle.now.codes = self.codes()
        self.oracle.hashers[1], self.oracle.weights[1] = self.learned()
        self.check()

    def new_root(self):
        self.n_roots += 1
        place = self.folder / f"{self.n_roots}"
        place.mkdir()
        return place / "db"

    def use(self, root) -> None:
        self.root, self.disk = root, FaultyDisk(root)
        self.db, self.other = Database(root), Database(root, patience=0.0)
        self.readers = [Database(root) for _ in range(2)]

    def close(self) -> None:
        for each in (self.db, self.other, *self.readers):
            each.close()

    def with_more(self, labels) -> tuple:
        """Perhaps one label more for an item that has one."""
        more = [self.more.choice([0, 1, 2, 5])] if labels and self.more.random() < self.several else []
        return tuple(sorted({*labels, *more}))

    def said(self, labels):
        """Labels as a user may give them: lists, or if no item has two one each."""
        if any(len(own) > 1 for own in labels) or self.more.random() < 0.3:
            return [list(own) for own in labels]
        return [own[0] if own else None for own in labels]

    def codes(self) -> dict:
        return {item.id: item.code for item in self.db.items(limit=1000)}

    def learned(self):
        return self.db._read(lambda s: (s.hasher, s.weights))

    def check(self) -> None:
        now, oracle, rng = self.oracle.now, self.oracle, self.rng
        expected = {own: thing.said for own, thing in now.things.items()}
        for db in (self.db, *self.readers):
            if db is not self.db and rng.random() < 0.4:
                continue  # it follows several operations at once
            assert db.info()["operation"] == oracle.operation
            assert db.version == now.version
            found = db.items(limit=1000)
            assert {i.id: (i.labels, i.sha256, i.columns) for i in found} == expected
            assert {i.id: i.code for i in found} == {o: now.codes[t.number] for o, t in now.things.items()}
            assert [now.things[i.id].number for i in found] == sorted(t.number for t in now.things.values())
            self.check_search(db)
        changed = now.labelled().items() ^ now.learned.items()
        assert self.db.info()["n_waiting"] == len({number for number, _ in changed})

    def check_search(self, db) -> None:
        rng, now = self.rng, self.oracle.now
        rank, k = rng.choice(RANKS), rng.choice([1, 3, 10, 100])
        radius = rng.choice([None, None, None, 2])
        classes, where, meets = None, None, lambda thing: True
        present = {label for thing in now.things.values() for label in thing.labels}
        if present and rng.random() < 0.2:
            classes = rng.sample(sorted(present, key=str), 1)
            classes += [label for label in present if self.more.random() < 0.2]
            meets = lambda thing: bool(set(thing.labels) & set(classes))  # noqa: E731
        elif rng.random() < 0.2 and "price" in db.info()["columns"]:
            where, meets = "price <= 4", lambda thing: thing.columns.get("price", 5) <= 4
        how = {"k": k, "radius": radius, "rank": rank, "classes": classes, "where": where, "rescore": True}
        own, query = None, small.QUERIES[rng.randrange(len(small.QUERIES))]
        if now.things and rng.random() < 0.4:
            own = rng.choice(list(now.things))
            query = POOL[now.things[own].row]
        if own is not None and rng.random() < 0.5:
            (answer,) = db.search_ids([own], **how)
        else:
            own = None
            (answer,) = db.search(query[None], **how)
        assert answer.version == now.version
        self.oracle.check_hits(answer.hits, query, rank, k, radius, own, meets)

    # One step: an operation, and what goes wrong with it.

    def step(self) -> None:
        kind = self.rng.choices(list(KINDS), list(KINDS.values()))[0]
        fault = self.rng.choices(list(FAULTS), list(FAULTS.values()))[0]
        if kind in ("open_again", "export", "verify"):
            self.done.append(kind)
            getattr(self, f"do_{kind}")()
        else:
            prepared = getattr(self, f"do_{kind}")()
            if prepared is not None:
                self.attempt(kind, fault, *prepared)
        self.check()

    def attempt(self, kind, fault, expected, work, apply) -> None:
        """Do ``work``, whose commits are of the kinds ``expected``, and ``apply`` what was committed.

        What is committed when a call fails is nothing; when it is killed, all or nothing. Only encoding again
        has a commit for each segment.
        """
        disk, before, rng = self.disk, self.oracle.operation, self.rng
        number = rng.randrange(rng.choice([4, 12, 40]))
        errors = {"error": OSError(errno.EIO, "I/O error"), "full": OSError(errno.ENOSPC, "No space left")}
        disk.heal()
        disk.n_calls = 0
        if fault in errors:
            disk.plan, disk.forever = {number: errors[fault]}, rng.random() < 0.5
        elif fault in ("kill", "least", "most"):
            disk.plan = {number: Killed()}
        elif fault == "stopped":
            disk.plan = {number: Stopped()}
        seen: list = []
        for _ in range(2):
            disk.looks[rng.randrange(30)] = lambda: self.look(kind, seen)
        self.done.append(f"{kind} {expected} ({fault} at {number})")
        outcome = "done"
        begin = catalogue_module.Catalogue.begin

        def crowded(catalogue):
            begin(catalogue)
            pages = catalogue.execute("PRAGMA page_count")[0][0]
            catalogue.execute(f"PRAGMA max_page_count = {pages + number % 5}")

        with disk.in_use(), ExitStack() as stack:
            if fault == "no room":
                stack.enter_context(mock.patch.object(catalogue_module.Catalogue, "begin", crowded))
            try:
                work()
            except (Killed, Stopped) as error:
                outcome = "killed" if isinstance(error, Killed) else "stopped"
            except DatabaseError as error:
                outcome = "failed"
                if fault not in (*errors, "no room"):
                    raise AssertionError(f"{kind} failed by itself") from error
        if outcome == "done" and fault in ("least", "most") and rng.random() < 0.5:
            outcome = "done, then dark"
            disk.power_goes()
        if outcome in ("killed", "done, then dark"):
            how, left = fault, disk.left(self.new_root(), fault)
            self.close()
            self.use(left)
            self.done.append(f"  {outcome} ({how}) at call {disk.n_calls}")
        disk.heal()
        new = [o.kind for o in self.db._reader.catalogue.operations(before)]
        self.check_commits(new, expected, outcome)
        apply(new)
        for operation, things in seen:
            assert operation in (before, self.oracle.operation) or "reencode" in new or "add" in new
            if operation == self.oracle.operation and not {"add", "update"} & set(new):
                assert things == set(self.oracle.now.things)
        if rng.random() < 0.3:
            assert verify(self.root) == []
        if new == [] and expected and outcome in ("failed", "stopped") and rng.random() < 0.5:
            self.attempt(kind, "none", expected, work, apply)  # goes on when the trouble is over

    def check_commits(self, new, expected, outcome) -> None:
        if expected == ["reencode"]:
            assert set(new) <= {"reencode"}
        elif outcome.startswith("done"):
            assert new == expected
        elif outcome == "failed":
            assert new in ([], expected[:-1])  # what somebody else added meanwhile stays
        else:
            assert new == expected[: len(new)]

    def look(self, kind, seen) -> None:
        """What others do in the middle of an operation: they see one state, and cannot write."""
        reader = self.readers[0]
        while True:
            operation = reader.info()["operation"]
            things = {item.id for item in reader.items(limit=1000)}
            if reader.info()["operation"] == operation:
                break
        seen.append((operation, things))
        with pytest.raises(DatabaseBusy):
            self.other.update(policy=self.policy) if kind in ("update", "reencode") else self.other.compact()

    # Operations: each returns kinds of commits, what to do, and what follows from it; or None.

    def some(self, most):
        ids = list(self.oracle.now.things)
        return self.rng.sample(ids, min(len(ids), self.rng.randint(1, most)))

    def do_add(self):
        rows = [self.rng.randrange(len(POOL)) for _ in range(self.rng.choice([1, 1, 1, 2, 5]))]
        labels = [(int(POOL_LABELS[row]),) if self.rng.random() < 0.8 else () for row in rows]
        labels = [self.with_more(own) for own in labels]
        return self.addition(None, rows, labels, [{}] * len(rows), False)

    def do_add_with_ids(self):
        there = self.some(2)
        ids = list(dict.fromkeys([*self.rng.sample(OWN_IDS, 2), *there]))
        rows = [self.rng.randrange(len(POOL)) for _ in ids]
        labels = [self.with_more((int(POOL_LABELS[row]),)) for row in rows]
        columns = [{"price": p} if (p := self.rng.choice([None, 1, 4, 7])) else {} for _ in ids]
        for k, own in enumerate(ids):  # some come again as they are
            if own in self.oracle.now.things and self.rng.random() < 0.5:
                thing = self.oracle.now.things[own]
                rows[k], labels[k], columns[k] = thing.row, thing.labels, thing.columns
        return self.addition(ids, rows, labels, columns, self.rng.random() < 0.7)

    def addition(self, ids, rows, labels, columns, replaces):
        oracle = self.oracle
        new = oracle.fresh(ids, rows, labels, columns)
        there = [own for own in new if own in oracle.now.things]
        said = {"columns": {"price": [each.get("price") for each in columns]}} if ids else {}

        given = self.said(labels)

        def work():
            return self.db.add(POOL[rows], given, ids=ids, replace=replaces, **said)

        if there and not replaces:
            with pytest.raises(DatabaseError, match=re.escape(f"The id {there[0]!r} is there already")):
                work()
            return None

        def check():
            report = work()
            assert report.added == list(new)
            assert report.replaced == there

        return ["add"] * bool(new), check, lambda kinds: kinds and oracle.add(new, ids is not None)

    def do_remove(self):
        gone = self.some(3)
        if not gone or len(self.oracle.now.things) < 6:
            return None
        with pytest.raises(NoSuchItem):
            self.db.remove([*gone, 999])
        return ["remove"], lambda: self.db.remove(gone), lambda kinds: kinds and self.oracle.remove(gone)

    def of_class(self, label):
        return [own for own, thing in self.oracle.now.things.items() if label in thing.labels]

    def exchanged(self, ids, label, new) -> dict:
        """Labels of items by id, with others in the place of one."""
        things = self.oracle.now.things
        return {own: tuple(sorted({*things[own].labels} - {label} | {*new})) for own in ids}

    def do_remove_class(self):
        label = self.rng.randrange(5)
        after = self.exchanged(self.of_class(label), label, ())
        gone = [own for own, labels in after.items() if not labels]
        left = {own: labels for own, labels in after.items() if labels}
        if not after:
            return None

        def work():
            report = self.db.remove_classes([label])
            number = {own: self.oracle.now.things[own].number for own in after}
            assert report.removed == sorted(gone, key=number.get)
            assert report.relabelled == sorted(left, key=number.get)

        return ["remove"], work, lambda kinds: kinds and self.oracle.remove(gone, left)

    def do_relabel(self):
        chosen, label = self.some(3), self.rng.choice([None, 0, 1, 2, 3, 7])
        labels = () if label is None else self.with_more((label,))
        given = self.said([labels])[0]
        after = dict.fromkeys(chosen, labels)
        return self.relabelling(after, lambda: self.db.relabel(chosen, given)) if chosen else None

    def do_relabel_class(self):
        old, label = self.rng.randrange(3), self.rng.choice([None, 1, 8])
        after = self.exchanged(self.of_class(old), old, () if label is None else (label,))
        return self.relabelling(after, lambda: self.db.relabel_classes([old], label)) if after else None

    def relabelling(self, after, work):
        things = self.oracle.now.things
        changed = {own: labels for own, labels in after.items() if things[own].labels != labels}

        def apply(kinds):
            if kinds:
                self.oracle.relabel(changed)

        return ["relabel"] * bool(changed), work, apply

    def do_update(self):
        strategy = self.rng.choice(["incremental", "incremental", "incremental", "relearn"])
        oracle = self.oracle
        labelled, first_new = oracle.now.labelled(), oracle.next_number
        nothing = strategy == "incremental" and labelled == oracle.now.learned
        stay = bool(labelled.items() & oracle.now.learned.items())
        n_classes = len({label for own in labelled.values() for label in own})
        if not nothing and (n_classes < 2 or (strategy == "incremental" and not stay)):
            with pytest.raises(DatabaseError):
                self.db.update(strategy, policy=self.policy)
            return None
        adds = not nothing and self.rng.random() < 0.2
        new = oracle.fresh(None, [self.rng.randrange(len(POOL))], [(1,)], [{}]) if adds else {}
        waiting = [new] if new else []

        def meanwhile(phase, done):
            if waiting and phase in ("encoding", "ranking"):
                ((row, (label,), _),) = waiting[0].values()
                self.other.add(POOL[[row]], [label])
                waiting.clear()

        def work():
            self.db.update(strategy, policy=self.policy, progress=meanwhile)

        def apply(kinds):
            for kind in kinds:
                if kind == "add":
                    oracle.add(new, False)
                else:
                    oracle.update(strategy, labelled, first_new, *self.learned(), self.codes())

        return ["add"] * bool(new) + ["update"] * (not nothing), work, apply

    def do_reencode(self):
        """Where nothing waits to be learned; a commit for each segment with older codes."""
        oracle = self.oracle
        if oracle.now.labelled() != oracle.now.learned:
            return self.do_update()

        def apply(kinds):
            done = self.db._reader.catalogue.operations(oracle.operation)
            oracle.encode_again(self.codes(), len(kinds), bool(done) and done[-1].details["is_last"])

        return ["reencode"], lambda: self.db.update(reencode=True, policy=self.policy), apply

    def do_undo(self):
        if not self.oracle.history:
            with pytest.raises(DatabaseError):
                self.db.undo()
            return None
        return ["undo"], self.db.undo, lambda kinds: kinds and self.oracle.undo(self.codes())

    def do_compact(self):
        return ["compact"], self.db.compact, lambda kinds: kinds and self.oracle.compact()

    def do_open_again(self) -> None:
        self.db.close()
        self.db = Database(self.root)

    def do_verify(self) -> None:
        assert verify(self.root) == []

    def do_export(self) -> None:
        path, now = self.folder / "out.npz", self.oracle.now
        self.db.export(path)
        found = np.load(path)
        is_json = set(found["json"].tolist())
        ids = [json.loads(own) if "id" in is_json else own for own in found["id"].tolist()]
        assert ids == sorted(now.things, key=lambda own: now.things[own].number)
        assert np.array_equal(found["X"], POOL[[now.things[own].row for own in ids]])
        expected = [now.things[own].labels for own in ids]
        if any(len(own) > 1 for own in expected):
            names = found["label_names"]
            labels = [tuple(sorted(names[own].tolist())) for own in found["Y"]]
        else:
            missing = found["y.missing"] if "y.missing" in found else np.zeros(len(ids), bool)
            labels = [() if gone else (y,) for y, gone in zip(found["y"].tolist(), missing, strict=True)]
        assert labels == expected


def simulate(seed: int) -> None:
    """One life; what it did is told if it fails, and how to see it again."""
    with small.fast_folder() as folder:
        simulation = Simulation(seed, folder)
        try:
            simulation.run()
        except BaseException as error:
            again = f"python {os.path.relpath(__file__)} {seed}"
            story = "\n".join(simulation.done)
            error.add_note(f"{story}\nSeed {seed}; to see it again: {again}")
            raise


if __name__ == "__main__":
    from threadpoolctl import threadpool_limits

    n_failed = 0
    with threadpool_limits(1):
        for text in sys.argv[1:]:
            first, _, last = text.partition("-")
            for number in range(int(first), int(last or first) + 1):
                try:
                    simulate(number)
                except Exception:
                    n_failed += 1
                    traceback.print_exc()
    print(f"{n_failed} failed")
    sys.exit(bool(n_failed))
