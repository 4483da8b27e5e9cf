"""The obvious index: a dictionary and all distances. It is what the others are tested against."""

from __future__ import annotations

from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.checks import check_count
from sihash.codes import hamming, n_bytes
from sihash.index.base import (
    check_codes,
    check_ids,
    check_radius,
    check_search,
    refuse_missing,
    refuse_present,
)


class NumpyIndex:
    """See `CodeIndex`. Exact, simple and slow."""

    ties_by_id = True

    def __init__(self, n_bits: int) -> None:
        check_count("n_bits", n_bits)
        self.n_bits = n_bits
        self._codes: dict[int, Array] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, ids: Array, codes: Array) -> None:
        ids = check_ids(ids)
        codes = check_codes(codes, self.n_bits, len(ids))
        refuse_present([i for i in ids.tolist() if i in self._codes])
        self._codes.update(zip(ids.tolist(), codes.copy(), strict=True))

    def remove(self, ids: Array) -> None:
        ids = check_ids(ids)
        self._refuse_missing(ids)
        for i in ids.tolist():
            del self._codes[i]

    def replace(self, ids: Array, codes: Array) -> None:
        ids = check_ids(ids)
        codes = check_codes(codes, self.n_bits, len(ids))
        self._refuse_missing(ids)
        self._codes.update(zip(ids.tolist(), codes.copy(), strict=True))

    def search(self, codes: Array, k: int, allowed: Array | None = None) -> tuple[Array, Array]:
        codes = check_search(codes, self.n_bits, k)
        distances = np.full((len(codes), k), -1, dtype=np.int32)
        ids = np.full((len(codes), k), -1, dtype=np.int64)
        for q, (near, names) in enumerate(self._ranked(codes, allowed)):
            distances[q, : len(near)], ids[q, : len(names)] = near[:k], names[:k]
        return distances, ids

    def radius(self, codes: Array, r: int, allowed: Array | None = None) -> list[tuple[Array, Array]]:
        check_radius(r)
        codes = check_codes(codes, self.n_bits)
        return [(near[near <= r], ids[near <= r]) for near, ids in self._ranked(codes, allowed)]

    def describe(self) -> dict[str, Any]:
        return {"kind": "numpy", "n_bits": self.n_bits, "size": len(self), "recall": 1.0}

    def _ranked(self, queries: Array, allowed: Array | None) -> list[tuple[Array, Array]]:
        """All distances and ids for each query, in order."""
        ids = np.array(sorted(self._codes), dtype=np.int64)
        if allowed is not None:
            ids = ids[np.isin(ids, check_ids(allowed))]
        stored = np.array([self._codes[i] for i in ids.tolist()], np.uint8).reshape(-1, n_bytes(self.n_bits))
        ranked = []
        for near in hamming(queries, stored).astype(np.int32):
            order = np.argsort(near, kind="stable")
            ranked.append((near[order], ids[order]))
        return ranked

    def _refuse_missing(self, ids: Array) -> None:
        refuse_missing([i for i in ids.tolist() if i not in self._codes])
