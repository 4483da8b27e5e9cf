"""A database as one reader sees it: everything of one moment, in memory, ready to answer."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash._typing import Array
from sihash.codes import n_bytes
from sihash.database.answers import LabelSet
from sihash.database.present import numbers_of
from sihash.database.ranking import codes_and_sketches, make_ranker, n_bits_near
from sihash.hashing.hash_functions import HashFunctions
from sihash.index import CodeIndex, open_index
from sihash.index.served import ServedIndex
from sihash.ranking import Ranker, Sketcher, Weights
from sihash.store import files, where
from sihash.store.catalogue import Catalogue
from sihash.store.errors import NoSuchItem
from sihash.store.labels import plain_label
from sihash.store.log import Log
from sihash.store.rw_lock import SharedLock
from sihash.store.segments import Places
from sihash.store.state import Difference, State, difference, read_state

if TYPE_CHECKING:
    from sihash.hashing import SIH

KEPT_FILTERS = 64  # numbers that met the conditions of a search


class Snapshot:
    """The state of a database with the hash functions in force, and indexes of the items that live.

    ``lock`` is held by searches together, and alone by `follow`.
    """

    def __init__(self, root: Path, catalogue: Catalogue, before: State | None = None) -> None:
        """``before`` is an earlier state of the same catalogue, to go on from."""
        self.lock = SharedLock()
        self.catalogue = catalogue  # where names of these items are
        self.root = root
        self.meta = catalogue.meta
        self._ranker: Ranker | None = None
        self._making = Lock()
        self._matching: dict[tuple[int, str], Array] = {}
        self.state = read_state(root, catalogue, before)
        self.places, self.classes = Places(self.state.segments), self.state.labels
        hash_file = catalogue.file_of_version("hash", self.version)
        self.sketcher = Sketcher.from_array(files.load_array(root, catalogue.file_of_kind("sketcher")))
        files.check(root, hash_file)
        self.hasher = HashFunctions.from_file(root / hash_file.path)
        self._hash_path = root / hash_file.path
        self.model = hash_file.sha256.hex()

    def follow(self) -> bool:
        """Follow the catalogue to its present state; False if that takes another snapshot."""
        after = read_state(self.root, self.catalogue, self.state)
        if after.version != self.version:
            return False
        if self._is_served and after.log.codes_from(self.version) != self.log.codes_from(self.version):
            return False  # the codes are in another collection of the server
        with self.lock.writing():
            if self._ranker is not None:
                self._follow(self._ranker, difference(self.state.segments, after.segments))
            self.state = after
            self.places.become(after.segments)
        return True

    def detached(self) -> Snapshot:
        """A snapshot of this moment that stays as it is, without indexes: for a long look."""
        own = copy(self)
        own.lock, own._making, own._ranker, own._matching = SharedLock(), Lock(), None, {}
        own.places = Places(self.state.segments)
        return own

    @property
    def log(self) -> Log:
        return self.state.log

    def estimator(self) -> SIH:
        """The estimator behind `hasher`, for those who learn; it brings scikit-learn."""
        from sihash.hashing import SIH

        return SIH.load(self._hash_path)

    @property
    def operation(self) -> int:
        return self.log.last.number

    @property
    def version(self) -> int:
        return self.log.last.version

    def is_later_than(self, other: Snapshot | None) -> bool:
        """Whether this is to be handed out instead: not if a copy was put in the place of the database."""
        return other is None or (self.catalogue is other.catalogue and self.operation > other.operation)

    @property
    def n_items(self) -> int:
        return self.state.n_items

    @property
    def ranker(self) -> Ranker:
        """The indexes, made when first asked for: who only writes has no use for them."""
        with self._making:
            if self._ranker is None:
                index = self._open_index()
                on_server = isinstance(index, ServedIndex)
                near = None if on_server else open_index(self.meta["index"], n_bits_near(self.n_bits))
                ranker = make_ranker(
                    self.hasher,
                    self.sketcher,
                    self.weights,
                    (index, near),
                    self.places,
                    self.classes,
                )
                self._follow(ranker, difference([], self.places.segments))
                if isinstance(index, ServedIndex):
                    self._replace_on_server(index)
                    index.publish()
                self._ranker = ranker
            return self._ranker

    @property
    def weights(self) -> Weights:
        """Of the ranking, as they were found when the version in force was learned."""
        return Weights(**self.log.learned(self.version).details["ranking"])

    def _replace_on_server(self, index: ServedIndex) -> None:
        """Items that came since may have other codes there: those of before an update, or of one undone."""
        since = self.log.learned(self.log.codes_from(self.version)).number
        for segment in self.places.segments:
            rows = segment.alive
            if rows.any() and int(np.max(segment.operations)) > since:
                index.replace(segment.ids[rows], segment.codes[rows])

    def _open_index(self) -> CodeIndex:
        name = self.meta["index"]
        if not self._is_served:
            return open_index(name, self.n_bits)
        # An item keeps its code on a server until all have been encoded again, in a collection of their own.
        base = self.log.codes_from(self.version)
        mark = self.log.learned(base).details["model"]
        return ServedIndex(name, self.n_bits, base, mark, self.n_items, self.places.alive)

    @property
    def _is_served(self) -> bool:
        return bool(self.meta["index"].startswith("milvus+"))

    @property
    def holds_vectors(self) -> bool:
        return bool(self.meta["features"]["name"] == "none")

    @property
    def n_bits(self) -> int:
        return int(self.meta["n_bits"])

    @property
    def n_bytes(self) -> int:
        return n_bytes(self.n_bits)

    @property
    def width(self) -> int:
        return int(self.meta["width"])

    def codes(self, ids: Array) -> Array:
        return self.places.codes(ids, self.n_bytes)

    def vectors(self, ids: Array) -> Array:
        return self.places.vectors(ids, self.width)

    def labels(self, ids: Array) -> list[LabelSet]:
        """Labels of items as they are now, in the order of ``ids``."""
        return [self.classes[number] for number in self.places.classes(ids).tolist()]

    def known_labels(self, labels: Iterable[Any]) -> list[str | int]:
        """Labels as the database has them; one that it does not have is refused."""
        out = []
        for label in labels:
            plain = plain_label(label)
            if plain is None or self.classes.place_of(plain) is None:
                raise NoSuchItem(f"No class is named {plain!r}; `sihash info DB --json` lists all classes.")
            out.append(plain)
        return out

    def ids_of(self, labels: Iterable[Any]) -> Array:
        """Ids of the living items that have one of some labels; a label that no item has is refused."""
        numbers = self.classes.holding(self.known_labels(labels))
        ids, own = self.places.live_ids(), self.places.live_classes()
        return ids[np.isin(own, numbers)]

    def living(self, ids: Iterable[Any]) -> Array:
        """Numbers of items by their ids, in their order; one that the collection does not have is refused."""
        return numbers_of(self.catalogue, self.places, ids)

    def matching(self, text: str) -> Array:
        """Numbers of the living items that meet the conditions of `where`, ascending."""
        key = (self.operation, text)
        found = self._matching.get(key)
        if found is None:
            conditions = where.parse(text)
            where.check(conditions, self.log.columns)
            parts = [
                segment.ids[  # by places: a mask with every other row takes far longer
                    np.flatnonzero(
                        segment.alive & where.matching(conditions, segment.columns, len(segment.ids))
                    )
                ]
                for segment in self.places.segments
            ]
            found = np.concatenate([np.empty(0, dtype=np.int64), *parts])
            found.flags.writeable = False  # so an index may keep what it makes of it
            if len(self._matching) >= KEPT_FILTERS:
                self._matching.clear()
            self._matching[key] = found
        return found

    def _follow(self, ranker: Ranker, change: Difference) -> None:
        """Bring the indexes to the state after a change."""
        near, on_server = ranker.near, isinstance(ranker.index, ServedIndex)
        for ids in change.gone:
            ranker.index.remove(ids)
            if near is not None:
                near.remove(ids)
        for segment, rows in change.recoded:
            if not on_server:  # there an item has its code for as long as the collection is in use
                ranker.index.replace(segment.ids[rows], segment.codes[rows])
            if near is not None:
                near.replace(segment.ids[rows], codes_and_sketches(segment, rows))
        for segment, rows in change.came:
            ranker.index.add(segment.ids[rows], segment.codes[rows])
            if near is not None:
                near.add(segment.ids[rows], codes_and_sketches(segment, rows))
