"""Conditions on columns: what is read from a text, what is refused, and which rows meet them."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sihash.database import DatabaseError
from sihash.store.columns import make_table
from sihash.store.where import Condition, check, matching, parse

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price < 20", [("price", "<", 20)]),
        ("price<20 AND size>=1.5e1", [("price", "<", 20), ("size", ">=", 15.0)]),
        ("colour == 'red'", [("colour", "=", "red")]),
        ('colour <> "it\'s"', [("colour", "!=", "it's")]),
        ("colour = 'it''s' and a = \"\"\"\"", [("colour", "=", "it's"), ("a", "=", '"')]),
        ("\"and\" = 'and' and 'a b' = -1", [("and", "=", "and"), ("a b", "=", -1)]),
        ("shop.name != true and größe = .5", [("shop.name", "!=", True), ("größe", "=", 0.5)]),
    ],
)
def test_what_is_read(text, expected):
    assert list(parse(text)) == [Condition(*each) for each in expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expects a column, a comparison and a value, got 'nothing'"),
        ("price", "got 'price'"),
        ("price <", "got 'price <'"),
        ("price < 20 and", "ends after 'and'"),
        ("price < 20 or price > 30", "joins conditions by 'and' alone, got 'or'"),
        ("price < 20 price > 30", "by 'and' alone, got 'price'"),
        ("20 > price", "expects a column"),
        ("price = red", "'red' instead of red"),
        ("price < 1_0", "cannot be read from '1_0'"),
        ("price < 20; DROP TABLE items", "cannot be read from '; DROP"),
        ("price < (20)", "cannot be read from '\\(20\\)'"),
        ("colour = 'red", 'cannot be read from "\'red"'),
        ("price < 1e999", "too large"),
        ("a = 'x' and" * 5000, "at most 2,000 characters"),
        (7, "must be text, got 7"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(DatabaseError, match=message) as caught:
        parse(text)
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cost < 20", "No column is named 'cost'; there are price, colour, new"),
        ("price = '20'", "'price' holds numbers, got '20'"),
        ("price = true", "'price' holds numbers, got 'true'"),
        ("colour = 20", "colour = '20'"),
        ("new = 1", "true and false"),
        ("new < true", "by = or !="),
    ],
)
def test_columns_and_kinds_are_checked(text, message):
    with pytest.raises(DatabaseError, match=message):
        check(parse(text), {"price": "number", "colour": "text", "new": "true or false"})
    with pytest.raises(DatabaseError, match="the items have no columns"):
        check(parse(text), {})


words = st.text(st.sampled_from("aAbé'\" 1"), max_size=3)
values = st.one_of(
    st.lists(st.none() | st.integers(-3, 3), min_size=1),
    st.lists(st.none() | st.integers(-3, 3) | st.sampled_from([0.5, -1.5]), min_size=1),
    st.lists(st.none() | words, min_size=1),
)


@given(values, st.sampled_from(list(OPERATORS)), st.data())
def test_rows_are_those_that_python_would_find(column, sign, data):
    there = [value for value in column if value is not None]
    is_text = bool(there) and isinstance(there[0], str)
    wanted = data.draw(words if is_text else st.integers(-4, 4) | st.sampled_from([0.5, 0.25]))
    text = "'" + wanted.replace("'", "''") + "'" if is_text else str(wanted)
    table = make_table(len(column), {"a": column})
    expected = [value is not None and OPERATORS[sign](value, wanted) for value in column]
    assert matching(parse(f"a {sign} {text}"), table, len(column)).tolist() == expected


def test_all_conditions_count_and_an_unknown_column_is_met_by_none():
    table = make_table(4, {"a": [1, 2, 3, None], "b": ["x", "y", None, "x"]})
    assert matching(parse("a > 1 and b = 'y'"), table, 4).tolist() == [False, True, False, False]
    assert not matching(parse("a > 1 and c = 'y'"), table, 4).any()
    assert not matching(parse("a > 1"), None, 4).any()


def test_whole_numbers_are_compared_exactly():
    near = 2**62 + 1
    table = make_table(2, {"a": [near, near - 1]})
    assert matching(parse(f"a = {near}"), table, 2).tolist() == [True, False]
    assert matching(parse("a < 9999999999999999999"), table, 2).all()
    assert not matching(parse("a > 9999999999999999999"), table, 2).any()


def test_true_and_false():
    table = make_table(3, {"a": [True, False, None]})
    assert matching(parse("a = true"), table, 3).tolist() == [True, False, False]
    assert matching(parse("a != TRUE"), table, 3).tolist() == [False, True, False]
    assert table.columns["a"].values.dtype == np.bool_
