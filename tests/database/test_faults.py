"""Every call that can fail, failing in its turn; every moment at which the power can go."""

from __future__ import annotations

import errno
import os
import shutil
from itertools import product

import pytest
import small

from sihash.database import DatabaseError, ImageDatabase, files, verify
from sihash.database.files import Disk

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
    "update": lambda db: db.update(),
    "undo": lambda db: db.undo(),
    "compact": lambda db: db.compact(),
}


@pytest.fixture(scope="module")
def changed(template):
    """A database with something to learn, to undo and to compact; closed."""
    with small.fast_folder() as path:
        with ImageDatabase(small.copy(template, path / "changed")) as db:
            db.add(*small.rows(6, seed=3))
            db.remove([0, 60])
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
    with ImageDatabase(root) as db:
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
        with ImageDatabase(root) as db:
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
    from sihash.database.catalogue import Catalogue

    begin = Catalogue.begin
    root = small.copy(changed, folder / "db")
    with ImageDatabase(root) as db:
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


class PowerLoss(BaseException):
    """Not an Exception: nothing may catch it and go on as if there were power."""


class Fragile(Disk):
    """A disk whose power goes at call ``k``. It knows what would still be there afterwards.

    A file's bytes are safe once it was synced, its name once its folder was; a file that was deleted may be
    back unless the folder was synced since. SQLite syncs its own files (synchronous = FULL) and is trusted.
    """

    def __init__(self, root, k):
        self.root, self.k, self.n_calls, self.dark = root, k, 0, False
        self.names, self.unsafe_bytes, self.unsafe_names, self.deleted = {}, set(), set(), {}

    def _call(self):
        if self.dark or self.n_calls == self.k:
            if not self.dark:
                self.image = self.root.with_name("image")
                if self.root.exists():
                    shutil.copytree(self.root, self.image)
            self.dark = True
            raise PowerLoss
        self.n_calls += 1

    def create(self, path):
        self._call()
        descriptor = super().create(path)
        self.names[descriptor] = path.relative_to(self.root)
        self.unsafe_bytes.add(self.names[descriptor])
        self.unsafe_names.add(self.names[descriptor])
        return descriptor

    def write(self, descriptor, data):
        self._call()
        return super().write(descriptor, data)

    def sync(self, descriptor):
        self._call()
        self.unsafe_bytes.discard(self.names[descriptor])

    def save(self, hasher, path, **options):
        self._call()
        super().save(hasher, path, **options)

    def make_folder(self, path):
        self._call()
        super().make_folder(path)

    def sync_folder(self, path):
        self._call()
        inside = path.relative_to(self.root) if path.is_relative_to(self.root) else None
        self.unsafe_names = {name for name in self.unsafe_names if name.parent != inside}
        self.deleted = {name: data for name, data in self.deleted.items() if name.parent != inside}

    def unlink(self, path):
        self._call()
        if path.exists():
            self.deleted[path.relative_to(self.root)] = path.read_bytes()
        super().unlink(path)

    def after_the_loss(self, how):
        """The folder as the next start finds it: unsafe files gone, or there and full of zeros."""
        image = self.image.with_name(f"image-{how}")
        if self.image.exists():
            shutil.copytree(self.image, image)
        for name in self.unsafe_names | self.unsafe_bytes:
            path = image / name
            if path.exists():
                size = path.stat().st_size
                path.unlink()
                if how == "zeros" and name in self.unsafe_bytes:
                    path.write_bytes(bytes(size))
        for name, data in self.deleted.items():
            (image / name).write_bytes(data)
        return image


@pytest.mark.parametrize("kind", CHANGES)
def test_the_power_goes_at_any_call(kind, changed, folder, monkeypatch):
    change = CHANGES[kind]
    n_calls, after = calls_of(change, small.copy(changed, folder / "clean"), monkeypatch)
    with ImageDatabase(changed) as db:
        before = small.seen(db)
    for k in range(n_calls + 1):
        place = folder / f"{k}"
        place.mkdir()
        root = small.copy(changed, place / "db")
        disk, acknowledged = Fragile(root, k), False
        monkeypatch.setattr(files, "disk", disk)
        with ImageDatabase(root) as db:
            try:
                change(db)
                acknowledged, disk.k = True, disk.n_calls
                disk.sync(-1)  # the power goes right after the call has returned
            except PowerLoss:
                pass
        monkeypatch.undo()
        for how in ("gone", "zeros"):
            image = disk.after_the_loss(how)
            with ImageDatabase(image) as db:
                found = small.seen(db)
                assert found == after if acknowledged else found in (before, after)
                assert verify(image) == []
                if found == before and not acknowledged and kind != "compact":
                    change(db)
                    assert small.seen(db) == after
        shutil.rmtree(place)


def test_the_power_goes_at_any_call_of_a_creation(folder, monkeypatch):
    with small.make(folder / "clean", n=12) as db:
        expected, k, created = small.seen(db), 0, False
    while not created:
        (place := folder / f"{k}").mkdir()
        disk = Fragile(place / "db", k)
        monkeypatch.setattr(files, "disk", disk)
        try:
            small.make(place / "db", n=12).close()
            created = True
        except PowerLoss:
            image = disk.after_the_loss(("gone", "zeros")[k % 2])
            monkeypatch.undo()
            with pytest.raises(DatabaseError, match=r"no database|never finished"):
                ImageDatabase(image)
            with small.make(image, n=12) as db:
                assert small.seen(db) == expected
                assert verify(image) == []
        monkeypatch.undo()
        shutil.rmtree(place)
        k += 1
    assert k > 10
