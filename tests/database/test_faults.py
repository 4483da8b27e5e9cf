"""Every call that can fail, failing in its turn; every moment at which the power can go."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import closing
from itertools import product

import pytest
import small
from faulty_disk import FaultyDisk, Killed
from safetensors import safe_open

from sihash.database import Database, DatabaseError, verify
from sihash.store import files
from sihash.store.atomic_file import whole_file
from sihash.store.catalogue import TABLES, Catalogue
from sihash.store.files import Disk

CHANGES = {
    "add": lambda db: db.add(*small.rows(4, seed=1, classes=4)),
    "replace": lambda db: db.add(
        small.rows(3, seed=5)[0],
        [0, None, 1],
        ids=[1, "new", 61],
        columns={"price": [1, 2.5, None], "more": ["a", None, "b"]},
        replace=True,
    ),
    "remove": lambda db: db.remove([1, 2]),
    "relabel": lambda db: db.relabel([3, 61], "new"),
    "update": lambda db: db.update(),
    "undo": lambda db: db.undo(),
    "compact": lambda db: db.compact(),
}


@pytest.fixture(scope="module")
def changed(template):
    """A database with something to learn, to undo and to compact; closed."""
    with small.fast_folder() as path:
        with Database(small.copy(template, path / "changed")) as db:
            db.add(*small.rows(6, seed=3))
            db.remove([0, 60])
            db.relabel([4, 5], 2)
        yield path / "changed"


class Failing(Disk):
    """Call number ``k`` fails with ``number``: once, or as all after it until the trouble is over."""

    def __init__(self, k=None, number=errno.EIO, forever=False):
        self.n_calls, self.k, self.number, self.forever, self.names = 0, k, number, forever, []

    def _call(self, name):
        k = self.n_calls
        self.n_calls += 1
        self.names.append(name)
        if self.k is not None and (k == self.k or (self.forever and k > self.k)):
            raise OSError(self.number, os.strerror(self.number))

    def create(self, path):
        self._call("create")
        return super().create(path)

    def write(self, descriptor, data):
        half = len(data) // 2
        try:
            self._call("write")
        except OSError:
            super().write(descriptor, data[:half])  # a disk fills up in the middle of a write
            raise
        return super().write(descriptor, data[:1000])  # and may write less than it was given

    def sync(self, descriptor):
        self._call("sync")
        super().sync(descriptor)

    def save(self, hasher, path, **options):
        self._call("save")
        super().save(hasher, path, **options)

    def make_folder(self, path):
        self._call("make_folder")
        super().make_folder(path)

    def sync_folder(self, path):
        self._call("sync_folder")
        super().sync_folder(path)

    def unlink(self, path):
        self._call("unlink")
        super().unlink(path)


def calls_of(change, root, monkeypatch):
    """How many calls a change makes when nothing fails, and what it leads to."""
    disk = Failing()
    monkeypatch.setattr(files, "disk", disk)
    with Database(root) as db:
        change(db)
        monkeypatch.undo()
        return disk.n_calls, small.seen(db)


@pytest.mark.parametrize("kind", CHANGES)
def test_the_kth_call_fails(kind, changed, folder, monkeypatch):
    """For every k; in two of the four ways of failing, in a soak in all of them."""
    change = CHANGES[kind]
    n_calls, after = calls_of(change, small.copy(changed, folder / "clean"), monkeypatch)
    for k, way in product(range(n_calls), range(4 if small.SOAK else 1)):
        root = small.copy(changed, folder / f"{k}-{way}")
        with Database(root) as db:
            before = small.seen(db)
            number, forever = (errno.EIO, errno.ENOSPC)[(k + way) % 2], (k + way) % 4 < 2
            monkeypatch.setattr(files, "disk", Failing(k, number, forever))
            try:
                change(db)
                done = True  # what failed was only the sweeping of old files
            except DatabaseError as error:
                done, message = False, str(error)
            monkeypatch.undo()
            assert done or os.strerror(number) in message
            assert small.seen(db) == (after if done else before)
            assert verify(root) == []
            if not done:  # the same process, the same object: it goes on when the trouble is over
                change(db)
                assert small.seen(db) == after
                assert verify(root) == []
        shutil.rmtree(root)


def test_the_kth_call_of_a_creation_fails(folder, monkeypatch):
    disk = Failing()
    monkeypatch.setattr(files, "disk", disk)
    expected = small.seen(small.make(folder / "clean", n=12))
    monkeypatch.undo()
    for k in range(disk.n_calls):
        root = folder / f"{k}"
        monkeypatch.setattr(files, "disk", Failing(k))
        with pytest.raises(DatabaseError):
            small.make(root, n=12)
        monkeypatch.undo()
        assert small.seen(small.make(root, n=12)) == expected


# SQLite's own disk trouble.


@pytest.mark.parametrize("kind", CHANGES)
def test_the_catalogue_meets_a_full_disk(kind, changed, folder, monkeypatch):
    """SQLite may grow by ever more pages until the change succeeds."""
    begin = Catalogue.begin
    root = small.copy(changed, folder / "db")
    with Database(root) as db:
        before = small.seen(db)
        for room in range(40):

            def crowded(self, room=room):
                begin(self)
                pages = self.execute("PRAGMA page_count")[0][0]
                self.execute(f"PRAGMA max_page_count = {pages + room}")

            monkeypatch.setattr(Catalogue, "begin", crowded)
            try:
                CHANGES[kind](db)
                break
            except DatabaseError as error:
                message = str(error)
            finally:
                monkeypatch.undo()
            assert "full" in message
            assert small.seen(db) == before
            assert verify(root) == []
        else:
            pytest.fail("the change never succeeded")
        assert small.seen(db) != before or kind == "compact"
        assert verify(root) == []


# Power.

STEPS = {**CHANGES, "reencode": lambda db: db.update(reencode=True)}


@pytest.fixture(scope="module")
def old_codes(changed):
    """As `changed`, with an update after which nothing was encoded again; closed."""
    with small.fast_folder() as path:
        with Database(small.copy(changed, path / "old")) as db:
            db.update()
        yield path / "old"


def in_place(folder, of, name):
    """A copy of a database in a folder of its own, in which nothing else is."""
    (place := folder / name).mkdir()
    return small.copy(of, place / "db")


def run(change, root, number=None):
    """Let the process be killed, or the power go, at call ``number`` of a change; the disk as it is then."""
    disk, acknowledged = FaultyDisk(root), False
    disk.plan = {} if number is None else {number: Killed()}
    with disk.in_use(), closing(Database(root)) as db:
        try:
            change(db)
            acknowledged = True
            disk.power_goes()
        except Killed:
            pass
    return disk, acknowledged


@pytest.mark.parametrize("kind", STEPS)
def test_the_power_goes_at_any_call(kind, changed, old_codes, folder):
    change, start = STEPS[kind], old_codes if kind == "reencode" else changed
    clean = in_place(folder, start, "clean")
    states = []
    with Database(clean) as db:
        states.append(small.seen(db))
        change(db)
        states.append(small.seen(db))
    before, after = states
    acknowledged, k = False, 0
    while not acknowledged:
        disk, acknowledged = run(change, in_place(folder, start, f"{k}"), k)
        for how in ("kill", "least", "most"):
            image = disk.left(folder / f"{k}" / how, how)
            with Database(image) as db:
                found = small.seen(db)
                # Encoding again has a commit for each segment.
                assert found == after if acknowledged else found in states or kind == "reencode"
                assert verify(image) == []
                if not acknowledged and (found == before or kind == "reencode") and kind != "compact":
                    change(db)
                    assert small.seen(db) == after
        shutil.rmtree(folder / f"{k}")
        k += 1
    assert k > 3


def test_the_power_goes_at_any_call_of_a_creation(folder):
    (folder / "clean").mkdir()
    with small.make(folder / "clean" / "db", n=12) as db:
        expected, k, created = small.seen(db), 0, False
    while not created:
        (place := folder / f"{k}").mkdir()
        disk = FaultyDisk(place / "db")
        disk.plan = {k: Killed()}
        with disk.in_use():
            try:
                small.make(place / "db", n=12).close()
                created = True
                disk.power_goes()
            except Killed:
                pass
        for how in ("kill", "least", "most"):
            image = disk.left(place / how, how)
            try:
                Database(image).close()
            except DatabaseError as error:
                assert not created, "a finished database is gone"
                if "no database" not in str(error) and "never finished" not in str(error):
                    raise
                small.make(image, n=12).close()
            with Database(image) as db:
                assert small.seen(db) == expected
                assert verify(image) == []
        shutil.rmtree(place)
        k += 1
    assert k > 10


def test_the_power_goes_at_any_call_of_replacing_a_file(folder):
    """An export or a model that is written again: the old one or the new one, whole."""
    k, done = 0, False
    while not done:
        (root := folder / f"{k}" / "out").mkdir(parents=True)
        (root / "items.npz").write_bytes(b"old")
        disk = FaultyDisk(root)
        disk.plan = {k: Killed()}
        with disk.in_use():
            try:
                with whole_file(root / "items.npz") as file:
                    file.write(b"the new one")
                done = True
                disk.power_goes()
            except Killed:
                pass
        for how in ("kill", "least", "most"):
            found = (disk.left(folder / f"{k}" / how, how) / "items.npz").read_bytes()
            assert found == b"the new one" if done else found in (b"old", b"the new one")
        k += 1
    assert k > 3


def test_sqlite_syncs_every_commit(db, monkeypatch):
    """SQLite is trusted with its own files because it is told to sync them."""
    found, begin = [], Catalogue.begin

    def asked(self):
        begin(self)
        found.append((self.execute("PRAGMA synchronous"), self.execute("PRAGMA journal_mode")))

    monkeypatch.setattr(Catalogue, "begin", asked)
    db.remove([1])
    db.update()
    db.compact()
    assert found == [([(2,)], [("wal",)])] * 3  # FULL


# A second kill, while what the first one left is being mended.


def committed(root):
    """All that the catalogue holds and names, to the byte, but for times and the random part of names."""
    with closing(Catalogue(root)) as catalogue:
        held = {table: catalogue.rows(table) for table in TABLES if table not in ("files", "operations")}
        named = sorted((str(each), content(root / file.path)) for *each, file in catalogue.files())
        operations = [(o.number, o.kind, o.version, o.target) for o in catalogue.operations()]
    return held, named, operations


def content(path):
    """The bytes of a file; of safetensors, whose header comes in any order, header and tensors."""
    if path.suffix != ".safetensors":
        return path.read_bytes()
    with safe_open(path, "numpy") as file:
        header = {key: text for key, text in file.metadata().items() if key != "sha256"}
        tensors = [(name, file.get_tensor(name).tobytes()) for name in sorted(file.keys())]
    return repr((sorted(header.items()), tensors)).encode()


@pytest.mark.parametrize("kind", ["add", "update", "reencode", "compact"])
def test_a_second_kill_inside_recovery(kind, changed, old_codes, folder):
    """At every call of opening, sweeping and doing it again; after first kills at some calls, or at all."""
    change, start = STEPS[kind], old_codes if kind == "reencode" else changed

    def go_on(db):
        """What the next process does: the operation, unless it is done."""
        if not was_done(db):
            change(db)

    with Database(start) as db:
        first = db.info()["operation"]

    def was_done(db):
        done = db._reader.catalogue.operations(first)
        return bool(done) and done[-1].details.get("is_last", True)

    clean = in_place(folder, start, "clean")
    disk, _ = run(change, clean)
    expected, n_calls = committed(clean), disk.n_calls
    for k in range(n_calls) if small.SOAK else range(1, n_calls, max(1, n_calls // 4)):
        disk, _ = run(change, in_place(folder, start, f"{k}"), k)
        acknowledged, again = False, 0
        while not acknowledged:
            (place := folder / f"{k}" / f"{again}").mkdir()
            second, acknowledged = run(go_on, disk.left(place / "db", ("kill", "least")[again % 2]), again)
            image = second.left(place / "left", ("least", "most", "kill")[again % 3])
            with Database(image) as db:
                go_on(db)
            assert committed(image) == expected
            assert verify(image) == []
            shutil.rmtree(place)
            again += 1
        shutil.rmtree(folder / f"{k}")
