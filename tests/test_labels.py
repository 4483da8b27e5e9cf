"""Labels of any hashable kind: distinct ones stay distinct, equal ones equal, through numbers and JSON."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sihash.labels import as_classes, as_labels, encode, from_json, numbers_of, to_json

numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
label = st.one_of(numbers, text, st.tuples(text | numbers), st.tuples(numbers, text))


@given(st.lists(label, min_size=1, max_size=12))
@settings(max_examples=200)
def test_classes_are_distinct_and_numbers_lead_back(values):
    y = as_labels(values, len(values))
    classes, found = encode(y)
    assert len(set(classes.tolist())) == len(classes) == len(set(values))
    assert [classes.tolist()[k] for k in found] == values
    assert set(found.tolist()) == set(range(len(classes)))
    np.testing.assert_array_equal(numbers_of(values, classes), found)


@given(st.lists(label, min_size=1, max_size=12))
@settings(max_examples=200)
def test_json_round_trip(values):
    classes, _ = encode(as_labels(values, len(values)))
    back = from_json(json.loads(json.dumps(to_json(classes))))
    assert back.dtype == classes.dtype
    assert back.tolist() == classes.tolist()
    assert [type(v) for v in back.tolist()] == [type(v) for v in classes.tolist()]


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([3, 1, 3], [1, 3]),
        (
            [1, "1", 1],
            [1, "1"],
        ),  # two labels, in the order they came: numbers and strings have none of their own
        ([("b", 2), ("a", 1), ("b", 2)], [("a", 1), ("b", 2)]),
        ([(1,), (1, 2), (1,)], [(1,), (1, 2)]),
        ([True, False, True], [False, True]),
        (
            [2**63 + 1, 2**63 + 2, 5],
            [5, 2**63 + 1, 2**63 + 2],
        ),  # numpy alone would make floats, and one label, of these
        ([2**70, 1, 2**70], [1, 2**70]),
        (["", " ", "ß"], ["", " ", "ß"]),
    ],
)
def test_by_hand(values, classes):
    found, codes = encode(as_labels(values, 3))
    assert found.tolist() == classes
    assert [classes[k] for k in codes] == values


@pytest.mark.parametrize(
    "y",
    [
        np.array(["x", "y", "x"]),
        pd.Series(["x", "y", "x"], index=[7, 8, 9]),
        pd.Series(["x", "y", "x"], dtype="category"),
        pd.Series(["x", "y", "x"], dtype="string"),
        np.array([["x"], ["y"], ["x"]]),
        ("x", "y", "x"),
        (v for v in "xyx"),
    ],
)
def test_any_container(y):
    classes, found = encode(as_labels(y, 3))
    assert classes.tolist() == ["x", "y"]
    assert found.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "y",
    [
        [1.0, np.nan, 2.0],
        [1.0, np.inf, 2.0],
        ["a", None, "b"],
        ["a", np.nan, "b"],
        [1, None, 2],
        pd.Series(["a", None, "b"]),
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        pd.Series([1, pd.NA, 2], dtype="Int64"),
        pd.Series(["a", pd.NA, "b"], dtype=object),
        np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="datetime64[D]"),
    ],
)
def test_a_missing_label_is_refused_by_its_row(y):
    with pytest.raises(ValueError, match="1 rows have no label \\(the first is row 1\\)"):
        as_labels(y, 3)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="the target y is None"):
        as_labels(None, 3)
    with pytest.raises(ValueError, match="got 2 labels for 3 rows"):
        as_labels(["a", "b"], 3)
    with pytest.raises(ValueError, match="got shape \\(3, 2\\)"):
        as_labels(np.zeros((3, 2)), 3)
    with pytest.raises(ValueError, match="got shape \\(3, 2\\)"):
        as_labels([[1, 2], [3, 4], [5, 6]], 3)


def test_labels_that_cannot_be_looked_up_are_refused():
    y = np.empty(2, dtype=object)
    y[:] = [{"a": 1}, {"b": 2}]
    with pytest.raises(ValueError, match="Labels must be hashable"):
        encode(as_labels(y, 2))


@pytest.mark.parametrize("value", [b"bytes", 1j, frozenset([1]), pd.Timestamp("2020-01-01"), (1, b"x")])
def test_what_json_cannot_hold_is_refused_by_its_type(value):
    values = np.empty(1, dtype=object)
    values[0] = value
    with pytest.raises(TypeError, match="cannot be written to a file; use strings, numbers"):
        to_json(values)


def test_numpy_numbers_among_objects_are_stored_as_what_they_are():
    values = as_labels([np.int64(3), "a", np.bool_(True), np.float32(0.5), (np.int8(1), "b")], 5)
    back = from_json(json.loads(json.dumps(to_json(values))))
    assert back.tolist() == [3, "a", True, 0.5, (1, "b")]


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, np.float64, "<U3", bool])
def test_the_numpy_type_of_labels_survives(dtype):
    values = np.array([1, 0, 1]).astype(dtype)
    back = from_json(json.loads(json.dumps(to_json(values))))
    assert back.dtype == values.dtype
    np.testing.assert_array_equal(back, values)


def test_a_label_that_is_not_there_has_number_minus_one():
    assert numbers_of(["b", "c", 1], np.array(["a", "b"])).tolist() == [1, -1, -1]
    assert numbers_of([np.int64(5), 5, 7], np.array([5, 6])).tolist() == [0, 0, -1]


def test_classes_keep_a_common_type():
    assert as_classes([3, 1]).dtype.kind == "i"
    assert as_classes(["a", "bc"]).dtype.kind == "U"
    assert as_classes([1, "a"]).dtype == object
    assert as_classes([(1, 2), (3, 4)]).tolist() == [(1, 2), (3, 4)]
    assert as_classes([2**63 + 1, 5]).tolist() == [2**63 + 1, 5]
    assert as_classes([]).shape == (0,)
