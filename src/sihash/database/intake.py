"""Which items of a source become items of the collection, and what is reported of the others.

- `EveryRow`: vectors without ids. Each row is an item, numbered by its place in the source.
- `EachId`: items under ids that the user gave. What is under the id already is skipped, or replaced.
- `EachContent`: images. Each content is one item; a path is its id, but does not make it another item.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sihash._typing import Array
from sihash.database.answers import Id, JoinedLabels, LabelConflict, LabelSet, Value
from sihash.datasets import Reject
from sihash.store.catalogue import Catalogue
from sihash.store.errors import IdTaken
from sihash.store.ids import folded, of_row, rows_under, twins
from sihash.store.labels import LabelTable, joined_labels
from sihash.store.segments import Places

if TYPE_CHECKING:
    from sihash.database.sources import Source


@dataclass(frozen=True)
class Present:
    """An item that the collection has: its number, and what a source would say of it."""

    number: int
    id: Id
    content: bytes
    labels: LabelSet
    columns: dict[str, Value]


class Known(Protocol):
    """What the collection had before."""

    def contents(self, contents: list[bytes], but: Set[Id] = frozenset()) -> dict[bytes, LabelSet]:
        """Which of these it has, with their labels; items with the ids ``but`` left out."""

    def under(self, ids: list[Id]) -> dict[Id, Present]:
        """The items that it has under these ids; an id too much like one of its own is refused."""


class Nothing:
    """See `Known`. A collection that has nothing yet."""

    def contents(self, contents: list[bytes], but: Set[Id] = frozenset()) -> dict[bytes, LabelSet]:
        return {}

    def under(self, ids: list[Id]) -> dict[Id, Present]:
        return {}


class Collected:
    """See `sihash.database.intake.Known`. The items of a collection that live."""

    def __init__(self, catalogue: Catalogue, places: Places, classes: LabelTable) -> None:
        self._catalogue, self._places, self._classes = catalogue, places, classes

    def contents(self, contents: list[bytes], but: Set[Id] = frozenset()) -> dict[bytes, LabelSet]:
        found = list(self._catalogue.rows_in("items", "content", contents))
        alive = self._places.alive(np.array([row[0] for row in found], dtype=np.int64))
        living = [row for row, lives in zip(found, alive, strict=True) if lives]
        living = [row for row in living if not but or of_row(row[0], row[5]) not in but]
        labels = self._labels(np.array([row[0] for row in living], dtype=np.int64))
        return dict(zip((row[4] for row in living), labels, strict=True))

    def under(self, ids: list[Id]) -> dict[Id, Present]:
        rows = rows_under(self._catalogue, self._places, ids)
        wanted = {folded(own): own for own in ids}
        numbers = np.array([row[0] for row in rows.values()], dtype=np.int64)
        columns, labels = self._places.columns(numbers), self._labels(numbers)
        out = {}
        for (key, row), own_labels, said in zip(rows.items(), labels, columns, strict=True):
            number, _, _, _, content, given, _ = row
            own = of_row(number, given)
            if own != wanted[key]:
                raise twins(own, wanted[key])
            out[own] = Present(number, own, content, own_labels, said)
        return out

    def _labels(self, numbers: Array) -> list[LabelSet]:
        return [self._classes[number] for number in self._places.classes(numbers).tolist()]


def intake_of(source: Source, known: Known) -> Intake:
    """The rule for a source."""
    if source.ids_said:
        return EachId(source, known)
    return EveryRow(source, known) if source.holds_vectors else EachContent(source, known)


class Intake:
    """Decides block by block what is taken from a source; the lists are complete after its last block.

    ``taken`` are places in the source, and ``offsets`` what is added to the first new number for each.
    """

    def __init__(self, source: Source, known: Known) -> None:
        self.source, self.known = source, known
        self.taken: list[int] = []
        self.offsets: list[int] = []
        self.skipped: list[str] = []
        self.rejects: list[Reject] = list(source.rejects)
        self.conflicts: list[LabelConflict] = []
        self.repeated: list[int] = []  # offsets
        self.replaced: list[Present] = []
        self.joined: list[JoinedLabels] = []
        self.joined_labels: dict[bytes, LabelSet] = {}  # by content, of items taken before these came

    @property
    def n_numbers(self) -> int:
        """How many numbers the new items take up."""
        return self.offsets[-1] + 1 if self.offsets else 0

    def ids(self, first: int) -> list[Id]:
        """Ids of what was taken; items without ids are numbered from ``first``."""
        if self.source.ids is None:
            return [first + k for k in self.offsets]
        return [self.source.ids[k] for k in self.taken]

    def reject(self, place: int, reason: str) -> None:
        self.rejects.append(Reject(self.source.names[place], reason))

    def new(self, places: Sequence[int], contents: list[bytes]) -> Sequence[int]:
        """Which of these are new, as positions in ``places``, before anything else is known of them."""
        raise NotImplementedError

    def take(
        self, places: Sequence[int], contents: list[bytes], new: Sequence[int], reasons: dict[bytes, str]
    ) -> Sequence[int]:
        """Note the ``new`` ones as taken but for contents with a reason to reject them; the others are
        skipped. The positions of those taken.
        """
        taken = [k for k in new if contents[k] not in reasons] if reasons else new
        if len(taken) < len(places):
            for k in sorted(set(range(len(places))).difference(taken)):
                if contents[k] in reasons:
                    self.reject(places[k], reasons[contents[k]])
                else:
                    self.skipped.append(self.source.names[places[k]])
        self.offsets += self._numbered([places[k] for k in taken])
        self.taken += [places[k] for k in taken]
        return taken

    def _numbered(self, places: list[int]) -> Sequence[int]:
        return range(self.n_numbers, self.n_numbers + len(places))

    def _conflict(self, place: int, kept: LabelSet) -> None:
        self.conflicts.append(LabelConflict(self.source.names[place], self.source.labels[place], kept))


class EveryRow(Intake):
    """Every row is an item, also one that is equal to an earlier item: that is only reported."""

    def __init__(self, source: Source, known: Known) -> None:
        super().__init__(source, known)
        self._labels: dict[bytes, LabelSet] = {}  # of the first labelled item with each content

    @property
    def n_numbers(self) -> int:
        return len(self.source)  # also past rejected rows

    def new(self, places: Sequence[int], contents: list[bytes]) -> Sequence[int]:
        return range(len(places))

    def take(
        self, places: Sequence[int], contents: list[bytes], new: Sequence[int], reasons: dict[bytes, str]
    ) -> Sequence[int]:
        self._labels.update(self.known.contents(contents))
        for place, content in zip(places, contents, strict=True):
            labels, earlier = self.source.labels[place], self._labels.get(content)
            if earlier is not None:
                self.repeated.append(place)
                if labels and earlier and labels != earlier:
                    self._conflict(place, earlier)
            self._labels[content] = earlier or labels
        return super().take(places, contents, new, reasons)

    def _numbered(self, places: list[int]) -> Sequence[int]:
        return places


class EachId(Intake):
    """One item under each id. The same again is skipped; anything else replaces it, if that is wanted."""

    def new(self, places: Sequence[int], contents: list[bytes]) -> Sequence[int]:
        self._present = self._under(places)
        return [
            k
            for k, (place, content) in enumerate(zip(places, contents, strict=True))
            if not self._is_there(place, content)
        ]

    def take(
        self, places: Sequence[int], contents: list[bytes], new: Sequence[int], reasons: dict[bytes, str]
    ) -> Sequence[int]:
        taken = super().take(places, contents, new, reasons)
        self._replace([places[k] for k in taken])
        return taken

    def _under(self, places: Sequence[int]) -> dict[int, Present]:
        """Items of the collection under the ids of some places."""
        ids = self.source.ids
        if ids is None:
            return {}
        found = self.known.under([ids[place] for place in places])
        return {place: found[ids[place]] for place in places if ids[place] in found}

    def _is_there(self, place: int, content: bytes) -> bool:
        """Whether the item under this id is what comes under it."""
        present = self._present.get(place)
        return present is not None and self._said(place, content, present) == (
            present.content,
            present.labels,
            present.columns,
        )

    def _said(self, place: int, content: bytes, present: Present) -> tuple[bytes, LabelSet, dict[str, Value]]:
        """What the source says of an item whose id the collection has."""
        return content, self.source.labels[place], self.source.columns.row(place)

    def _replace(self, places: list[int]) -> None:
        """Note which items of the collection these replace; refused unless the caller wants it."""
        found = [self._present[place] for place in places if place in self._present]
        if found and not self.source.replace:
            raise IdTaken(
                f"The id {found[0].id!r} is there already, with other content, label or columns; nothing was "
                "added. Replace it (--replace, replace=True), or give the new item another id; a prefix "
                "(--prefix, prefix=) makes other ids of paths."
            )
        self.replaced += found


class EachContent(EachId):
    """Each content is one item, the first that has it.

    A file that has moved is the item that it was; a file with other content under its path is another item.
    Where contents come again with other labels, an item of the collection keeps its own, which is a conflict,
    and an item of this source gets them too.
    """

    def __init__(self, source: Source, known: Known) -> None:
        super().__init__(source, known)
        # What an item has that this source may replace is not there until the item is known to stay.
        self._replaceable = frozenset(source.ids or ()) if source.replace else frozenset()
        self._kept: dict[bytes, LabelSet] = {}  # by content, of what the collection had before
        self._new: dict[bytes, LabelSet] = {}  # by content, of what was taken

    def new(self, places: Sequence[int], contents: list[bytes]) -> Sequence[int]:
        self._present = self._under(places)
        self._kept.update(self.known.contents(contents, self._replaceable))
        seen = {content for content in contents if content in self._new or content in self._kept}
        new = []
        for k, (place, content) in enumerate(zip(places, contents, strict=True)):
            if self._is_there(place, content):
                self._kept[content] = self._present[place].labels
            elif place in self._present or content not in seen:
                new.append(k)
            seen.add(content)
        return new

    def take(
        self, places: Sequence[int], contents: list[bytes], new: Sequence[int], reasons: dict[bytes, str]
    ) -> Sequence[int]:
        taken = super().take(places, contents, new, reasons)
        self._new.update((contents[k], self.source.labels[places[k]]) for k in taken)
        for k in sorted(set(range(len(places))).difference(taken)):
            if contents[k] not in reasons:
                self._again(places[k], contents[k])
        return taken

    def _said(self, place: int, content: bytes, present: Present) -> tuple[bytes, LabelSet, dict[str, Value]]:
        """An item whose labels come from several files of one content is each of these."""
        _, labels, columns = super()._said(place, content, present)
        part = not self.source.replace and set(labels) < set(present.labels)
        return content, present.labels if part else labels, columns

    def _again(self, place: int, content: bytes) -> None:
        """Content that is skipped, perhaps with labels that its item does not have."""
        labels = self.source.labels[place]
        if content in self._kept:
            if not set(labels) <= set(self._kept[content]):
                self._conflict(place, self._kept[content])
        elif not set(labels) <= set(self._new[content]):
            both = joined_labels(self._new[content], labels)
            self._new[content] = self.joined_labels[content] = both
            self.joined.append(JoinedLabels(self.source.names[place], both))
