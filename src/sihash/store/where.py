"""`where`: conditions on columns, as in ``price < 20 and colour = 'red'``.

A condition is a column, one of = != < <= > >=, and a value; several are joined by ``and``. Text is in quotes,
single or double; a column whose name is not a plain word is in quotes, too (its place tells which it is), and
a quote inside is written twice. True and false are written ``true`` and ``false``. A missing value meets no
condition. Texts compare by code point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

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
    )""",
    re.VERBOSE,
)
_SAME = {"==": "=", "<>": "!="}


@dataclass(frozen=True)
class Condition:
    column: str
    operator: str
    value: Value

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.value!r}"


@lru_cache(maxsize=256)
def parse(text: str) -> tuple[Condition, ...]:
    """The conditions in a text; one sentence about what is wrong with it otherwise."""
    if not isinstance(text, str):
        raise DatabaseError(f"where must be text, got {text!r}; {_EXAMPLE}.")
    if len(text) > LONGEST_WHERE:
        raise DatabaseError(f"where has at most {LONGEST_WHERE:,} characters, got {len(text):,}.")
    tokens = _tokens(text)
    conditions = []
    for start in range(0, max(len(tokens), 1), 4):
        conditions.append(_condition(tokens[start : start + 3]))
        for kind, joint in tokens[start + 3 : start + 4]:
            if kind != "word" or joint.lower() != "and":
                raise DatabaseError(f"where joins conditions by 'and' alone, got {joint!r}; {_EXAMPLE}.")
            if start + 4 == len(tokens):
                raise DatabaseError(f"where ends after 'and'; {_EXAMPLE}.")
    return tuple(conditions)


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
    kinds = [kind for kind, _ in tokens]
    if (
        len(tokens) < 3
        or kinds[0] not in ("word", "quoted")
        or kinds[1] != "operator"
        or kinds[2] == "operator"
    ):
        got = " ".join(token for _, token in tokens) or "nothing"
        raise DatabaseError(
            f"where expects a column, a comparison and a value, got {got[:60]!r}; {_EXAMPLE}."
        )
    (_, column), (_, operator), (kind, value) = tokens
    return Condition(_unquoted(column), _SAME.get(operator, operator), _value(kind, value))


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


def check(conditions: tuple[Condition, ...], known: Mapping[str, str]) -> None:
    """Refuse columns that are not there, and values of another kind than theirs."""
    for condition in conditions:
        kind = known.get(condition.column)
        if kind is None:
            raise DatabaseError(
                f"No column is named {condition.column!r}; "
                + (f"there are {', '.join(known)}." if known else "the items have no columns.")
            )
        value = condition.value
        if kind == "text" and not isinstance(value, str):
            raise DatabaseError(
                f"Column {condition.column!r} holds text; write the value in quotes: "
                f"{condition.column} {condition.operator} '{_written(value)}'."
            )
        if kind == "number" and (isinstance(value, str | bool)):
            raise DatabaseError(f"Column {condition.column!r} holds numbers, got {_written(value)!r}.")
        if kind == "true or false" and (not isinstance(value, bool) or condition.operator not in ("=", "!=")):
            raise DatabaseError(
                f"Column {condition.column!r} holds true and false; compare it by = or != with one of them."
            )


def _written(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def matching(conditions: tuple[Condition, ...], table: Table | None, n: int) -> Array:
    """Which of the ``n`` rows of a table meet all conditions."""
    fits = np.ones(n, dtype=bool)
    for condition in conditions:
        column = None if table is None else table.columns.get(condition.column)
        if column is None:
            return np.zeros(n, dtype=bool)
        fits &= _fits(condition, column)
        fits &= ~column.missing
    return fits


def _fits(condition: Condition, column: Column) -> Array:
    values, operator, wanted = column.values, condition.operator, condition.value
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
