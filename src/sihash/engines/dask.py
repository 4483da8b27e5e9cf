"""Rows on the workers of a Dask cluster.

Every worker holds one part of the rows, in an actor (`sihash.engines.worker`). A call of the solver is one
message to each of them and one back. The driver keeps what it takes to lay a part out again when its worker
is lost: where its vectors come from, and the code word of every row; not Φ, and none of the solver's state.
What reads rows gets them again and goes on; a change is begun again from the rows before it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import numpy as np

from sihash._typing import Array
from sihash.engines.choose import is_dask_array
from sihash.engines.dask_actors import DaskActors
from sihash.engines.dask_matrix import Matrix
from sihash.engines.local import Result, RowColumns
from sihash.engines.partitioned_rows import Call, PartitionedRows, RowsLost
from sihash.engines.worker import NotHere, deliver, lay_out_part, lay_out_part_again
from sihash.kernel import KernelMap
from sihash.svm.blocks import Block, RowBlocks, Store
from sihash.svm.svm_state import SVMs

TRIES = 3  # to lay rows out on workers that are lost meanwhile
MAX_LOST_WORKERS = 10  # that one piece of work gets over


@dataclass(frozen=True)
class Piece:
    """Rows as they came: ``X`` holds their vectors, or is the block of a Dask array that yields them.

    ``key`` and ``y`` are those of the rows that are meant: of all, or of those numbered ``rows``.
    """

    X: Any
    key: Array
    y: Array
    rows: Array | None = None

    def only(self, live: Array) -> Piece:
        """The rows whose keys are ``live``."""
        stays = np.flatnonzero(np.isin(self.key, live))
        if len(stays) == len(self.key):
            return self
        rows = stays if self.rows is None else self.rows[stays]
        return Piece(self.X, self.key[stays], self.y[stays], rows)


class DaskRows(PartitionedRows):
    """Rows on Dask workers, under ``number`` in every actor of the actors.

    ``pieces[k]`` is what part k was made of; ``pair[key]`` the number of a row's code word, as of the last
    checkpoint.
    """

    def __init__(
        self,
        actors: DaskActors,
        sizes: list[int],
        shape: tuple[int, int],
        pieces: list[list[Piece]],
        pair: Array,
    ) -> None:
        super().__init__(sizes, *shape)
        self.actors, self.pieces, self.pair = actors, pieces, pair
        self.number = actors.new_number()
        self.lost: set[int] = set()
        self.is_settled = False  # until the first checkpoint; then rows do not change any more
        self.were_lost = False  # laid out again, without what a solver kept beside them
        self.live, self.words = np.zeros(0, np.int64), np.zeros((0, 0), np.int8)
        self.feature_map: Any = None
        finalize(self, actors.forget, self.number)

    def _run(self, places: list[int], function: Callable[..., Any], calls: list[Call]) -> list[Any]:
        return self._call(places, function, calls, None)

    def _call(
        self, places: list[int], function: Callable[..., Any], calls: list[Call], derived: int | None
    ) -> list[Any]:
        """Rows that are settled can be had again, so that what reads them is asked once more."""
        for _ in range(MAX_LOST_WORKERS if self.is_settled else 1):
            if self.lost and self.is_settled:
                self._revive()
            messages = [
                (self.number, function, call, derived, self.actors.forgotten(place))
                for place, call in zip(places, calls, strict=True)
            ]
            results = []
            for place, answer in zip(places, self.actors.call(places, "run", messages), strict=True):
                if answer is None or isinstance(answer, NotHere):
                    self.lost.add(place)
                else:
                    result, self.sizes[place] = answer
                    results.append(result)
            if not self.lost:
                return results
        raise RowsLost(
            f"{len(self.lost)} of {len(self.sizes)} Dask workers with training rows are gone; nothing "
            "was changed. Call again to lay their rows out on others."
        ) from self.actors.why

    def derive(self, function: Callable[..., Block], *args: Any) -> DaskRows:
        shape = self.n_features, self.n_bits
        pieces = [list(own) for own in self.pieces]
        twin = DaskRows(self.actors, list(self.sizes), shape, pieces, self.pair)
        self._call(self._everywhere, RowBlocks.derive, [(function, *args)] * len(self.sizes), twin.number)
        twin.sizes, twin.were_lost = list(self.sizes), self.were_lost
        twin._n_features, twin._n_bits = twin.parts(_shape)[0]
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> DaskRows:
        twin = self.derive(_deep_copy)
        if self.is_settled:
            twin.checkpoint(self.feature_map, self.words)
            twin.were_lost = self.were_lost
        return twin

    def lay_out(self, places: list[int], function: Callable[..., RowBlocks], calls: list[Call]) -> None:
        """Let the parts at these places make their rows: ``function(pieces, *call)``."""
        for _ in range(TRIES):
            for place in self.actors.gone.intersection(places):
                self.actors.replace(place)
            tables: list[list[dict[str, Any]]] = []
            deliveries: list[tuple[int, Any]] = []
            for place in places:
                tables.append([self._columns(piece, place, deliveries) for piece in self.pieces[place]])
            self.actors.wait_for(deliveries)
            filled = [(own, *call) for own, call in zip(tables, calls, strict=True)]
            answers = self.actors.call(places, "build", [(self.number, function, call) for call in filled])
            for place, n in zip(places, answers, strict=True):
                self.sizes[place] = n or 0
            missed = [k for k, n in enumerate(answers) if n is None]
            if not missed:
                return
            places, calls = [places[k] for k in missed], [calls[k] for k in missed]
        raise RowsLost(
            "Dask workers are lost as soon as they are given rows; do they have enough memory?"
        ) from self.actors.why

    def _columns(self, piece: Piece, place: int, deliveries: list[tuple[int, Any]]) -> dict[str, Any]:
        """The columns of a piece for a worker. A block of a Dask array is brought there by a Dask task."""
        if isinstance(piece.X, np.ndarray):
            X: Any = piece.X if piece.rows is None else piece.X[piece.rows]
        else:
            X, client = secrets.token_hex(8), self.actors.client
            where = {"workers": [self.actors.addresses[place]], "allow_other_workers": False, "pure": False}
            task = client.submit(deliver, client.compute(piece.X.block), piece.rows, X, **where)
            deliveries.append((place, task))
        return {"X": X, "y": piece.y, "key": piece.key, "pair": self.pair[piece.key]}

    # Rows that outlive their worker.

    def _took(self, place: int, columns: RowColumns) -> None:
        self.pieces[place].append(Piece(columns["X"], columns["key"], columns["y"]))
        self._note(columns["key"], columns["pair"])

    def _note(self, key: Array, pair: Array) -> None:
        noted = np.zeros(max(len(self.pair), int(key.max(initial=-1)) + 1), np.int32)
        noted[: len(self.pair)] = self.pair
        noted[key] = pair
        self.pair = noted  # a new array: rows that these were derived from keep theirs

    def checkpoint(self, feature_map: Any, words: Array) -> None:
        self.live = self.column("key")
        self._note(self.live, self.column("pair"))
        self.feature_map, self.words = feature_map, words
        self.is_settled, self.were_lost = True, False

    def _revive(self) -> None:
        """Lay lost parts out again, on other workers, as they were at the checkpoint."""
        lost = sorted(self.lost)
        for place in lost:
            self.pieces[place] = [piece.only(self.live) for piece in self.pieces[place]]
        self.lay_out(lost, lay_out_part, [(self.feature_map, self.words)] * len(lost))
        self.lost.clear()
        self.were_lost = True


def _shape(rows: RowBlocks) -> tuple[int, int]:
    return rows.n_features, rows.n_bits


def _deep_copy(block: Block, store: Store) -> Block:
    return Block(block.n, block.feature_map, **{name: array.copy() for name, array in block.arrays.items()})


class DaskEngine:
    """Lays rows out on Dask workers: a Dask array where its blocks lie, other rows in equal shares."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __deepcopy__(self, memo: dict[int, Any]) -> DaskEngine:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("A hasher with training rows on a Dask cluster cannot be pickled; use save and load.")

    def take(self, X: Any) -> Any:
        """Training rows as this engine lays them out."""
        return Matrix(X, self.client) if is_dask_array(X) else X

    def attempt(self, work: Callable[[], Result]) -> Result:
        for _ in range(MAX_LOST_WORKERS):
            try:
                return work()
            except RowsLost as error:
                lost = error
        raise lost

    def draft(self, svms: SVMs) -> SVMs:
        """What the solver kept beside rows that were laid out again is lost."""
        draft = svms.copy()
        if isinstance(draft.rows, DaskRows) and draft.rows.were_lost:
            draft.restart()
        return draft

    def settle(self, rows: RowBlocks, kernel: KernelMap, words: Array) -> None:
        if isinstance(rows, DaskRows):
            rows.checkpoint(kernel, words)

    def lay_out(
        self, kernel: KernelMap, columns: RowColumns, words: Array, sizes: list[int] | None = None
    ) -> DaskRows:
        if sizes is not None:
            return self._lay_out_again(kernel, columns, sizes, words)
        X = columns["X"]
        if isinstance(X, Matrix):
            places = X.places()
        else:
            shares = np.array_split(np.arange(len(X)), len(self.client.nthreads()))
            places = {
                address: [(X[share[0] : share[-1] + 1], int(share[0]))]
                for address, share in zip(self.client.nthreads(), shares, strict=True)
                if len(share)
            }
        rows = self._rows(kernel, columns, words, places)
        everywhere = list(range(len(places)))
        rows.lay_out(everywhere, lay_out_part, [(kernel, words)] * len(places))
        return rows

    def _lay_out_again(
        self, kernel: KernelMap, columns: RowColumns, sizes: list[int], words: Array
    ) -> DaskRows:
        stops = np.cumsum(sizes)
        cuts = np.searchsorted(stops, np.linspace(0, stops[-1], len(self.client.nthreads()) + 1)[1:-1])
        runs = [run for run in np.split(np.arange(len(sizes)), cuts) if len(run)]
        places: dict[str, list[tuple[Any, int]]] = {}
        for address, run in zip(self.client.nthreads(), runs, strict=False):
            first, last = int(stops[run[0]] - sizes[run[0]]), int(stops[run[-1]])
            places[address] = [(columns["X"][first:last], first)]
        rows = self._rows(kernel, columns, words, places)
        calls = [(kernel, [sizes[k] for k in run], words) for run in runs]
        rows.lay_out(list(range(len(places))), lay_out_part_again, calls)
        return rows

    def _rows(
        self, kernel: KernelMap, columns: RowColumns, words: Array, places: dict[str, list[tuple[Any, int]]]
    ) -> DaskRows:
        """Rows that know what their parts are to be made of: vectors, and where these begin, by address."""

        def piece(X: Any, start: int) -> Piece:
            own = slice(start, start + len(X))
            return Piece(X, columns["key"][own], columns["y"][own])

        pieces = [[piece(X, start) for X, start in held] for held in places.values()]
        shape = kernel.n_features_out, words.shape[1]
        actors = DaskActors(self.client, list(places))
        rows = DaskRows(actors, [0] * len(pieces), shape, pieces, np.zeros(0, np.int32))
        rows._note(columns["key"], columns["pair"])
        return rows
