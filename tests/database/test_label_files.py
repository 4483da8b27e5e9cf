"""Labels in a table beside the items: never a label that the table does not say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from sihash.database import DatabaseError
from sihash.database.sources import open_source
from sihash.datasets.label_files import columns_by_name, labels_by_name
from sihash.datasets.roles import ColumnChoice


def table(folder, rows, kind="csv"):
    path = folder / f"labels.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps({"file": f, "label": v}) + "\n" for f, v in rows.items()))
    else:
        path.write_text("file,label\n" + "".join(f"{f},{v}\n" for f, v in rows.items()))
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"a/0.png": "cat", "b/0.png": "dog"}, {"a/0.png": "cat", "b/0.png": "dog", "c/0.png": None}),
        ({"a/0.png": "cat"}, {"a/0.png": "cat", "c/0.png": None}),
        ({"0.png": "cat", "d/0.png": "dog"}, {"0.png": "cat", "d/0.png": "dog"}),
        ({"d/0.png": "dog", "0.png": "cat"}, {"0.png": "cat", "d/0.png": "dog", "e/0.png": None}),
        ({"0.png": "cat", "1.png": "dog"}, {"a/0.png": "cat", "b/1.png": "dog"}),
        ({"0.png": "cat", "1.png": "dog"}, {"a/0.png": None, "b/0.png": None, "b/1.png": "dog"}),
        ({"/all/a/0.png": "cat", "/all/b/0.png": "dog"}, {"a/0.png": "cat", "b/0.png": "dog", "0.png": None}),
        ({"a/0.png": "cat", "b/1.png": "dog"}, {"c/0.png": None, "1.png": "dog", "b1.png": None}),
        ({".\\a\\0.png": "cat"}, {"a/0.png": "cat"}),
        ({"a/0.png": "", "1.png": "cat"}, {"a/0.png": None, "1.png": "cat"}),
    ],
)
def test_a_full_name_counts_and_a_part_of_it_only_if_it_can_mean_one_item(folder, kind, rows, expected):
    path = table(folder, rows, kind)
    expected = {name: () if label is None else (label,) for name, label in expected.items()}
    assert dict(zip(expected, labels_by_name(path, list(expected)), strict=True)) == expected


def test_many_items_of_one_bare_name(folder):
    """In time that grows with their number, not with its square."""
    names = [f"{k}/image.png" for k in range(30_000)]
    path = table(folder, {f"/all/{name}": k for k, name in enumerate(names)})
    assert labels_by_name(path, names) == [(str(k),) for k in range(30_000)]


def test_json_lines_are_read_by_key(folder):
    path = folder / "labels.jsonl"
    path.write_text('{"label": 0, "file": "a.png"}\n\n{"file": "b.png", "more": 1, "label": null}\n')
    assert labels_by_name(path, ["a.png", "b.png", "c.png"]) == [(0,), (), ()]
    path.write_text('{"label": "x\u2028y", "file": "a\u2028.png"}\n', encoding="utf-8")
    assert labels_by_name(path, ["a\u2028.png"]) == [("x\u2028y",)]


@pytest.mark.parametrize(
    ("ending", "content", "message"),
    [
        ("jsonl", b'["a.png", "cat"]', 'Line 1 of .* must be an object with "file" and "label", got \\['),
        ("jsonl", b'{"file": "a.png", "label": 1}\n{"file": "b.png"}', "Line 2"),
        ("jsonl", b'{"name": "a.png", "class": 1}', "Line 1"),
        ("jsonl", b"no JSON", "Line 1 .* got no JSON"),
        ("jsonl", b"[" * 100_000, "Line 1"),
        ("jsonl", b'{"file": "a.png", "label": "\\ud800"}', "half a character"),
        ("jsonl", b'{"file": "a.png", "label": {"a": 1}}', "text or whole numbers"),
        ("jsonl", b'{"file": "a.png", "label": [1, ""]}', "holds '', which is no label"),
        ("jsonl", b'{"file": "a.png", "label": [1, null]}', "holds None, which is no label"),
        ("jsonl", b'{"file": "a.png", "label": [[1]]}', r"holds \[1\], which is no label"),
        (
            "jsonl",
            b'{"file": "a.png", "label": ["cat"]}\n{"file": "b.png", "label": "dog"}',
            "Item 1 has the label 'dog' and item 0 a list",
        ),
        ("csv", b"a.png", "two columns"),
        ("csv", b"a.png,\xff", "UTF-8"),
        ("csv", b"cat,a.png", "first column names files"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(folder, ending, content, message):
    path = folder / f"labels.{ending}"
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match=message):
        labels_by_name(path, ["a.png"])


def test_a_file_named_several_times_has_all_these_labels(folder):
    path = folder / "labels.csv"
    path.write_text("file,label\na.png,cat\nb.png,dog\na.png,asleep\na.png,cat\nb.png,\n")
    assert labels_by_name(path, ["a.png", "b.png"]) == [("asleep", "cat"), ("dog",)]


def test_a_list_of_labels_per_line(folder):
    path = folder / "labels.jsonl"
    path.write_text('{"file": "a.png", "label": ["b", "a", 3]}\n{"file": "b.png", "label": []}\n')
    assert labels_by_name(path, ["a.png", "b.png"]) == [(3, "a", "b"), ()]


def test_rows_of_one_file_say_the_same_beside_the_label(folder):
    path = folder / "labels.csv"
    names = ["a.png", "b.png"]
    path.write_text("file,label,price\na.png,cat,3\nb.png,dog,5\na.png,asleep,3\n")
    ids, columns = columns_by_name(path, names, ColumnChoice(None, None))
    assert (ids, columns) == (None, {"price": [3, 5]})
    path.write_text("file,label,price\na.png,cat,3\nb.png,dog,5\na.png,asleep,4\n")
    with pytest.raises(DatabaseError, match=r"names a\.png in several rows.*'price': 3 and 4"):
        columns_by_name(path, names, ColumnChoice(None, None))


# Where a table may be given.


def picture(path, value=0, kind="PNG"):
    Image.fromarray(np.full((20, 20, 3), value, np.uint8)).save(path, kind)
    return path


def test_a_table_labels_a_single_image_and_pictures_given_by_path(tmp_path):
    one = picture(tmp_path / "one.png")
    two = picture(tmp_path / "two.ppm", 200, "PPM")
    table = tmp_path / "labels.csv"
    table.write_text("file,label\none.png,dog\ntwo.ppm,cat\n")
    assert open_source(one, table).labels == [("dog",)]
    assert open_source(str(two), str(table)).labels == [("cat",)]
    assert open_source([two, one], table).labels == [("cat",), ("dog",)]


@pytest.mark.parametrize("source", [np.zeros((3, 2)), ["one.png"], "one.png", "."])
def test_a_table_that_is_not_there_is_no_label(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    picture(tmp_path / "one.png")
    with pytest.raises(DatabaseError, match=r"no file of labels at nosuch\.csv"):
        open_source(source, "nosuch.csv")


def test_a_column_of_labels_beside_vectors(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 2), np.float32))
    (tmp_path / "labels.csv").write_text("a\nb\na\n")
    assert open_source(tmp_path / "x.npy", tmp_path / "labels.csv").labels == [("a",), ("b",), ("a",)]
