"""Every export can be read back, and gives the same collection."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import small

from sihash.database import Database, DatabaseError
from sihash.database.sources import open_source

X, Y = small.rows(60, seed=0)


def everything(db):
    items = db.items(limit=1000)
    return [(i.id, type(i.id), i.label, i.name, i.sha256, i.columns) for i in items]


def collections():
    n = len(X)
    half = [int(label) if k % 2 else None for k, label in enumerate(Y)]
    words = [None if k % 4 == 0 else ("\u00e9", "b", "")[k % 3] + "x" for k in range(n)]
    odd = {
        "price": [k if k % 3 else None for k in range(n)],
        "share": [k / 7 for k in range(n)],
        "colour": words,
        "new": [bool(k % 2) for k in range(n)],
        "far": [2**60 + k for k in range(n)],
        "empty text": ["" if k % 2 else "a" for k in range(n)],
    }
    taken = ("id", "label", "name", "vector", "code", "codes", "y", "X", "file", "n_bits", "json", "sha256")
    clashes = {name: list(range(n)) for name in (*taken, "column.a", "a", "price.missing", "allow_pickle")}
    texts = [None if k % 2 else f"class {k % 3}" for k in range(n)]
    mixed = [(k % 2, "x", None)[k % 3] for k in range(n)]
    return {
        "plain": (Y, {}),
        "no label for some": (half, {}),
        "labels that are text": (texts, {"columns": odd}),
        "labels that are both": (mixed, {"ids": [k if k % 2 else f"t{k}" for k in range(n)]}),
        "ids that are text": (half, {"ids": [f"a/{k}.png" for k in range(n)], "columns": odd}),
        "ids that are numbers": (
            Y,
            {"ids": [7 * k - 5 for k in range(n)], "columns": {"price": odd["price"]}},
        ),
        "names of columns that have a meaning": (half, {"columns": clashes}),
        "names": (Y, {"names": [f"n {k % 7}" for k in range(n)]}),
    }


@pytest.mark.parametrize("ending", ["npz", "parquet"])
@pytest.mark.parametrize("kind", collections())
def test_an_export_gives_the_same_collection(folder, kind, ending):
    labels, said = collections()[kind]
    with Database.create(folder / "db", X, labels, **said, **small.PARAMS) as db:
        more = {} if "ids" not in said else {"ids": ["extra-1", "extra-2"]}
        if kind != "ids that are numbers":
            db.add(small.rows(2, seed=1)[0], [None, None], **more)
        db.remove([db.items(limit=6)[5].id])
        db.export(folder / f"out.{ending}")
        expected, info = everything(db), db.info()
        # Into another database, and once more into the one that it came from.
        with Database.create(folder / "new", folder / f"out.{ending}", **small.PARAMS) as new:
            assert everything(new) == expected
            for fact in ("n_items", "n_unlabelled", "columns"):
                assert new.info()[fact] == info[fact]
            assert set(new.info()["classes"]) == set(info["classes"])
            new.remove([item.id for item in new.items(limit=10)])
            assert len(new.add(folder / f"out.{ending}").added) == 10
            assert sorted(everything(new), key=str) == sorted(expected, key=str)
        report = db.add(folder / f"out.{ending}")
        assert (report.added, len(report.skipped)) == ([], len(expected))


def test_an_export_after_changes(folder):
    """Columns that came later, whole numbers that became fractions, segments of every kind."""
    with Database.create(folder / "db", X, Y, columns={"a": [1] * 60}, **small.PARAMS) as db:
        db.add(small.rows(3, seed=1)[0], columns={"a": [0.5, 1.0, None], "b": ["x", None, "y"]})
        db.remove([0, 61])
        db.update()
        for _ in range(2):
            for ending in ("npz", "parquet"):
                db.export(folder / f"out.{ending}")
                source = open_source(folder / f"out.{ending}")
                found = [source.columns.row(k) for k in range(len(source))]
                assert found == [i.columns for i in db.items(limit=100)]
            db.compact()


def test_an_npz_file_does_not_give_every_item_the_room_of_the_longest_text(folder, monkeypatch):
    from sihash.database import exporting

    monkeypatch.setattr(exporting, "MOST_TEXT", 10_000)
    text = ["x" * 1000, *["y"] * 59]
    with Database.create(folder / "db", X, Y, columns={"a": text}, **small.PARAMS) as db:
        with pytest.raises(DatabaseError, match="Column 'a' has a text of 1,000 characters"):
            db.export(folder / "out.npz")
        assert not (folder / "out.npz").exists()
        db.export(folder / "out.parquet")


# Labels in files of others.


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 3], "3 class_names, so y must be 0 to 2, or −1 for no label; got 3"),
        ([0, 1, -2], "got -2"),
        ([0.0, 1.7, 2.0], "must be whole numbers, positions in them; got 1.7"),
        ([0.0, np.nan, 2.0], "whole numbers"),
        (["a", "b", "c"], "whole numbers"),
    ],
)
def test_labels_beside_class_names_are_positions(folder, y, message):
    np.savez(folder / "a.npz", X=X[:3], y=y, class_names=["a", "b", "c"])
    with pytest.raises(ValueError, match=message):
        Database.create(folder / "db", folder / "a.npz", **small.PARAMS)
    assert not (folder / "db").exists()


def test_minus_one_beside_class_names_is_no_label(folder):
    np.savez(folder / "a.npz", X=X[:4], y=[0, -1, 2, 1.0], class_names=["a", "b", "c"])
    assert open_source(folder / "a.npz").labels == [("a",), (), ("c",), ("b",)]


def test_no_label_in_all_its_forms():
    assert open_source(X[:4], [None, float("nan"), -1, ""]).labels == [()] * 4
    assert open_source(X[:3], np.array([0, -1, 2])).labels == [(0,), (), (2,)]
    assert open_source(X[:3], np.array(["a", "", "-1"])).labels == [("a",), (), ("-1",)]


def test_a_parquet_file_of_pandas_may_lack_labels(folder):
    frame = pd.DataFrame({"vector": list(X[:4]), "label": ["a", None, "b", "a"]}, index=[3, 1, 2, 0])
    frame.to_parquet(folder / "a.parquet")
    source = open_source(folder / "a.parquet")
    assert source.labels == [("a",), (), ("b",), ("a",)]
    assert source.columns.columns == {}
