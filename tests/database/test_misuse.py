"""What is meant otherwise, or cannot be meant, is one sentence, and changes nothing."""

from __future__ import annotations

import json
import sqlite3
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small
from typer.testing import CliRunner

from sihash import SIH
from sihash.cli import app
from sihash.database import Database, DatabaseError, verify
from sihash.modelfile import ModelFileError
from sihash.store.catalogue import Catalogue

X, Y = small.rows(60, seed=0)
NEW, _ = small.rows(2, seed=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bits": 32}, "create has no parameter 'bits'; did you mean n_bits?"),
        ({"anchor": 9}, "did you mean anchors?"),
        ({"zzzz": 1}, "there are C_b, "),
        ({"n_bits": 0}, "n_bits must be a whole number of at least 1, got 0"),
        ({"n_bits": "8"}, "n_bits must be a whole number of at least 1, got '8'"),
        ({"source": None}, "Expected a path, a name, vectors"),
        ({"labels": object()}, "Expected one label, or one for each item"),
        ({"labels": 1.5}, "Labels must be text or whole numbers"),
        ({"index": 5}, "index and features are names, got 5"),
        ({"path": 5}, "Expected a path, got 5"),
    ],
)
def test_create(folder, given, message):
    arguments = {"path": folder / "db", "source": X, "labels": Y} | given
    with pytest.raises((DatabaseError, TypeError)) as caught:
        Database.create(**arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (folder / "db").exists()


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda db: db.search(X[:1], classes=object()), "Expected one value or a list of them"),
        (lambda db: db.remove(object()), "Expected one value or a list of them"),
        (lambda db: db.items(offset=-1), "offset must be a whole number of at least 0, got -1"),
        (lambda db: db.items(limit="a"), "limit must be a whole number"),
        (lambda db: db.sample("a"), "n must be a whole number"),
        (lambda db: db.export(5), "Expected a path, got 5"),
        (lambda db: db.add(NEW, columns=5), "Columns are values by name"),
        (lambda db: db.add(NEW, ids=["a\uffff", "b"]), "must not hold U+FFFE or U+FFFF, got 'a\\\\uffff'"),
        (lambda db: db.item("a\ufffe"), "must not hold U"),
    ],
)
def test_a_database(db, work, message):
    with pytest.raises(ValueError, match=message.replace("+", "[+]")):
        work(db)
    assert len(db) == 60


def test_a_closed_database_says_so(db):
    db.close()
    db.close()
    for work in (
        lambda: len(db),
        lambda: db.search(X[:1]),
        lambda: db.add(NEW),
        lambda: db.remove([1]),
        lambda: db.update(),
        lambda: db.undo(),
        lambda: db.features,
    ):
        with pytest.raises(DatabaseError, match="This database is closed"):
            work()
    with Database(db.path) as again:
        assert len(again) == 60


def test_labels_that_look_the_same_are_told(folder):
    labels = ["cat" if k % 3 == 0 else "Cat " if k % 3 == 1 else "dog" for k in range(60)]
    with pytest.warns(UserWarning, match="'Cat ' and 'cat' differ only in case or blanks"):
        db = Database.create(folder / "db", X, labels, **small.PARAMS)
    assert set(db.info()["classes"]) == {"cat", "Cat ", "dog"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        db.add(NEW, ["cat", "Cat "])  # told once
    with pytest.warns(UserWarning, match="'DOG' and 'dog'"):
        db.add(NEW, ["DOG", "dog"])
    db.close()


def test_a_killed_creation_is_begun_again(folder):
    """On the command line as in Python; a database that is there is not."""
    path = folder / "db"
    for name in ("segments", "models"):
        (path / name).mkdir(parents=True)
    sqlite3.connect(path / "catalogue.sqlite").execute("PRAGMA journal_mode = WAL").close()
    with pytest.raises(DatabaseError, match="never finished; create it again"):
        Database(path)
    np.savez(folder / "x.npz", X=X, y=Y)
    create = ["create", str(path), str(folder / "x.npz"), "--bits", "8", "--anchors", "10"]
    assert CliRunner().invoke(app, create).exit_code == 0
    assert verify(path) == []
    again = CliRunner().invoke(app, create)
    assert again.exit_code == 1
    assert "already holds a database" in again.output


def test_two_columns_of_one_name(folder):
    for names in (["vector", "label", "label"], ["vector", "label", "a", "a"]):
        arrays = [pa.array(list(X)), *(pa.array(Y) for _ in names[1:])]
        pq.write_table(pa.Table.from_arrays(arrays, names=names), folder / "two.parquet")
        with pytest.raises(ValueError, match=f"has two columns named '{names[-1]}'; give one"):
            Database.create(folder / "db", folder / "two.parquet", **small.PARAMS)


def test_a_folder_where_a_file_belongs(folder, monkeypatch):
    with pytest.raises(ModelFileError, match="cannot be read: Is a directory"):
        SIH.load(folder)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", "x.npy")

    np.save(folder / "x.npy", X)
    monkeypatch.setattr(np, "load", refused)
    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(ModelFileError, match="cannot be read: Permission denied"):
        SIH.load(folder / "x.npy")


def test_a_database_from_elsewhere_names_no_server_unless_it_is_allowed(db, monkeypatch):
    """It would get the codes, and the user's credentials for his own server."""
    catalogue = Catalogue(db.path, write=True)
    catalogue.begin()
    catalogue.delete("meta", "key = 'index'")
    catalogue.insert("meta", [("index", json.dumps("milvus+http://evil.example:19530/x"))])
    catalogue.commit("remove", 1, {"n_removed": 0})
    catalogue.close()

    def connected(*_):
        raise RuntimeError("a connection")

    monkeypatch.setattr("sihash.index.milvus_connection.connected", connected)
    monkeypatch.setattr("sihash.index.milvus.connected", connected)
    monkeypatch.setenv("SIHASH_ALLOW_INDEX_HOST", "other.example")
    for opened in (Database(db.path), Database(db.path, background=True)):
        with pytest.raises(DatabaseError, match=r"sihash --allow-index-host evil\.example"):
            opened.search(small.QUERIES)
    monkeypatch.setenv("SIHASH_ALLOW_INDEX_HOST", "other.example Evil.example")
    with pytest.raises(DatabaseError, match="a connection"):
        Database(db.path).search(small.QUERIES)
