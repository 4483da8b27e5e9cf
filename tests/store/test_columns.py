"""Columns: values come back as they were given, from memory, from a file, and put together."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sihash.database import DatabaseError
from sihash.store.columns import LONGEST_VALUE, joined, make_column, make_table, read_table, write_table

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
columns = st.integers(0, 8).flatmap(
    lambda n: st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
        st.one_of(
            st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n),
            st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=n, max_size=n),
            st.lists(st.none() | texts, min_size=n, max_size=n),
            st.lists(st.none() | st.booleans(), min_size=n, max_size=n),
        ),
        max_size=3,
    ).map(lambda given: (n, given))
)


def rows(n, given):
    return [{name: v[k] for name, v in given.items() if v[k] is not None} for k in range(n)]


def seen(table):
    return [table.row(k) for k in range(table.n)]


@given(columns)
def test_values_come_back(made):
    n, given_columns = made
    table = make_table(n, given_columns)
    assert seen(table) == rows(n, given_columns)
    types = [[type(v) for v in row.values()] for row in seen(table)]
    assert types == [[type(v) for v in row.values()] for row in rows(n, given_columns)]


@given(columns, st.data())
def test_parts_put_together_and_read_from_a_file_are_the_same(tmp_path_factory, made, data):
    n, given_columns = made
    root = tmp_path_factory.mktemp("columns")
    (root / "segments").mkdir()
    table = make_table(n, given_columns)
    places = data.draw(st.permutations(range(n)))
    cut = data.draw(st.integers(0, n))
    parts = [table.take(np.array(p, dtype=np.intp)) for p in (places[:cut], places[cut:])]
    whole = joined([read_table(root, write_table(root, 1, part)) for part in parts])
    assert seen(whole) == [rows(n, given_columns)[k] for k in places]
    assert {**whole.kinds} == table.kinds


def test_a_column_that_one_part_lacks_is_missing_there():
    whole = joined([make_table(1, {"a": [1]}), make_table(2, {"b": ["x", None]})])
    assert seen(whole) == [{"a": 1}, {"b": "x"}, {}]


def test_what_other_libraries_hold():
    day, moment = date(2020, 2, 1), datetime(2020, 2, 1, 12)
    frame = pd.DataFrame(
        {
            "day": [day, None],
            "moment": [moment, pd.NaT],
            "price": [Decimal("1.5"), None],
            "size": pd.array([3, pd.NA], dtype="Int64"),
            "kind": pd.Categorical(["a", None]),
            "nothing": [None, float("nan")],
        }
    )
    expected = {"day": "2020-02-01", "moment": "2020-02-01T12:00:00", "price": 1.5, "size": 3, "kind": "a"}
    assert seen(make_table(2, frame)) == [expected, {}]
    days = np.array(["2020-02-01", "NaT"], dtype="datetime64[D]")
    assert seen(make_table(2, {"day": days})) == [{"day": "2020-02-01"}, {}]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "a"], "mixes number \\(1\\) and text \\('a'\\)"),
        ([True, 1], "mixes"),
        ([["a"], "a"], "holds \\['a'\\]"),
        ([b"a"], "holds b'a'"),
        ([float("inf")], "infinite"),
        ([2**64], "does not fit 64 bits"),
        (["\ud800"], "half a character"),
        (["x" * (LONGEST_VALUE + 1)], "at most 65,536 characters; column 'a' has one of 65,537"),
    ],
)
def test_what_is_refused_is_said_in_a_sentence(values, message):
    with pytest.raises(DatabaseError, match=message):
        make_column("a", values)


@pytest.mark.parametrize(
    ("given_columns", "message"),
    [
        ({"a": [1]}, "got 1 for 2 items"),
        ({"": [1, 2]}, "must be text, got ''"),
        ({7: [1, 2]}, "must be text, got 7"),
        ({"x" * 1001: [1, 2]}, "at most 1,000 characters"),
        ({f"{k}": [1, 2] for k in range(1001)}, "at most 1,000 columns"),
    ],
)
def test_names_and_numbers_of_columns_are_checked(given_columns, message):
    with pytest.raises(DatabaseError, match=message):
        make_table(2, given_columns)
