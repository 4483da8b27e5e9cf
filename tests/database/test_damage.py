"""Bytes that change on the disk: noticed, or without any effect on what is answered."""

from __future__ import annotations

import os
import random

import pytest
import small

from sihash.database import CorruptFile, Database, DatabaseError, verify
from sihash.store import files
from sihash.store.catalogue import FILE, Catalogue
from sihash.store.files import Written

SEED = int(os.environ.get("SIHASH_SEED", 1))
CATALOGUE_BYTES = 800  # flipped of the catalogue; a soak flips all


@pytest.fixture(scope="module")
def lived_in(template):
    """A database with a history: additions, removals, an update, an undo; closed."""
    with small.fast_folder() as path:
        with Database(small.copy(template, path / "db")) as db:
            db.add(*small.rows(6, seed=3, classes=4))
            db.remove([0, 60])
            db.update()
            db.remove([7])
            db.undo()
        yield path / "db"


def everything(db):
    """All that a user can see, features and training rows included."""
    info = {key: value for key, value in db.info().items() if key not in ("path", "bytes")}
    ids = [i.id for i in db.items(limit=1000)]
    of_items = db.search_ids(ids[:3], k=3, rank="hamming")
    return small.seen(db), info, of_items, db.search(small.QUERIES[:1], classes=[1], rank="hamming")


def flip(path, offset, mask):
    with open(path, "r+b") as file:
        file.seek(offset)
        value = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([value ^ mask]))


def named_files(root):
    """``(kind, version, file)`` of all files that the catalogue names."""
    catalogue = Catalogue(root)
    try:
        return [(kind, version, file) for kind, _, version, file in catalogue.files()]
    finally:
        catalogue.close()


@pytest.mark.timeout(7200)
def test_every_byte_of_every_checksummed_file(lived_in, folder):
    """Each of these files is checked whole before any of it is used. Outside a soak, every seventh byte."""
    root = small.copy(lived_in, folder / "db")
    named = [file for _, _, file in named_files(root)]
    assert {file.path for file in named} == {p.relative_to(root).as_posix() for p in root.glob("*/*")}
    rng, every = random.Random(SEED), 1 if small.SOAK else 7
    for file in named:
        for offset in range(rng.randrange(every), file.size, every):
            mask = rng.randrange(1, 256)
            flip(root / file.path, offset, mask)
            with pytest.raises(CorruptFile, match=os.path.basename(file.path)):
                files.check(root, file)
            flip(root / file.path, offset, mask)
        files.check(root, file)


def test_a_damaged_file_is_named_before_it_is_used(lived_in, folder):
    rng = random.Random(SEED)
    for number, (kind, version, file) in enumerate(named_files(lived_in)):
        root = small.copy(lived_in, folder / f"{number}")
        flip(root / file.path, rng.randrange(file.size), 0x10)
        assert [problem.file for problem in verify(root)] == [file.path]
        with Database(root) as db:
            try:
                everything(db)
                db.evaluate()
                db.add(*small.rows(2, seed=50))
                db.update()
                noticed = ""
            except CorruptFile as error:
                noticed = str(error)
        later = {path.name for path in lived_in.glob(f"{file.path.partition('.codes')[0]}.codes.v000002*")}
        if version in (None, 2) or (kind == "codes" and not later):
            assert os.path.basename(file.path) in noticed
        else:
            assert not noticed  # a version that is not in force is needed only to go back to it


@pytest.mark.timeout(7200)
def test_bytes_of_the_catalogue(lived_in, folder):
    """SQLite has no checksums: rows have, and the last operation counts them. In a soak, every byte."""
    root = small.copy(lived_in, folder / "db")
    with Database(root) as db:
        expected = everything(db)
    path = root / FILE
    size, rng = path.stat().st_size, random.Random(SEED)
    offsets = range(size) if small.SOAK else sorted(rng.sample(range(size), CATALOGUE_BYTES))
    noticed = []
    for offset in offsets:
        mask = rng.randrange(1, 256)
        data = path.read_bytes()
        flip(path, offset, mask)
        try:
            with Database(root) as db:
                assert everything(db) == expected, f"byte {offset} ^ {mask:#x}"
        except DatabaseError as error:
            noticed.append((offset, mask, str(error)))
        for leftover in root.glob(FILE + "-*"):
            leftover.unlink()
        path.write_bytes(data)
    assert noticed
    assert [each for each in noticed if FILE not in each[2]] == []


@pytest.mark.parametrize("mask", [0x3C, 0x80])
def test_a_number_of_operations_beyond_all_reason(lived_in, folder, mask):
    """The first byte of SQLite's ``user_version``: a number of a thousand millions, or a negative one."""
    root = small.copy(lived_in, folder / "db")
    flip(root / FILE, 60, mask)
    with pytest.raises(CorruptFile, match=r"catalogue.sqlite is damaged: operations are missing"):
        Database(root)


def test_a_log_left_by_a_killed_writer(lived_in, folder):
    """What it holds was never acknowledged: it counts, or it does not, as a whole."""
    root = small.copy(lived_in, folder / "db")
    with Database(root) as db:
        before = small.seen(db)
        checkpoint, Catalogue._checkpoint = Catalogue._checkpoint, lambda self: None
        try:
            db.remove([5])
            killed = small.copy(root, folder / "killed")
        finally:
            Catalogue._checkpoint = checkpoint
        after = small.seen(db)
    log = killed / (FILE + "-wal")
    size, rng = log.stat().st_size, random.Random(SEED)
    assert size > 0
    for offset in sorted(rng.sample(range(size), size if small.SOAK else 100)):
        copy = small.copy(killed, folder / f"{offset}")
        (copy / (FILE + "-shm")).unlink(missing_ok=True)
        flip(copy / log.name, offset, rng.randrange(1, 256))
        with Database(copy) as db:
            assert small.seen(db) in (before, after)
        assert verify(copy) == []


def test_rows_that_vanish_are_missed(lived_in, folder):
    for table in ("meta", "classes", "segments", "files", "items", "removed", "operations"):
        root = small.copy(lived_in, folder / table)
        catalogue = Catalogue(root, write=True)
        key = catalogue.execute(f"SELECT max(rowid) FROM {table}")[0][0]
        catalogue.execute(f"DELETE FROM {table} WHERE rowid = {key}")
        catalogue.close()
        with pytest.raises(CorruptFile, match=FILE):
            Database(root)
        assert verify(root)


def test_a_large_database_is_checked_as_it_is_read(lived_in, folder, monkeypatch):
    """Where opening does not look at every item, each is checked before it is shown."""
    monkeypatch.setattr("sihash.database.snapshot.CHECKED_ITEMS", 0)
    root = small.copy(lived_in, folder / "db")
    catalogue = Catalogue(root, write=True)
    catalogue.execute("UPDATE items SET class = 2 WHERE id = 12")
    catalogue.execute("DELETE FROM items WHERE id = 13")
    catalogue.close()
    db = Database(root)
    for use in (
        lambda: db.item(12),
        lambda: db.item(13),
        lambda: db.search(small.QUERIES, k=60),
    ):
        with pytest.raises(CorruptFile, match=FILE):
            use()
    assert db.item(14).id == 14


def test_written_files_are_read_back_only_as_they_were(folder):
    file = files.write_bytes(folder, "a.bin", [b"some", b"", b"thing"])
    assert files.read_checked(folder, file) == b"something"
    with pytest.raises(CorruptFile, match=r"a\.bin"):
        files.read_checked(folder, Written(file.path, file.size + 1, file.sha256))
    with pytest.raises(FileExistsError):
        files.write_bytes(folder, "a.bin", [b"again"])
