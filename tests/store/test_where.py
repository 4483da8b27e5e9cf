"""Conditions on columns: what is read from a text, what is refused, and which rows meet them."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sihash.database import DatabaseError
from sihash.store.columns import make_table
from sihash.store.where import check, matching, parse

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
        ("price < 20", [[("price", "<", 20)]]),
        ("price<20 AND size>=1.5e1", [[("price", "<", 20), ("size", ">=", 15.0)]]),
        ("colour == 'red'", [[("colour", "=", "red")]]),
        ('colour <> "it\'s"', [[("colour", "!=", "it's")]]),
        ("colour = 'it''s' and a = \"\"\"\"", [[("colour", "=", "it's"), ("a", "=", '"')]]),
        ("\"and\" = 'and' and 'a b' = -1", [[("and", "=", "and"), ("a b", "=", -1)]]),
        ("shop.name != true and größe = .5", [[("shop.name", "!=", True), ("größe", "=", 0.5)]]),
        ("a = 1 or b = 2 and c = 3", [[("a", "=", 1)], [("b", "=", 2), ("c", "=", 3)]]),
        ("a IN (1) or b like 'x%'", [[("a", "in", 1)], [("b", "like", "x%")]]),
        ("a in ( 1, 2.5,3 ) and b in ('x', 'in')", [[("a", "in", 1, 2.5, 3), ("b", "in", "x", "in")]]),
    ],
)
def test_what_is_read(text, expected):
    found = [
        [(each.column, each.operator, *each.values) for each in alternative] for alternative in parse(text)
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expects a column, a comparison and a value, got 'nothing'"),
        ("price", "got 'price'"),
        ("price <", "got 'price <'"),
        ("price < 20 and", "ends after 'and'"),
        ("price < 20 or", "ends after 'or'"),
        ("price < 20 xor price > 30", "joins conditions by 'and' and 'or', got 'xor'"),
        ("price < 20 price > 30", "by 'and' and 'or', got 'price'"),
        ("price in ()", "got 'price in \\( \\)'"),
        ("price in (1, )", "got 'price in \\( 1 , \\)'"),
        ("price in (1 2)", "got 'price in \\( 1 2 \\)'"),
        ("price in (1, 2", "got 'price in \\('"),
        ("price in 1", "got 'price in 1'"),
        ("price in (<)", "got 'price in \\( < \\)'"),
        ("price like", "got 'price like'"),
        ("price near 3", "got 'price near 3'"),
        ("20 > price", "expects a column"),
        ("price = red", "'red' instead of red"),
        ("price < 1_0", "cannot be read from '1_0'"),
        ("price < 20; DROP TABLE items", "cannot be read from '; DROP"),
        ("price < (20)", "got 'price < \\('"),
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
        ("price in (1, 'x')", "'price' holds numbers, got 'x'"),
        ("price like '1%'", "'price' holds no text"),
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


def test_or_in_and_like_on_rows_with_missing_values():
    table = make_table(5, {"a": [1, 2, 3, None, 5], "b": ["xa", "y", None, "xb", "ya"]})
    assert matching(parse("a = 1 or b = 'y' and a = 2 or c = 9"), table, 5).tolist() == [1, 1, 0, 0, 0]
    assert matching(parse("a in (5, 3, 9)"), table, 5).tolist() == [0, 0, 1, 0, 1]
    assert matching(parse("b in ('y', 'no') or b like 'x%'"), table, 5).tolist() == [1, 1, 0, 1, 0]
    assert matching(parse("b like '_a' and b like '%a'"), table, 5).tolist() == [1, 0, 0, 0, 1]


letters = st.text(st.sampled_from("ab.*[\n"), max_size=6)


@given(st.lists(letters, min_size=1), st.text(st.sampled_from("ab.*[%_"), max_size=6))
def test_like_is_what_a_slow_twin_finds(texts, pattern):
    def twin(text, pattern):
        if not pattern:
            return not text
        if pattern[0] == "%":
            return any(twin(text[k:], pattern[1:]) for k in range(len(text) + 1))
        return bool(text) and pattern[0] in ("_", text[0]) and twin(text[1:], pattern[1:])

    table = make_table(len(texts), {"a": texts})
    expected = [twin(text, pattern) for text in texts]
    assert matching(parse(f"a like '{pattern}'"), table, len(texts)).tolist() == expected


def test_no_pattern_takes_long():
    table = make_table(1, {"a": ["a" * 60_000]})
    assert not matching(parse(f"a like '{'%a' * 500}%b'"), table, 1).any()


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
