"""Backups beside writers are one moment of the database; an interrupted one is still the one before."""

from __future__ import annotations

import io
import shutil
import tarfile
import threading

import pytest
import small

from sihash.database import CorruptFile, Database, DatabaseBusy, DatabaseError, verify
from sihash.store import backup
from sihash.store.backup import archived, back_up, restore
from sihash.store.locks import locked


def tar_of(root, path):
    with archived(root) as archive:
        path.write_bytes(b"".join(archive.pieces))
        assert path.stat().st_size == archive.size
    return path


def test_a_backup_is_the_database(db, folder):
    db.add(*small.rows(5, seed=1))
    db.update()
    db.backup(folder / "copy")
    restore(folder / "copy", folder / "restored")
    restore(tar_of(db.path, folder / "db.tar"), folder / "unpacked")
    for name in ("copy", "restored", "unpacked"):
        assert verify(folder / name) == []
        with Database(folder / name) as copy:
            assert small.seen(copy) == small.seen(db)
    with Database.restore(folder / "again", folder / "db.tar") as again:
        assert again.add(*small.rows(2, seed=2)).added == [65, 66]
        again.undo()
        again.undo()
        assert again.version == 1


def test_only_new_files_are_copied(db, folder):
    first = db.backup(folder / "copy")
    before = {
        path: path.stat().st_ino for path in (folder / "copy").rglob("*.*") if path.parent.name != "copy"
    }
    assert first.n_copied == len(before)
    assert db.backup(folder / "copy").n_copied == 0
    db.add(*small.rows(1, seed=1))
    db.remove([3])
    second = db.backup(folder / "copy")
    assert (second.n_copied, second.n_kept) == (3, first.n_copied)  # rows, vectors, codes
    assert all(path.stat().st_ino == inode for path, inode in before.items())
    db.update()
    db.compact()
    db.backup(folder / "copy")
    assert verify(folder / "copy") == []
    for part in ("segments", "models"):  # nothing of before is left
        names = [sorted(path.name for path in (root / part).iterdir()) for root in (db.path, folder / "copy")]
        assert names[0] == names[1]


def test_beside_writers_every_backup_is_one_moment(db, folder):
    """Each addition brings one item, so the number of items says which operation was the last."""
    stop = threading.Event()

    def write():
        seed = 100
        while not stop.is_set():
            db.add(*small.rows(1, seed=seed))
            seed += 1

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        for number in range(8):
            done = back_up(db.path, folder / "copy")
            restore(tar_of(db.path, folder / "db.tar"), folder / f"unpacked-{number}")
            for root in (folder / "copy", folder / f"unpacked-{number}"):
                assert verify(root) == []
                with Database(root) as copy:
                    assert len(copy) == 60 + copy.info()["operation"] - 1
            with Database(folder / "copy") as copy:
                assert copy.info()["operation"] == done.operation
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert len(db) > 62
    assert verify(db.path) == []


def test_what_deletes_files_waits(db, folder):
    with archived(db.path):
        db.add(*small.rows(1, seed=1))
        with pytest.raises(DatabaseBusy, match="updating or copying"):
            db.compact()
    with locked(db.path / "update.lock", "is updating it"), pytest.raises(DatabaseBusy):
        back_up(db.path, folder / "copy", patience=0.0)
    assert not (folder / "copy").exists()


@pytest.mark.parametrize("when", range(6))
def test_an_interrupted_backup_is_the_one_before(db, folder, monkeypatch, when):
    back_up(db.path, folder / "copy")
    with Database(folder / "copy") as copy:
        before = small.seen(copy)
    db.add(*small.rows(5, seed=1))
    db.update()
    write, n = backup.whole_file, 0

    def failing(path):
        nonlocal n
        n += 1
        if n == when + 1:
            raise OSError(28, "No space left on device")
        return write(path)

    with monkeypatch.context() as patch:
        patch.setattr(backup, "whole_file", failing)
        with pytest.raises(DatabaseError, match="No space left"):
            back_up(db.path, folder / "copy")
    assert verify(folder / "copy") == []
    with Database(folder / "copy") as copy:
        assert small.seen(copy) == before
    back_up(db.path, folder / "copy")
    with Database(folder / "copy") as copy:
        assert small.seen(copy) == small.seen(db)


def test_a_first_backup_that_was_killed_goes_on(db, folder):
    back_up(db.path, folder / "copy")
    (folder / "copy" / "catalogue.sqlite").rename(folder / "copy" / ".catalogue.sqlite.01234567.part")
    next((folder / "copy" / "segments").iterdir()).unlink()
    assert back_up(db.path, folder / "copy").n_copied == 1
    assert verify(folder / "copy") == []
    assert not list((folder / "copy").glob(".*"))


@pytest.mark.parametrize("part", ["segments", "models"])
def test_damage_is_not_copied(db, folder, part):
    back_up(db.path, folder / "copy")
    db.add(*small.rows(5, seed=1))
    db.update()
    newest = max((db.path / part).iterdir(), key=lambda path: path.stat().st_mtime_ns)
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    with pytest.raises(CorruptFile, match=newest.name):
        back_up(db.path, folder / "copy")
    assert verify(folder / "copy") == []
    newest.unlink()
    with pytest.raises(CorruptFile, match="missing"):
        back_up(db.path, folder / "copy")


def test_only_an_earlier_state_is_written_over(db, folder):
    back_up(db.path, folder / "copy")
    with Database(folder / "copy") as copy:
        copy.add(*small.rows(1, seed=1))
    db.add(*small.rows(1, seed=1))
    db.add(*small.rows(1, seed=2))
    with pytest.raises(DatabaseError, match="holds no earlier state"):
        back_up(db.path, folder / "copy")
    (folder / "full").mkdir()
    (folder / "full" / "mine.txt").touch()
    for target in ("full", "db"):
        with pytest.raises(DatabaseError):
            restore(folder / "copy", folder / target)
    with pytest.raises(DatabaseError, match="no database at"):
        back_up(folder / "full", folder / "new")
    assert not (folder / "new").exists()


def damaged(data, how):
    if how == "short":
        return data[: len(data) // 2]
    if how == "no archive":
        return b"not a tar"
    if how == "a byte":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            place = next(member for member in archive if "vectors" in member.name).offset_data
        return data[: place + 200] + bytes([data[place + 200] ^ 1]) + data[place + 201 :]
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo(how)
        if how == "segments/link":
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member, io.BytesIO())
    return file.getvalue()


@pytest.mark.parametrize(
    "how",
    ["short", "no archive", "a byte", "../x", "/tmp/x", "segments/../../x", "segments/link", "mine.txt"],
)
def test_of_a_bad_archive_nothing_is_left(db, folder, how):
    path = tar_of(db.path, folder / "db.tar")
    path.write_bytes(damaged(path.read_bytes(), how))
    with pytest.raises(DatabaseError):
        restore(path, folder / "restored")
    assert sorted(each.name for each in folder.iterdir()) == ["db", "db.tar"]


def test_a_folder_that_is_read_only_can_be_copied(db, folder):
    shutil.copytree(db.path, folder / "mounted")
    (folder / "mounted").chmod(0o555)
    try:
        assert back_up(folder / "mounted", folder / "copy").n_kept == 0
        tar_of(folder / "mounted", folder / "db.tar")
    finally:
        (folder / "mounted").chmod(0o755)
    assert verify(folder / "copy") == []
