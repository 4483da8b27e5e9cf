"""What an index promises: nearest codes by Hamming distance over a set of ids that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sihash._typing import Array
from sihash.checks import check_count
from sihash.codes import n_bytes


class CodeIndex(Protocol):
    """Packed codes under integer ids, searched by Hamming distance.

    Ids are whole numbers ≥ 0 (int64), codes packed uint8 (n × n_bytes) as `sihash.codes.pack` makes them.
    A change that is refused changes nothing. Searches may run side by side, a change runs alone.
    ``allowed`` restricts a search to some ids, sorted or not; ids that are not there are passed over. What an
    index makes of a read-only array it may keep for the next search with the same array.
    ``ties_by_id`` says whether ids that tie at the last place of a search are the smallest, or any.
    """

    n_bits: int

    @property
    def ties_by_id(self) -> bool: ...

    def __len__(self) -> int: ...

    def add(self, ids: Array, codes: Array) -> None:
        """Add codes under new ids. An id that is there already is refused."""

    def remove(self, ids: Array) -> None:
        """Remove ids. One that is not there is refused."""

    def replace(self, ids: Array, codes: Array) -> None:
        """Give ids that are there new codes."""

    def search(self, codes: Array, k: int, allowed: Array | None = None) -> tuple[Array, Array]:
        """The k nearest of each query: distances (int32) and ids (int64), both n_queries × k.

        Ordered by distance, then id. −1 in both where fewer than k are there.
        """

    def radius(self, codes: Array, r: int, allowed: Array | None = None) -> list[tuple[Array, Array]]:
        """For each query the distances and ids of all within distance ``r``, by distance, then id."""

    def describe(self) -> dict[str, Any]:
        """``kind``, ``n_bits``, ``size`` and ``recall`` (measured on its own codes; 1.0 if exact)."""


def check_ids(ids: Array) -> Array:
    """Ids as int64 (n,), refused unless whole, not negative and different."""
    ids = np.asarray(ids)
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise ValueError(f"Ids must be whole numbers in one dimension, got {ids.dtype} of shape {ids.shape}.")
    ids = ids.astype(np.int64)
    if ids.size and ids.min() < 0:
        raise ValueError(f"Ids must not be negative, got {ids.min()}.")
    if len(ids) > 1 and not (np.diff(ids) > 0).all():
        values, counts = np.unique(ids, return_counts=True)
        if counts.max() > 1:
            raise ValueError(f"The id {values[np.argmax(counts)]} is given twice; ids must be different.")
    return ids


def check_codes(codes: Array, n_bits: int, n: int | None = None) -> Array:
    """Packed codes as they are, refused unless uint8 (n × n_bytes) with zeros in the unused bits."""
    codes = np.asarray(codes)
    if codes.dtype != np.uint8 or codes.ndim != 2 or codes.shape[1] != n_bytes(n_bits):
        raise ValueError(
            f"Expected packed uint8 codes of {n_bytes(n_bits)} bytes for {n_bits} bits, got {codes.dtype} of "
            f"shape {codes.shape}; pack ±1 codes with sihash.codes.pack."
        )
    if n is not None and len(codes) != n:
        raise ValueError(f"Expected as many codes as ids, got {len(codes)} codes for {n} ids.")
    if n_bits % 8 and (codes[:, -1] >> (n_bits % 8)).any():
        raise ValueError(
            f"The bits beyond the first {n_bits} must be zero; pack ±1 codes with sihash.codes.pack."
        )
    return codes


def check_radius(r: int) -> None:
    """Refuse what is no whole number ≥ 0."""
    if not isinstance(r, int | np.integer) or isinstance(r, bool) or r < 0:
        raise ValueError(f"r must be a whole number of at least 0, got {r!r}.")


def check_search(codes: Array, n_bits: int, k: int) -> Array:
    """The queries of a search, after a look at ``k``."""
    check_count("k", k)
    return check_codes(codes, n_bits)


def refuse_present(ids: Sequence[int] | Array) -> None:
    """Say that ids which were to be added are there already."""
    if len(ids):
        raise ValueError(f"The id {ids[0]} is there already; replace gives it a new code.")


def refuse_missing(ids: Sequence[int] | Array) -> None:
    """Say that ids which were to be changed are not there."""
    if len(ids):
        raise KeyError(f"No code has the id {ids[0]}.")
