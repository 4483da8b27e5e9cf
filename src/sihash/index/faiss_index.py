"""Exact search up to a size, FAISS' inverted lists beyond it where they find what the exact search finds."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.index.base import check_search
from sihash.index.scan import ScanIndex

logger = logging.getLogger("sihash")
EXACT_UP_TO = 2_000_000  # below it a scan takes less than half a millisecond
RECALL = 0.99  # what the lists must find of the nearest TRIED_K, on TRIED codes of the index itself
TRIED, TRIED_K = 500, 10


class FaissIndex(ScanIndex):
    """See `CodeIndex`. A `ScanIndex` that also keeps its codes in FAISS' lists once there are many.

    The lists hold similar codes together and a query looks into the few lists nearest to it, so it may miss
    a neighbour. How many lists that are is measured: the fewest that find 99 % of the ten nearest of codes
    of the index itself. Where even a quarter of the lists do not (as with random codes), there are no lists
    and the exact search goes on. The measure is taken again, and the lists are made again, when half of the
    codes came or changed. `radius` and searches among some ids only are always exact. Where FAISS is
    not installed the exact search goes on, and one line in the log tells how to get it.
    """

    def __init__(self, n_bits: int, exact_up_to: int = EXACT_UP_TO) -> None:
        super().__init__(n_bits)
        self.exact_up_to = exact_up_to
        self._lists: Any = None
        self._recall = 1.0
        self._n_new = 0  # codes that came or changed since the lists were made

    @property
    def ties_by_id(self) -> bool:
        return self._lists is None

    def add(self, ids: Array, codes: Array) -> None:
        super().add(ids, codes)
        if self._lists is not None:
            self._lists.add_with_ids(np.ascontiguousarray(codes), np.ascontiguousarray(ids, dtype=np.int64))
        self._renew(len(ids))

    def remove(self, ids: Array) -> None:
        super().remove(ids)
        self._take_out(ids)

    def replace(self, ids: Array, codes: Array) -> None:
        super().replace(ids, codes)
        if self._lists is not None:
            self._take_out(ids)
            self._lists.add_with_ids(np.ascontiguousarray(codes), np.ascontiguousarray(ids, dtype=np.int64))
        self._renew(len(ids))

    def search(self, codes: Array, k: int, allowed: Array | None = None) -> tuple[Array, Array]:
        if self._lists is None or allowed is not None:
            return super().search(codes, k, allowed)
        return self._search_lists(check_search(codes, self.n_bits, k), k)

    def describe(self) -> dict[str, Any]:
        about = super().describe()
        if self._lists is None:
            return about
        return about | {
            "kind": "faiss lists",
            "recall": self._recall,
            "lists": self._lists.nlist,
            "lists searched": self._lists.nprobe,
        }

    def _search_lists(self, codes: Array, k: int) -> tuple[Array, Array]:
        distances, ids = self._lists.search(np.ascontiguousarray(codes), k)
        distances[ids < 0] = -1  # fewer than k in the lists that were searched
        return distances, ids

    def _take_out(self, ids: Array) -> None:
        if self._lists is not None and len(ids):
            # With an array as selector and a table of places it costs the ids given, not a pass over all.
            import faiss

            self._lists.remove_ids(faiss.IDSelectorArray(np.ascontiguousarray(ids, dtype=np.int64)))

    def _renew(self, n_new: int) -> None:
        """Make the lists and measure them, if it is time."""
        self._n_new += n_new
        if len(self) <= self.exact_up_to:
            self._lists = None
        elif 2 * self._n_new >= len(self):
            self._n_new = 0
            self._make_lists()

    def _make_lists(self) -> None:
        try:
            self._lists = self._made_lists()
        except ImportError:
            logger.warning(
                "A search passes over all %d codes; FAISS would be faster: pip install 'sihash[database]'.",
                len(self),
            )
        else:
            self._recall = self._tuned()

    def _made_lists(self) -> Any:
        """FAISS' lists with all codes, about √n of them."""
        import faiss

        rng = np.random.default_rng(0)
        live = np.flatnonzero(self._slots.hidden == 0)
        n_lists = 1 << int(np.log2(len(live)) / 2)
        lists: Any = faiss.index_binary_factory(8 * self._slots.n_bytes, f"BIVF{n_lists}")
        lists.set_direct_map_type(faiss.DirectMap.Hashtable)  # type: ignore[attr-defined]  # not in its stubs
        lists.train(self._slots.codes(rng.choice(live, min(len(live), 50 * n_lists), replace=False)))
        lists.add_with_ids(self._slots.codes(live), self._slots.ids[live])
        return lists

    def _tuned(self) -> float:
        """Search the fewest lists that reach `RECALL`, and say what they reach; drop them if none do.

        Found is what is as near as the true neighbour at the last place: among ties any will do.
        """
        rng = np.random.default_rng(1)
        live = np.flatnonzero(self._slots.hidden == 0)
        queries = self._slots.codes(rng.choice(live, min(len(live), TRIED), replace=False))
        truth, _ = super().search(queries, TRIED_K)
        while self._lists.nprobe <= self._lists.nlist // 4:
            distances, ids = self._lists.search(queries, TRIED_K)
            recall = float(((ids >= 0) & (distances <= truth[:, -1:])).mean())
            if recall >= RECALL:
                return recall
            self._lists.nprobe *= 2
        self._lists = None
        return 1.0
