"""Lists of answers and of items that become tables for other tools: pandas, Arrow, HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from sihash.database.answers import Answer, Item, Labelled
from sihash.datasets.roles import PREFIX

Row = TypeVar("Row")
SHOWN = 20  # items in a notebook


class _Table(list[Row]):
    """A list with columns."""

    def columns(self) -> dict[str, list[Any]]:
        """Values by the name of the column, a row for each hit or item."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """A DataFrame of pandas."""
        import pandas

        return pandas.DataFrame(self.columns())

    def to_arrow(self) -> Any:
        """A table of pyarrow. Ids and labels of which some are numbers and others text are all text."""
        try:
            import pyarrow
        except ImportError:
            raise ImportError("Tables of Arrow need pyarrow: pip install 'sihash[parquet]'.") from None
        return pyarrow.table({name: pyarrow.array(_of_one_kind(v)) for name, v in self.columns().items()})


class Answers(_Table[Answer]):
    """The answers to some queries. As a table, a row is a hit: ``query`` is the number of its query, and
    ``place`` is 1 for the best hit.
    """

    def columns(self) -> dict[str, list[Any]]:
        hits = [hit for answer in self for hit in answer.hits]
        own: dict[str, list[Any]] = {
            "query": [number for number, answer in enumerate(self) for _ in answer.hits],
            "place": [place for answer in self for place in range(1, len(answer.hits) + 1)],
            "id": [hit.id for hit in hits],
            **_labels(hits),
            "score": [hit.score for hit in hits],
            "distance": [hit.distance for hit in hits],
            "name": [hit.name for hit in hits],
        }
        return own | _facts([hit.columns for hit in hits], own)

    def _repr_html_(self) -> str:
        return "".join(answer._repr_html_() for answer in self[:SHOWN])


class Items(_Table[Item]):
    """Items; as a table, a row each."""

    def columns(self) -> dict[str, list[Any]]:
        own: dict[str, list[Any]] = {
            "id": [item.id for item in self],
            **_labels(self),
            "name": [item.name for item in self],
            "version": [item.version for item in self],
        }
        return own | _facts([item.columns for item in self], own)

    def _repr_html_(self) -> str:
        from sihash.pages import render

        columns = Items(self[:SHOWN]).columns()
        return render("table.html", columns=columns, n_shown=min(len(self), SHOWN), n=len(self))


def _labels(rows: Iterable[Labelled]) -> dict[str, list[Any]]:
    """One label each where none has more, else lists of them."""
    labels = [row.labels for row in rows]
    if all(len(own) <= 1 for own in labels):
        return {"label": [own[0] if own else None for own in labels]}
    return {"labels": [list(own) for own in labels]}


def _facts(rows: list[dict[str, Any]], own: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The user's columns; one with the name of another has a prefix, as in an export."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {(f"{PREFIX}{n}" if n in own else n): [row.get(n) for row in rows] for n in names}


def _of_one_kind(values: list[Any]) -> list[Any]:
    """Values as they are, or as text where they are numbers and text."""
    flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
    if {type(each) for each in flat} >= {int, str}:
        return [list(map(str, v)) if isinstance(v, list) else v if v is None else str(v) for v in values]
    return values
