"""The index of a database on a server: it proposes, the catalogue decides.

Every process that searches brings the server to what it knows: the codes of its model version, under the ids
that live. All write the same, so it matters neither who is first, nor how often, nor whether one stops
half-way: the next who opens the database completes it. A process that is late may bring back an id that
was removed; so what the server proposes is answered only if it lives.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from sihash._typing import Array
from sihash.store.errors import DatabaseError

REACH_SECONDS = 10.0
ALLOWED_HOSTS = "SIHASH_ALLOW_INDEX_HOST"  # separated by blanks
_named: set[str] = set()  # by the user, in this process


class ServedIndex:
    """See `sihash.index.CodeIndex`.

    ``mark`` is of the model whose codes these are, ``size`` about how many; ``alive`` tells which ids live,
    a bool for each.
    """

    ties_by_id = False

    def __init__(
        self, url: str, n_bits: int, version: int, mark: str, size: int, alive: Callable[[Array], Array]
    ) -> None:
        self.n_bits = n_bits
        self._alive = alive
        _check_allowed(_host(url))
        with _told():
            from sihash.index.milvus import MilvusIndex

            self._index = MilvusIndex(url, n_bits, version, size, mark)

    def __len__(self) -> int:
        with _told():
            return len(self._index)

    def add(self, ids: Array, codes: Array) -> None:
        with _told():
            there = np.isin(ids, self._index.among(ids))
            self._index.put(ids[~there], codes[~there])

    def remove(self, ids: Array) -> None:
        with _told():
            self._index.discard(ids)

    def replace(self, ids: Array, codes: Array) -> None:
        with _told():
            self._index.put(ids, codes)

    def publish(self) -> None:
        """Point the name in the URL to this version, for those who search without the database."""
        with _told():
            self._index.publish(self._index.version)

    def search(self, codes: Array, k: int, allowed: Array | None = None) -> tuple[Array, Array]:
        n = k
        while True:
            with _told():
                distances, ids = self._index.search(codes, n, allowed)
            dead = (ids >= 0) & ~self._alive(ids.ravel()).reshape(ids.shape)
            n_dead = dead.sum(axis=1)
            if ((n - n_dead >= k) | (ids[:, -1] < 0)).all():
                break
            n = k + int(n_dead.max())
        distances[dead], ids[dead] = -1, -1
        living_first = np.argsort(ids < 0, axis=1, kind="stable")[:, :k]
        distances = np.take_along_axis(distances, living_first, axis=1)
        return distances, np.take_along_axis(ids, living_first, axis=1)

    def radius(self, codes: Array, r: int, allowed: Array | None = None) -> list[tuple[Array, Array]]:
        with _told():
            balls = self._index.radius(codes, r, allowed)
        living = [self._alive(ids) for _, ids in balls]
        return [(near[own], ids[own]) for (near, ids), own in zip(balls, living, strict=True)]

    def describe(self) -> dict[str, Any]:
        with _told():
            return self._index.describe()


def _host(url: str) -> str:
    return (urlsplit(url.partition("+")[2]).hostname or "").lower()


def _check_allowed(host: str) -> None:
    """A database says which server it is searched on. One from elsewhere could have this machine send codes,
    and the credentials of the user, to any host.
    """
    if host not in _named | set(os.environ.get(ALLOWED_HOSTS, "").lower().split()):
        raise DatabaseError(
            f"This database is searched on the Milvus server {host}; if you trust it, allow that: "
            f"`sihash --allow-index-host {host} …`, or {ALLOWED_HOSTS}={host} in the environment."
        )


def reach(url: str) -> None:
    """Refuse a server that does not answer; nothing is made on it. The user has named it: it is allowed."""
    _named.add(_host(url))
    with _told():
        from sihash.index.milvus_connection import connected, parsed

        connected(parsed(url)[0], REACH_SECONDS).close()


@contextmanager
def _told() -> Iterator[None]:
    """What the server cannot do, as an error of the database."""
    try:
        yield
    except ImportError as error:
        raise DatabaseError(
            f"An index on Milvus needs the package {error.name}; pip install 'sihash[milvus]'."
        ) from error
    except (RuntimeError, ValueError) as error:
        raise DatabaseError(str(error)) from error
