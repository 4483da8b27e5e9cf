"""`where`: conditions on columns, as in ``price < 20 and colour in ('red', 'blue') or name like 'a%'``.

A condition is a column, one of = != < <= > >= in like, and a value; several are joined by ``and`` and ``or``,
of which ``and`` binds closer. ``in`` takes values in brackets; in the text of ``like``, % stands for anything
and _ for one character. Text is in quotes, single or double; a column whose name is not a plain word is in
quotes, too (its place tells which it is), and a quote inside is written twice. True and false are written
``true`` and ``false``. A missing value meets no condition. Texts compare by code point.

NumPy compares the stored columns; SQLite would take fifty times as long (docs/experiments.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np

from sihash._typing import Array
from sihash.store.columns import Column, Table, Value, first_not_less
from sihash.store.errors import DatabaseError

LONGEST_WHERE = 2000  # characters; a URL with all of them percent-encoded must pass a server
_EXAMPLE = "write conditions as in: price < 20 and colour = 'red'"
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<operator><=|>=|!=|<>|==|=|<|>)
      | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<word>[^\W\d][\w.\-]*)
      | (?P<mark>[(),])
    )""",
    re.VERBOSE,
)
_SAME = {"==": "=", "<>": "!="}
OPERATORS = {"=", "!=", "<", "<=", ">", ">=", "in", "like"}


@dataclass(frozen=True)
class Condition:
    column: str
    operator: str
    values: tuple[Value, ...]  # one, but for ``in``


Where = tuple[tuple[Condition, ...], ...]  # any of these, and of it all conditions


@lru_cache(maxsize=256)
def parse(text: str) -> Where:
    """The conditions in a text; one sentence about what is wrong with it otherwise."""
    if not isinstance(text, str):
        raise DatabaseError(f"where must be text, got {text!r}; {_EXAMPLE}.")
    if len(text) > LONGEST_WHERE:
        raise DatabaseError(f"where has at most {LONGEST_WHERE:,} characters, got {len(text):,}.")
    tokens = _tokens(text)
    any_of: list[list[Condition]] = [[]]
    while True:
        length = _length(tokens)
        any_of[-1].append(_condition(tokens[:length]))
        rest = tokens[length:]
        if not rest:
            return tuple(map(tuple, any_of))
        (kind, joint), *tokens = rest
        if kind != "word" or joint.lower() not in ("and", "or"):
            raise DatabaseError(f"where joins conditions by 'and' and 'or', got {joint!r}; {_EXAMPLE}.")
        if not tokens:
            raise DatabaseError(f"where ends after {joint!r}; {_EXAMPLE}.")
        if joint.lower() == "or":
            any_of.append([])


def _length(tokens: list[tuple[str, str]]) -> int:
    """How many tokens the first condition has: three, or all up to the bracket that closes a list."""
    if len(tokens) > 2 and tokens[1][1].lower() == "in" and ("mark", ")") in tokens:
        return tokens.index(("mark", ")")) + 1
    return 3


def _tokens(text: str) -> list[tuple[str, str]]:
    found, place = [], 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise DatabaseError(f"where cannot be read from {text[place:].strip()[:40]!r} on; {_EXAMPLE}.")
        found.append((match.lastgroup, match.group(match.lastgroup)))
        place = match.end()
    return found


def _condition(tokens: list[tuple[str, str]]) -> Condition:
    """A condition of its tokens: a column, a comparison, and a value, or values in brackets."""
    nothing = ("", "")  # where the text ends early
    (kind, column), (_, operator), *given = [*tokens, nothing, nothing][: max(2, len(tokens))]
    operator = _SAME.get(operator, operator.lower())
    if operator == "in":
        brackets = [token for _, token in (*given[:1], *given[-1:])] == ["(", ")"]
        commas = all(token == "," for _, token in given[2:-1:2])
        given = given[1:-1:2] if brackets and commas and len(given) % 2 else []
    plain = all(kind in ("quoted", "number", "word") for kind, _ in given)
    if kind not in ("word", "quoted") or operator not in OPERATORS or not given or not plain:
        got = " ".join(token for _, token in tokens) or "nothing"
        raise DatabaseError(
            f"where expects a column, a comparison and a value, got {got[:60]!r}; {_EXAMPLE}."
        )
    return Condition(_unquoted(column), operator, tuple(_value(kind, value) for kind, value in given))


def _unquoted(token: str) -> str:
    quote = token[0]
    return token[1:-1].replace(2 * quote, quote) if quote in "'\"" else token


def _value(kind: str, token: str) -> Value:
    if kind == "quoted":
        return _unquoted(token)
    if kind == "number":
        whole = re.fullmatch(r"[+-]?[0-9]{1,19}", token)
        number = int(token) if whole else float(token)
        if number in (float("inf"), float("-inf")):
            raise DatabaseError(f"where has a number that is too large: {token[:40]}.")
        return number
    if token.lower() in ("true", "false"):
        return token.lower() == "true"
    raise DatabaseError(f"where needs text in quotes: '{token}' instead of {token}.")


def check(where: Where, known: Mapping[str, str]) -> None:
    """Refuse columns that are not there, and values of another kind than theirs."""
    for condition in chain.from_iterable(where):
        column, operator, kind = condition.column, condition.operator, known.get(condition.column)
        if kind is None:
            raise DatabaseError(
                f"No column is named {column!r}; "
                + (f"there are {', '.join(known)}." if known else "the items have no columns.")
            )
        if operator == "like" and kind != "text":
            raise DatabaseError(f"Column {column!r} holds no text; compare it by =, <, > or in.")
        for value in condition.values:
            if kind == "text" and not isinstance(value, str):
                raise DatabaseError(
                    f"Column {column!r} holds text; write the value in quotes: "
                    f"{column} {operator} '{_written(value)}'."
                )
            if kind == "number" and isinstance(value, str | bool):
                raise DatabaseError(f"Column {column!r} holds numbers, got {_written(value)!r}.")
            if kind == "true or false" and not (isinstance(value, bool) and operator in ("=", "!=", "in")):
                raise DatabaseError(
                    f"Column {column!r} holds true and false; compare it by = or != with one of them."
                )


def _written(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def matching(where: Where, table: Table | None, n: int) -> Array:
    """Which of the ``n`` rows of a table meet all conditions of one of the alternatives."""
    columns = {} if table is None else table.columns
    fits = np.zeros(n, dtype=bool)
    for conditions in where:
        if all(condition.column in columns for condition in conditions):
            fits |= np.logical_and.reduce([_fits(each, columns[each.column]) for each in conditions])
    return fits


def _fits(condition: Condition, column: Column) -> Array:
    """Which values of a column meet a condition."""
    if condition.operator == "like":
        fits = _like(condition.values[0], column)
    elif condition.operator == "in":
        fits = np.logical_or.reduce([_compared("=", column, value) for value in condition.values])
    else:
        fits = _compared(condition.operator, column, condition.values[0])
    return fits & ~column.missing


def _like(pattern: Value, column: Column) -> Array:
    """Every text that there is is looked at once."""
    parts = str(pattern).split("%")
    met = np.array([_is_like(text, parts) for text in column.texts], dtype=bool)
    return met[column.values] if len(met) else np.zeros(len(column), dtype=bool)


def _is_like(text: str, parts: list[str]) -> bool:
    """Whether the parts follow each other in a text, the first at its start and the last at its end.

    Each is taken where it comes first, so that no pattern takes long.
    """
    first, *middle = [_part(part) for part in parts[:-1]] or [_part(parts[0])]
    found = first.match(text)
    for part in middle:
        found = found and part.search(text, found.end())
    if found is None or len(parts) == 1:
        return found is not None and found.end() == len(text)
    start = len(text) - len(parts[-1])
    return start >= found.end() and _part(parts[-1]).match(text, start) is not None


@lru_cache(maxsize=256)
def _part(part: str) -> re.Pattern[str]:
    return re.compile("".join("." if c == "_" else re.escape(c) for c in part), re.DOTALL)


def _compared(operator: str, column: Column, wanted: Value) -> Array:
    values = column.values
    if column.kind == "text":
        assert isinstance(wanted, str)
        place = first_not_less(column.texts, wanted)
        there = place < len(column.texts) and column.texts[place] == wanted
        if operator in ("=", "!="):
            equal = values == place if there else np.zeros(len(values), dtype=bool)
            return equal if operator == "=" else ~equal
        if operator in ("<", ">="):
            return values < place if operator == "<" else values >= place
        return values < place + there if operator == "<=" else values >= place + there
    compare = {
        "=": np.equal,
        "!=": np.not_equal,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
    }
    return compare[operator](values, wanted)
