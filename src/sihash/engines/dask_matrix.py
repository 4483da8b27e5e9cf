"""Training rows that lie in a Dask array, and Dask arrays of files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.kernel import KernelMap


@dataclass(frozen=True)
class LazyBlock:
    """Rows that Dask can make, and make again."""

    block: Any
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows


class Matrix:
    """A Dask array (n × d) as a training set: what choosing a kernel map asks for, and its blocks.

    While this lives, the cluster keeps the array in memory. It is looked through once for its mean and for
    numbers that are not finite.
    """

    def __init__(self, array: Any, client: Any) -> None:
        if array.ndim != 2:
            raise ValueError(f"X must have two dimensions, got a Dask array of shape {array.shape}.")
        with client.as_current():
            if np.isnan(array.shape[0]):
                array = array.compute_chunk_sizes()
            array = array.rechunk({1: -1}).astype(np.float32)
            self._kept = client.persist(array)
        self._client = client
        self.shape: tuple[int, int] = array.shape
        self.dtype = np.dtype(np.float32)
        self._starts = np.concatenate([[0], np.cumsum(array.chunks[0])])
        grid = zip(_grid(array), array.chunks[0], strict=True)
        self._blocks = [LazyBlock(block, n) for (block,), n in grid]
        self._mean = self._survey()

    def __len__(self) -> int:
        return self.shape[0]

    def mean(self, axis: int, dtype: Any) -> Array:
        return self._mean

    def __getitem__(self, rows: Array) -> Array:
        order = np.argsort(rows, kind="stable")
        found = np.empty((len(rows), self.shape[1]), np.float32)
        found[order] = self._client.compute(self._kept[rows[order]]).result()
        return found

    def places(self) -> dict[str, list[tuple[LazyBlock, int]]]:
        """Blocks, and the rows at which they begin, by the worker that holds them."""
        futures = self._client.compute([block for (block,) in _grid(self._kept)])
        holders, everyone = self._client.who_has(futures), list(self._client.nthreads())
        found: dict[str, list[tuple[LazyBlock, int]]] = {}
        for future, block, start in zip(futures, self._blocks, self._starts, strict=False):
            own = holders.get(future.key) or everyone  # nobody: Dask is making it again
            address = min(own, key=lambda address: len(found.get(address, ())))
            found.setdefault(address, []).append((block, int(start)))
        return found

    def _survey(self) -> Array:
        blocks = self._client.compute([block for (block,) in _grid(self._kept)])
        sums = self._client.gather(self._client.map(_column_sums, blocks, pure=False))
        for k, total in enumerate(sums):
            if not np.isfinite(total).all():
                raise ValueError(
                    f"Block {k} of X (rows {self._starts[k]:,} to {self._starts[k + 1] - 1:,}) holds NaN, "
                    "infinity or numbers beyond float32; every feature must be a finite number."
                )
        return np.sum(sums, axis=0) / len(self)


def _grid(array: Any) -> list[list[Any]]:
    return list(array.to_delayed().tolist())


def _column_sums(X: Array) -> Array:
    """In float64; NaN and infinity go through."""
    return X.sum(axis=0, dtype=np.float64)


def encode_blocks(array: Any, kernel: KernelMap, coef: Array) -> Any:
    """Packed codes of a Dask array (n × d) by weights ``coef`` (bits × features), as a Dask array."""
    n_bytes = -(-len(coef) // 8)
    blocks = array.rechunk({1: -1})
    chunks = (blocks.chunks[0], (n_bytes,))
    return blocks.map_blocks(_encode, kernel=kernel, coef=coef, dtype=np.uint8, chunks=chunks)


def _encode(X: Array, kernel: KernelMap, coef: Array) -> Array:
    return codes.pack(codes.sign(kernel(X.astype(np.float32, copy=False)) @ coef.T))


def rows_from_files(paths: Iterable[str | Path], column: str = "vector") -> Any:
    """A Dask array (n × d) of ``.npy`` files, or of Parquet files with a column of vectors; a block a file.

    Only headers are read here. The workers have to see the files under the same paths.
    """
    import dask.array as da
    from dask import delayed

    blocks = []
    for path in map(str, paths):
        if path.endswith(".npy"):
            shape = np.load(path, mmap_mode="r", allow_pickle=False).shape
            read = delayed(_read_npy, pure=True)(path)
        else:
            shape = _parquet_shape(path, column)
            read = delayed(_read_parquet, pure=True)(path, column)
        if len(shape) != 2:
            raise ValueError(f"{path} holds an array of shape {shape}; expected one vector per row.")
        blocks.append(da.from_delayed(read, shape, np.float32))
    if not blocks:
        raise ValueError("No files were given to read rows from.")
    return da.concatenate(blocks)


def _read_npy(path: str) -> Array:
    return np.load(path, allow_pickle=False).astype(np.float32, copy=False)


def _parquet_shape(path: str, column: str) -> tuple[int, int]:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    if column not in file.schema_arrow.names:
        raise ValueError(f"{path} has no column {column!r}; it has {', '.join(file.schema_arrow.names)}.")
    first = next(file.iter_batches(1, columns=[column]))
    return file.metadata.num_rows, len(first.column(0)[0].as_py())


def _read_parquet(path: str, column: str) -> Array:
    from pyarrow import parquet

    vectors = parquet.read_table(path, columns=[column]).column(column).combine_chunks()
    return np.asarray(vectors.flatten(), dtype=np.float32).reshape(len(vectors), -1)
