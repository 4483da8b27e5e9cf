"""What the columns of a table are: vectors or images, labels, ids, names, and facts beside them.

The caller says it, or it is guessed by names and kinds; `Roles.told` says in words what was taken for what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

# "fact" is what a column of facts can hold beside numbers and text: dates, true and false; "nested" is what
# it cannot, such as lists of text.
Kind = Literal["vector", "number", "text", "image", "fact", "nested"]

LABEL_COLUMNS = ("y", "label", "labels", "class", "target", "category")
VECTOR_COLUMNS = ("X", "vector", "embedding", "features")
FILE_COLUMNS = ("file", "filename", "path", "image")
PREFIX = "column."  # before the name of a column in a file of ours, where the name has a meaning there
MOST_NAMED = 4  # columns that are named of many


def plain_name(name: str) -> str:
    """The name of a column in a file of ours: a prefix keeps those apart that have a meaning there."""
    return name.removeprefix(PREFIX)


@dataclass(frozen=True)
class Roles:
    """Columns by their role. ``vectors`` is one column of lists or many of numbers; empty for ``images``, a
    column of pictures or of paths. ``facts`` are the names of all others that are kept, and their columns;
    ``left_out`` are columns that can be none.
    """

    vectors: tuple[str, ...]
    images: str | None
    label: str | None
    id: str | None
    name: str | None
    facts: dict[str, str]
    left_out: tuple[str, ...] = ()

    def told(self) -> str:
        """In words, for a report."""
        parts = [f"images from {self.images}" if self.images else f"vectors from {_named(self.vectors)}"]
        parts += [f"{role} from {name}" for role, name in self._single() if name]
        parts += [f"other columns: {_named(tuple(self.facts))}"] if self.facts else []
        parts += [f"left out: {_named(self.left_out)} (lists or pictures)"] if self.left_out else []
        return ", ".join(parts)

    def _single(self) -> list[tuple[str, str | None]]:
        return [("labels", self.label), ("ids", self.id), ("names", self.name)]


def _named(names: tuple[str, ...]) -> str:
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMED - 2])}, …, {names[-1]} ({len(names)} columns)"


@dataclass(frozen=True)
class ColumnChoice:
    """What the caller says of the columns of a table: where ids and ``vectors`` are, guessed if None, and the
    ``columns`` of facts to keep, all if None.
    """

    id: str | None = None
    columns: Sequence[str] | None = ()
    vectors: Sequence[str] | None = None

    def id_column(self, there: Sequence[str], usual: Sequence[str], where: str) -> str | None:
        """The column that holds ids."""
        if self.id is not None and self.id not in there:
            raise ValueError(f"{where} has no column {self.id!r} for ids; it has {', '.join(there)}.")
        return self.id or next((name for name in usual if name in there), None)

    def chosen(self, there: Sequence[str], where: str) -> list[str]:
        """Those of the columns that are asked for."""
        for name in self.columns or ():
            if name not in there:
                raise ValueError(f"{where} has no column {name!r}; it has {', '.join(there) or 'none'}.")
        return [name for name in there if self.columns is None or name in self.columns]

    def roles(self, kinds: Mapping[str, Kind], label: str | None, where: str) -> Roles:
        """The roles of the columns of a table, by their kinds; ``where`` names it in errors.

        ``label`` is "" if labels come from elsewhere: then a column of labels is neither vector nor fact.
        """
        for given in (*([label] if label else []), *(self.vectors or ())):
            if given not in kinds:
                raise ValueError(f"{where} has no column {given!r}; it has {', '.join(kinds)}.")
        from_elsewhere = label == ""
        label = label or next((name for name in LABEL_COLUMNS if name in kinds), None)
        rest = [name for name in kinds if name not in (label, *(self.vectors or ()))]
        id_column = self.id_column(rest, ("id",), where)
        rest = [name for name in rest if name != id_column]
        vectors, images = tuple(self.vectors or ()), None
        if not vectors:
            vectors, images = _items_of({name: kinds[name] for name in rest}, where)
        rest = [name for name in rest if name not in (*vectors, images)]
        named = images is None or kinds[images] == "image"  # a path is a name already
        name = "name" if named and "name" in rest and kinds["name"] == "text" else None
        rest = [each for each in rest if each != name]
        left_out: list[str] = []
        if self.columns is None:
            left_out = [each for each in rest if kinds[each] in ("vector", "image", "nested")]
        facts = {plain_name(each): each for each in rest if each not in left_out}
        facts = {each: facts[each] for each in self.chosen(list(facts), where)}
        label = None if from_elsewhere else label
        return Roles(vectors, images, label, id_column, name, facts, tuple(left_out))


def _items_of(kinds: Mapping[str, Kind], where: str) -> tuple[tuple[str, ...], str | None]:
    """The columns of vectors, or the one of images, among those that are neither labels nor ids."""
    lists = [name for name, kind in kinds.items() if kind == "vector"]
    named = [name for name in VECTOR_COLUMNS if name in lists]
    if named or len(lists) == 1:
        return ((named or lists)[0],), None
    pictures = [name for name, kind in kinds.items() if kind == "image"]
    paths = [name for name in FILE_COLUMNS if kinds.get(name) == "text"]
    if not lists and (paths or len(pictures) == 1):
        return (), (pictures or paths)[0]
    numbers = tuple(name for name, kind in kinds.items() if kind == "number")
    if len(numbers) == len(kinds) and len(numbers) > 1:
        return numbers, None
    raise ValueError(
        f"{where} has {len(lists)} columns of number lists ({', '.join(lists) or 'none'}); expected one, or "
        f"one named {', '.join(VECTOR_COLUMNS)}, or a column of images ({', '.join(FILE_COLUMNS)}), or "
        "numbers in all columns but labels and ids. Or name the columns that hold the vectors: vectors=."
    )


NO_COLUMNS = ColumnChoice()
