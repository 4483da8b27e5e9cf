"""An index on a Milvus server, for collections past one machine.

The name in the URL is an alias. The codes of model version v are in a collection of their own, ``name_vV``;
the alias points to the present one. Who opens the index stays with the version that was present then, so
no search mixes two; `MilvusIndex.prepare` fills the collection of a new version beside it, and
`MilvusIndex.publish` turns the alias, in one step.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from pymilvus import DataType, MilvusException

from sihash._typing import Array
from sihash.checks import check_count
from sihash.codes import n_bytes
from sihash.index.base import (
    check_codes,
    check_ids,
    check_radius,
    check_search,
    refuse_missing,
    refuse_present,
)
from sihash.index.milvus_connection import IndexServerError, connected, parsed, refuse_silence

LISTS_FROM = 200_000  # codes of a version from which it has BIN_IVF_FLAT; below, BIN_FLAT is soon done
N_LISTS, N_SEARCHED = 1024, 32  # lists, and how many of them a search looks into
MEASURED_CODES = 200  # codes with which `describe` measures recall
MOST_RESULTS = 16_384  # results for one query that Milvus gives at most
ROWS = 10_000  # rows of one insertion, ids of one deletion, terms of one filter
QUERIES = 1000  # queries of one request
NOT_FOUND, QUOTA = 100, 9  # Milvus' codes for a collection that is not there, and a quota that is used up
# A change waits until it is seen, so searches need not wait, as they would with "Strong". But a server that
# was just started reads its log again, and "Eventually" would search what it has read so far.
CONSISTENCY = "Bounded"

# It writes a traceback for every error that it raises, also for those that are dealt with here.
logging.getLogger("pymilvus.decorators").setLevel(logging.CRITICAL)


class MilvusIndex:
    """See `CodeIndex`. On a server, shared by all who open the same URL.

    ``url`` is ``milvus+http://host:port/name`` (or ``milvus+https``); credentials are read from
    the environment variable SIHASH_MILVUS_TOKEN. If the name is new, an empty index of version 0 is made.
    ``version`` is the model version whose codes it holds: the one asked for, made empty if it is not there
    (for about ``size`` codes), or the one that is present now. ``mark`` says whose codes they are; with
    another mark they are not touched. The version before the present one is kept, for those who still
    search it.

    Every change waits until searches see it, for all who search. Up to some hundred thousand codes search is
    exact; a version made for more has lists of which a search looks into some, and `describe` measures how
    much it finds. `radius` looks into all. Of the ids that tie at the last place of a search, any may be
    given.
    """

    ties_by_id = False

    def __init__(
        self,
        url: str,
        n_bits: int,
        version: int | None = None,
        size: int = 0,
        mark: str = "",
        timeout: float = 60.0,
    ) -> None:
        check_count("n_bits", n_bits)
        self.n_bits = n_bits
        self._address, self._name = parsed(url)
        self._timeout = timeout
        self._mark = mark
        self.version = version or 0
        with self._server():
            self._client = connected(self._address, timeout)
            if not self._client.has_collection(self._name, timeout=timeout):
                self._create(self._own, size)
                self._client.create_alias(self._own, self._name, timeout=timeout)
            present = self._present_version()
            self.version = present if version is None else version
            if not self._client.has_collection(self._own, timeout=timeout):
                self._create(self._own, size)
            elif version is not None:
                self._check_mark()
            self._client.load_collection(self._own, timeout=10 * timeout)
            self._settle(self._own)

    # Changing.

    def add(self, ids: Array, codes: Array) -> None:
        ids = check_ids(ids)
        codes = check_codes(codes, self.n_bits, len(ids))
        refuse_present(self.among(ids))
        self.put(ids, codes)

    def remove(self, ids: Array) -> None:
        ids = check_ids(ids)
        refuse_missing(np.setdiff1d(ids, self.among(ids)))
        self.discard(ids)

    def replace(self, ids: Array, codes: Array) -> None:
        ids = check_ids(ids)
        codes = check_codes(codes, self.n_bits, len(ids))
        refuse_missing(np.setdiff1d(ids, self.among(ids)))
        self.put(ids, codes)

    def put(self, ids: Array, codes: Array) -> None:
        """Give ids their codes, whether they are there or not: twice is as good as once."""
        with self._server():
            self._write(self._own, check_ids(ids), codes)
            self._settle(self._own)

    def discard(self, ids: Array) -> None:
        """Remove ids, whether they are there or not."""
        with self._server():
            for portion in _portions(check_ids(ids)):
                self._client.delete(self._own, ids=portion.tolist(), timeout=self._timeout)
            self._settle(self._own)

    def prepare(self, version: int, batches: Iterable[tuple[Array, Array]], size: int) -> None:
        """Write the codes of another version, given as batches of ids and codes, ``size`` in all.

        Nobody sees them before `publish`. If it ends early, the next attempt clears away what was left.
        """
        with self._server():
            present = self._present_version()
            if version == present:
                raise ValueError(f"The index holds version {version} already; prepare another one.")
            self._drop_all_but(present)
            new = self._collection(version)
            self._create(new, size)
            for ids, codes in batches:
                ids = check_ids(ids)
                self._write(new, ids, check_codes(codes, self.n_bits, len(ids)))
            self._client.flush(new, timeout=10 * self._timeout)
            self._wait_for_lists(new)
            self._settle(new)

    def publish(self, version: int) -> None:
        """Make a version that is there the present one, for this index and all opened from now on."""
        with self._server():
            before = self._present_version()
            if before != version:
                self._client.alter_alias(self._collection(version), self._name, timeout=self._timeout)
                self._drop_all_but(version, before)
        self.version = version

    def drop(self) -> None:
        """Delete the index with all its codes from the server."""
        with self._server():
            self._client.drop_alias(self._name, timeout=self._timeout)
            self._drop_all_but()

    # Asking.

    def __len__(self) -> int:
        with self._server():
            return self._count()

    def among(self, ids: Array) -> Array:
        """Those of some ids that are there, in ascending order."""
        found: list[int] = []
        with self._server():
            for portion in _portions(np.sort(check_ids(ids), kind="stable")):
                for filter in _filters(portion):
                    rows = self._client.query(
                        self._own,
                        filter=filter,
                        output_fields=["id"],
                        consistency_level=CONSISTENCY,
                        timeout=self._timeout,
                    )
                    found.extend(row["id"] for row in rows)
        return np.sort(np.array(found, dtype=np.int64))

    def search(self, codes: Array, k: int, allowed: Array | None = None) -> tuple[Array, Array]:
        codes = check_search(codes, self.n_bits, k)
        if k > MOST_RESULTS:
            raise ValueError(
                f"Milvus gives at most {MOST_RESULTS} results, k is {k}; use a radius, or a smaller k."
            )
        distances = np.full((len(codes), k), -1, dtype=np.int32)
        ids = np.full((len(codes), k), -1, dtype=np.int64)
        for filter in [""] if allowed is None else _filters(check_ids(allowed)):
            for start in range(0, len(codes), QUERIES):
                rows = slice(start, start + QUERIES)
                for q, hits in enumerate(self._hits(codes[rows], k, filter, {"nprobe": N_SEARCHED}), start):
                    _merge(distances[q], ids[q], *hits)
        return distances, ids

    def radius(self, codes: Array, r: int, allowed: Array | None = None) -> list[tuple[Array, Array]]:
        check_radius(r)
        filters = [""] if allowed is None else _filters(check_ids(allowed))
        balls = []
        for code in check_codes(codes, self.n_bits):
            parts = [self._ball(code, r, filter) for filter in filters]
            near = np.concatenate([part[0] for part in parts] or [np.empty(0, np.int32)])
            ids = np.concatenate([part[1] for part in parts] or [np.empty(0, np.int64)])
            order = np.lexsort((ids, near))
            balls.append((near[order], ids[order]))
        return balls

    def describe(self) -> dict[str, Any]:
        with self._server():
            kind = self._client.describe_index(self._own, "code", timeout=self._timeout)["index_type"]
            about = {"kind": f"milvus {kind}", "n_bits": self.n_bits, "size": self._count()}
        return about | {"version": self.version, "recall": 1.0 if kind == "BIN_FLAT" else self._recall()}

    # Requests.

    def _hits(
        self, codes: Array, limit: int, filter: str, params: dict[str, Any]
    ) -> Iterator[tuple[Array, Array]]:
        """Distances and ids of the nearest codes to each query, by distance, then id."""
        with self._server():
            found = self._client.search(
                self._own,
                data=[code.tobytes() for code in codes],
                limit=limit,
                filter=filter,
                anns_field="code",
                search_params={"metric_type": "HAMMING", "params": params},
                consistency_level=CONSISTENCY,
                timeout=self._timeout,
            )
        for hits in found:
            near, ids = np.array(hits.distances, dtype=np.int32), np.array(hits.ids, dtype=np.int64)
            order = np.lexsort((ids, near))
            yield near[order], ids[order]

    def _ball(self, code: Array, r: int, filter: str) -> tuple[Array, Array]:
        """All within distance ``r``: where they are more than Milvus gives, two halves by id."""
        # The radius of Milvus is a bound from above, itself left out.
        params = {"nprobe": N_LISTS, "radius": r + 1, "range_filter": 0}
        ((near, ids),) = self._hits(code[None], MOST_RESULTS, filter, params)
        if len(ids) < MOST_RESULTS:
            return near, ids
        middle = int(np.median(ids))
        filter = f"({filter}) and " if filter else ""
        halves = [self._ball(code, r, f"{filter}id {side} {middle}") for side in ("<=", ">")]
        return np.concatenate([half[0] for half in halves]), np.concatenate([half[1] for half in halves])

    def _recall(self) -> float:
        """The share of the ten nearest codes that a search finds, for codes of the index."""
        with self._server():
            rows = self._client.query(
                self._own, filter="id >= 0", limit=MEASURED_CODES, output_fields=["code"]
            )
        codes = np.array([np.frombuffer(row["code"][0], dtype=np.uint8) for row in rows])
        found, truth = (
            [near for near, _ in self._hits(codes, 10, "", {"nprobe": n})] for n in (N_SEARCHED, N_LISTS)
        )
        return float(np.mean([(a <= b[-1]).sum() / len(b) for a, b in zip(found, truth, strict=True)]))

    def _write(self, collection: str, ids: Array, codes: Array) -> None:
        for portion, own in zip(_portions(ids), _portions(codes), strict=True):
            self._client.upsert(collection, _rows(portion, own), timeout=self._timeout)

    def _settle(self, collection: str) -> None:
        """Wait until searches see all changes made so far: a strong read has to."""
        self._client.query(
            collection, filter="id < 0", limit=1, consistency_level="Strong", timeout=self._timeout
        )

    def _count(self) -> int:
        (row,) = self._client.query(
            self._own,
            filter="",
            output_fields=["count(*)"],
            consistency_level=CONSISTENCY,
            timeout=self._timeout,
        )
        return int(row["count(*)"])

    # Collections.

    def _collection(self, version: int) -> str:
        return f"{self._name}_v{version}"

    @property
    def _own(self) -> str:
        return self._collection(self.version)

    @property
    def _about(self) -> str:
        return f"sihash: codes of {self.n_bits} bits; {self._mark}"

    def _check_mark(self) -> None:
        about = self._client.describe_collection(self._own, timeout=self._timeout)["description"]
        if about != self._about:
            raise ValueError(
                f"{self._own} on {self._address} holds the codes of another collection; choose another name."
            )

    def _create(self, collection: str, size: int) -> None:
        """A new, empty collection for about ``size`` codes, loaded."""
        schema = self._client.create_schema(
            auto_id=False, enable_dynamic_field=False, description=self._about
        )
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * n_bytes(self.n_bits))
        index = self._client.prepare_index_params()
        lists = size >= LISTS_FROM
        index.add_index(
            "code",
            index_type="BIN_IVF_FLAT" if lists else "BIN_FLAT",
            metric_type="HAMMING",
            params={"nlist": N_LISTS} if lists else {},
        )
        self._client.create_collection(collection, schema=schema, index_params=index, timeout=self._timeout)

    def _wait_for_lists(self, collection: str) -> None:
        """Wait until what was written is indexed: up to then a search looks at all of it."""
        deadline = time.monotonic() + 10 * self._timeout
        while self._client.describe_index(collection, "code", timeout=self._timeout)["pending_index_rows"]:
            if time.monotonic() > deadline:
                raise IndexServerError(f"Milvus at {self._address} does not finish indexing {collection}.")
            time.sleep(0.2)

    def _present_version(self) -> int:
        """The version that the alias points to, of codes as long as ours."""
        about = self._client.describe_collection(self._name, timeout=self._timeout)
        version = str(about["collection_name"]).removeprefix(f"{self._name}_v")
        if not version.isdecimal():
            raise ValueError(
                f"{self._name} on {self._address} is not an index of sihash; choose another name."
            )
        length = about["description"].split(";")[0]
        if length != self._about.split(";")[0]:
            raise ValueError(
                f"{self._name} on {self._address} holds {length!r}, "
                f"not codes of {self.n_bits} bits; choose another name."
            )
        return int(version)

    def _drop_all_but(self, *kept: int) -> None:
        """Drop the collections of all versions but some."""
        spared = {self._collection(version) for version in kept}
        for collection in self._client.list_collections(timeout=self._timeout):
            if re.fullmatch(f"{self._name}_v[0-9]+", collection) and collection not in spared:
                self._client.drop_collection(collection, timeout=self._timeout)

    @contextmanager
    def _server(self) -> Iterator[None]:
        """What Milvus cannot do, said in one sentence."""
        try:
            yield
        except MilvusException as error:
            refuse_silence(self._address)
            if error.code == NOT_FOUND:
                raise IndexServerError(
                    f"Version {self.version} of {self._name} is no longer on {self._address}; open it again."
                ) from error
            if error.code == QUOTA:
                raise IndexServerError(
                    f"Milvus at {self._address} takes no more codes: {error.message}; "
                    "give it room, and try again."
                ) from error
            raise IndexServerError(f"Milvus at {self._address} failed: {error.message}") from error


def _portions(rows: Array) -> list[Array]:
    return [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]


def _rows(ids: Array, codes: Array) -> list[dict[str, Any]]:
    return [{"id": i, "code": code.tobytes()} for i, code in zip(ids.tolist(), codes, strict=True)]


def _filters(ids: Array) -> list[str]:
    """Expressions that together name some ids: runs of them by their ends, the others one by one."""
    ids = np.sort(ids, kind="stable")
    runs = np.split(ids, np.flatnonzero(np.diff(ids) != 1) + 1) if len(ids) else []
    long = [f"({run[0]} <= id <= {run[-1]})" for run in runs if len(run) > 3]
    rest = np.concatenate([run for run in runs if len(run) <= 3] or [ids[:0]])
    filters = [" or ".join(long[start : start + 100]) for start in range(0, len(long), 100)]
    return filters + [f"id in {portion.tolist()}" for portion in _portions(rest)]


def _merge(distances: Array, ids: Array, new_distances: Array, new_ids: Array) -> None:
    """Put the best of what is there and what is new, in order, in the place of what is there."""
    there = ids >= 0
    near = np.concatenate([distances[there], new_distances])
    names = np.concatenate([ids[there], new_ids])
    order = np.lexsort((names, near))[: len(ids)]
    distances[: len(order)], ids[: len(order)] = near[order], names[order]
