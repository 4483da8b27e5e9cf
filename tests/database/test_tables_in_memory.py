"""What people have in memory: every kind of table gives the same database, searches and evaluations."""

from __future__ import annotations

import datetime
import json
import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small
from PIL import Image

import datasets
from sihash.database import Database, DatabaseError
from sihash.database.sources import open_source

X, Y = small.rows(60, seed=0)
NAMES = ["cat", "dog", "emu"]
LABELS = [NAMES[k] for k in Y]
IDS = [f"item {k}" for k in range(60)]
DAYS = [datetime.date(2026, 1, 1 + k % 28) for k in range(60)]
PRICES = [None if k == 3 else k / 2 for k in range(60)]
ROWS = [
    {"id": IDS[k], "embedding": X[k].tolist(), "label": LABELS[k], "price": PRICES[k], "day": DAYS[k]}
    for k in range(60)
]


def frame_of_pandas():
    frame = pd.DataFrame(ROWS).assign(embedding=list(X))
    return frame.assign(label=frame.label.astype("category"))


def hugging_face():
    features = datasets.Features(
        {
            "id": datasets.Value("string"),
            "embedding": datasets.Sequence(datasets.Value("float32")),
            "label": datasets.ClassLabel(names=NAMES),
            "price": datasets.Value("float64"),
            "day": datasets.Value("date32"),
        }
    )
    rows = [{**row, "label": NAMES.index(row["label"])} for row in ROWS]
    shuffled = datasets.Dataset.from_list(rows[::-1], features=features)
    return shuffled.select(range(59, -1, -1))  # its rows are found by indices


class OnlyInterchange:
    """A frame of a library that has nothing but the data frame protocol; that knows no lists."""

    def __init__(self, frame):
        self._frame = frame

    def __dataframe__(self, **options):
        return self._frame.__dataframe__(**options)


KINDS = {
    "pandas": frame_of_pandas,
    "polars": lambda: pl.DataFrame(ROWS),
    "Arrow": lambda: pa.Table.from_pylist(ROWS),
    "Arrow in pieces": lambda: pa.concat_tables(
        [pa.Table.from_pylist(ROWS[:20]), pa.Table.from_pylist(ROWS[20:])]
    ),
    "a reader of batches": lambda: pa.RecordBatchReader.from_batches(
        pa.Table.from_pylist(ROWS).schema, pa.Table.from_pylist(ROWS).to_batches(max_chunksize=7)
    ),
    "list of dicts": lambda: ROWS,
    "generator of dicts": lambda: iter(ROWS),
    "dict of columns": lambda: {name: [row[name] for row in ROWS] for name in ROWS[0]},
    "Hugging Face": hugging_face,
    "Hugging Face, streamed": lambda: hugging_face().to_iterable_dataset(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_create_add_search_and_evaluate(folder, kind):
    with Database.create(folder / "db", KINDS[kind](), **small.PARAMS) as db:
        assert db.created_.note == (
            "vectors from embedding, labels from label, ids from id, other columns: price, day"
        )
        item = db.item("item 4")
        assert (item.label, item.columns) == ("dog", {"price": 2.0, "day": "2026-01-05"})
        np.testing.assert_array_equal(db._read(lambda s: s.vectors(np.arange(60))), X)
        expected = [answer.hits for answer in db.search(X, k=3)]
        assert [answer.hits for answer in db.search(KINDS[kind](), k=3)] == expected
        assert [c.label for c in db.classify(KINDS[kind]())] == [c.label for c in db.classify(X)]
        assert db.add(KINDS[kind]()).skipped == IDS  # as they are there already
        assert db.evaluate(KINDS[kind]()).n_queries == 60


def test_columns_may_be_named(folder):
    frame = frame_of_pandas().rename(columns={"embedding": "a", "label": "intent", "id": "sku"})
    frame["b"] = list(X[:, ::-1])
    with pytest.raises(ValueError, match=r"has 2 columns of number lists \(a, b\)"):
        open_source(frame)
    source = open_source(frame, "intent", ids="sku", vectors="b", columns=["price"])
    np.testing.assert_array_equal(source.X, X[:, ::-1])
    assert (source.labels[1], source.ids[1], source.columns.row(1)) == (("dog",), "item 1", {"price": 0.5})
    assert source.note == "vectors from b, labels from intent, ids from sku, other columns: price"
    with pytest.raises(ValueError, match="no column 'nosuch'; it has sku, a, intent"):
        open_source(frame, "nosuch", vectors="a")
    with pytest.raises(ValueError, match="no column 'nosuch'"):
        open_source(frame, vectors="nosuch")


@pytest.mark.parametrize("library", [pd, pl])
def test_a_column_for_each_number(library):
    columns = {f"x{k}": X[:, k] for k in range(small.WIDTH)}
    source = open_source(library.DataFrame({**columns, "target": Y}))
    np.testing.assert_array_equal(source.X, X)
    assert source.labels == [(k,) for k in Y]
    assert source.note == "vectors from x0, x1, …, x7 (8 columns), labels from target"
    # Labels that are given apart: the column of labels is no part of the vectors.
    apart = open_source(library.DataFrame({**columns, "target": Y}), LABELS)
    np.testing.assert_array_equal(apart.X, X)
    assert (apart.labels[1], apart.note) == (("dog",), "vectors from x0, x1, …, x7 (8 columns)")
    # With text among them it has to be said which are meant.
    mixed = library.DataFrame({**columns, "title": LABELS})
    with pytest.raises(ValueError, match="name the columns that hold the vectors"):
        open_source(mixed)
    said = open_source(mixed, vectors=list(columns))
    np.testing.assert_array_equal(said.X, X)
    assert said.columns.row(1) == {"title": "dog"}


@pytest.mark.filterwarnings("ignore:The Dataframe Interchange Protocol")
def test_the_data_frame_protocol_alone():
    columns = {f"x{k}": X[:, k] for k in range(small.WIDTH)}
    source = open_source(OnlyInterchange(pd.DataFrame({**columns, "y": Y})))
    np.testing.assert_array_equal(source.X, X)
    assert source.labels == [(k,) for k in Y]


@pytest.mark.parametrize("kind", [pd.Series, pl.Series, pa.array, lambda v: pa.chunked_array([v]), list])
def test_a_column_as_source_labels_and_queries(db, kind):
    column, labels, ids = kind(list(X)), kind(LABELS), kind(IDS)
    source = open_source(column, labels, ids=ids)
    np.testing.assert_array_equal(source.X, X)
    assert source.labels == [(label,) for label in LABELS]
    assert list(source.ids) == IDS
    assert [a.hits for a in db.search(column, k=3)] == [a.hits for a in db.search(X, k=3)]


def test_columns_given_beside_vectors_may_be_a_table():
    for table in (pd.DataFrame({"price": PRICES}), pl.DataFrame({"price": PRICES})):
        assert open_source(X, columns=table).columns.row(5) == {"price": 2.5}


def test_pictures_in_a_table(tmp_path):
    pictures = [Image.fromarray(np.full((20, 20, 3), 40 * k, np.uint8)) for k in range(6)]
    for k, picture in enumerate(pictures):
        picture.save(tmp_path / f"{k}.png")
    paths = [str(tmp_path / f"{k}.png") for k in range(6)]
    labels = ["dark"] * 3 + ["light"] * 3
    contents = [(tmp_path / f"{k}.png").read_bytes() for k in range(6)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    tables = [
        datasets.Dataset.from_dict({"image": paths, "label": labels}, features=features),
        datasets.Dataset.from_dict({"image": pictures, "label": labels}, features=features),
        pd.DataFrame({"path": paths, "label": labels}),
        pl.DataFrame({"picture": contents, "label": labels}),
        [{"image": picture, "label": label} for picture, label in zip(pictures, labels, strict=True)],
    ]
    queries = []
    for k, table in enumerate(tables):
        with Database.create(tmp_path / f"db{k}", table, features="pixels", **small.PARAMS) as db:
            assert [item.label for item in db.items()] == labels
            assert db.created_.note.startswith(("images from image", "images from pi", "images from path"))
            queries.append([answer.hits[0].label for answer in db.search(table, k=1)])
            if k in (0, 2):
                assert db.original(db.items()[1].id) == contents[1]
    assert queries == [labels] * 5


def test_what_is_no_column_of_facts_is_named_and_left_out():
    rows = [{**row, "tags": ["a", "b"]} for row in ROWS]
    for table in (rows, pl.DataFrame(rows)):
        source = open_source(table)
        assert source.note.endswith("left out: tags (lists or pictures)")
        assert set(source.columns.columns) == {"price", "day"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (datasets.DatasetDict({"train": hugging_face()}), r"dict of 1; choose one, like \['train'\]"),
        ({"vector": [[1.0]], "label": ["a", "b"]}, "not all of one length"),
        ({"vector": 3}, "one item as a list of one dict"),
        ([{"vector": [1.0]}, 3], "Row 2 must be a dict"),
        ([{"vector": [1.0, 2.0]}, {"vector": [1.0]}], "not all of one length"),
        (pd.DataFrame({"vector": [[1.0], "a"]}), "cannot be read"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "cannot be read|two columns named 'a'"),
        (pl.DataFrame({"vector": [[1.0], None]}), "1 rows without a vector"),
    ],
)
def test_refusals(table, message):
    with pytest.raises(ValueError, match=message):
        open_source(table)
    assert issubclass(DatabaseError, ValueError)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "rows", "csv", "jsonl", "npz", "parquet"])
def test_half_floats_and_decomposed_ids_come_as_they_are(tmp_path, kind):
    """Numbers by their value and not their bits; ids in the Unicode form in which they were given."""
    half = X[:6].astype(np.float16)
    ids = [unicodedata.normalize(form, f"Äpfel-ü-{k}") for k in range(3) for form in ("NFC", "NFD")]
    ids = [f"{text}-{k}" for k, text in enumerate(ids)]
    assert len({unicodedata.is_normalized("NFC", text) for text in ids}) == 2
    arrow = pa.table({"id": ids, "vector": pa.array(list(half), pa.list_(pa.float16()))})
    rows = [{"id": name, "vector": list(row)} for name, row in zip(ids, half, strict=True)]
    plain = [{**row, "vector": [float(v) for v in row["vector"]]} for row in rows]
    path = tmp_path / f"t.{kind}"
    if kind == "jsonl":
        path.write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in plain), encoding="utf-8"
        )
    elif kind == "csv":
        pd.DataFrame(plain).to_csv(path, index=False)
    elif kind == "npz":
        np.savez(path, X=half, id=np.array(ids))
    elif kind == "parquet":
        pq.write_table(arrow, path)
    tables = {"pandas": pd.DataFrame({"id": ids, "vector": list(half)}), "arrow": arrow, "rows": rows}
    tables["polars"] = pl.DataFrame({"id": ids, "vector": list(half.astype(np.float32))})
    source = open_source(tables.get(kind, path))
    assert list(source.ids) == ids
    np.testing.assert_array_equal(np.asarray(source.X[0:6], dtype=np.float32), half.astype(np.float32))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow"])
def test_files_with_a_column_for_each_number(tmp_path, kind):
    frame = pd.DataFrame({f"x{k}": X[:, k].astype(float) for k in range(small.WIDTH)}).assign(label=LABELS)
    path = tmp_path / f"t.{kind}"
    write = {
        "csv": lambda: frame.to_csv(path, index=False),
        "jsonl": lambda: frame.to_json(path, orient="records", lines=True, double_precision=15),
        "parquet": lambda: frame.to_parquet(path, row_group_size=7),
        "arrow": lambda: frame.to_feather(path),
    }
    write[kind]()
    with Database.create(tmp_path / "db", path, **small.PARAMS) as db:
        np.testing.assert_allclose(db._read(lambda s: s.vectors(np.arange(60))), X, rtol=1e-6)
        assert [item.label for item in db.items(limit=60)] == LABELS
        assert db.created_.note == "vectors from x0, x1, …, x7 (8 columns), labels from label"
