"""Products of tall features with narrow matrices: ``Φ W`` and ``Rᵀ Φ``, with a column for each bit.

A BLAS copies its operands into an order of its own before it multiplies, which pays where a number is used
hundreds of times. A feature meets as many weights here as there are bits, and copying takes a third of the
time. So ``Φ W`` reads the rows where they lie, and keeps a tile of the result in the registers. (Where
OpenBLAS has kernels for small products that copy nothing, on processors with AVX-512, it is cut so small
that it takes them.)

``R`` holds what a move changes in the slopes, mostly zeros: the others stay at 0 or 1.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from sihash._typing import Array
from sihash.threads import blas_architectures

SMALL_KERNELS = bool({"skylakex", "cooperlake", "sapphirerapids"} & blas_architectures())
SMALL_PRODUCT = 10**6  # multiplications, up to which these kernels do not copy
LANES = 8  # numbers in a vector
TILE_ROWS, TILE_VECTORS = 6, 2  # sixteen registers hold them, two vectors of W and a feature
TILE_COLUMNS = TILE_VECTORS * LANES
DEPTH = 256  # features at once, and rows: what these take of W and of the result stays in the inner cache
HEIGHT = 48
ROWS_IN_CACHE = 64  # beside the sums of a sparse product
SPARSE = 0.4  # share of numbers that are not 0, up to which the sparse product is the faster one


def product(Phi: Array, W: Array) -> Array:
    """``Phi @ W`` (n × m), all float32; the rows of ``Phi`` may lie apart."""
    (n, d), m = Phi.shape, W.shape[1]
    if not SMALL_KERNELS:
        missing = -m % TILE_COLUMNS
        padded = W if not missing else np.hstack([W, np.zeros((d, missing), np.float32)])
        out = np.zeros((n, m + missing), np.float32)
        if Phi.dtype != np.float32 or Phi.strides[1] != Phi.itemsize:  # tiles take memory as it is
            Phi = np.ascontiguousarray(Phi, dtype=np.float32)
        _add_tiles(Phi, np.ascontiguousarray(padded, dtype=np.float32), out)
        return out[:, :m]
    out, stack = np.empty((n, m), np.float32), max(1, SMALL_PRODUCT // (d * m))
    whole = n - n % stack
    np.matmul(Phi[:whole].reshape(-1, stack, d), W, out=out[:whole].reshape(-1, stack, m))
    np.matmul(Phi[whole:], W, out=out[whole:])
    return out


def add_product(g: Array, R: Array, Phi: Array, first: int = 0, every: int = 1) -> None:
    """``g += Rᵀ Phi[first::every]`` (m × d), all float32, for ``R`` (n × m)."""
    if np.count_nonzero(R) <= SPARSE * R.size:
        add_sparse_product(g, R, Phi, first, every)
    else:
        g += np.matmul(R.T, Phi[first::every])


@numba.njit(nogil=True, fastmath=True, cache=True)
def add_sparse_product(g: Array, R: Array, Phi: Array, first: int, every: int) -> None:
    """The same for ``R`` mostly zeros, and rows of ``Phi`` without gaps in them.

    A few rows serve all bits, while they are in the cache, and four at a time, so as to read ``g`` less.
    """
    n, m = R.shape
    at, factor = np.empty(ROWS_IN_CACHE + 3, np.intp), np.empty(ROWS_IN_CACHE + 3, np.float32)
    for start in range(0, n, ROWS_IN_CACHE):
        for j in range(m):
            k = 0
            for i in range(start, min(start + ROWS_IN_CACHE, n)):
                at[k], factor[k] = first + i * every, R[i, j]
                k += R[i, j] != 0
            at[k : k + 3], factor[k : k + 3] = first, 0
            own = g[j]
            for a in range(0, k, 4):
                f0, f1, f2, f3 = factor[a], factor[a + 1], factor[a + 2], factor[a + 3]
                row0, row1, row2, row3 = Phi[at[a]], Phi[at[a + 1]], Phi[at[a + 2]], Phi[at[a + 3]]
                for e in range(len(own)):
                    own[e] += f0 * row0[e] + f1 * row1[e] + f2 * row2[e] + f3 * row3[e]


def _tile(n_rows: int) -> Any:
    """A compiled ``c += a @ b`` for a tile ``c`` of so many rows and `TILE_COLUMNS`, kept in registers.

    ``tile(c, c_stride, a, a_stride, b, b_stride, n)`` takes addresses, and the bytes between rows; ``n`` is
    the number of columns of ``a`` and of rows of ``b``.
    """
    index, single = ir.IntType(64), ir.FloatType()
    vector = ir.VectorType(single, LANES)
    nothing, lane = ir.Constant(vector, ir.Undefined), ir.IntType(32)
    cells = [(row, k) for row in range(n_rows) for k in range(TILE_VECTORS)]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        c, c_stride, a, a_stride, b, b_stride, n = args

        def pointer(kind: Any, *terms: Any) -> Any:
            return builder.inttoptr(reduce(builder.add, terms), kind.as_pointer())

        def load(kind: Any, *terms: Any) -> Any:
            return builder.load(pointer(kind, *terms), align=4)

        def spread(number: Any) -> Any:
            lone = builder.insert_element(nothing, number, lane(0))
            return builder.shuffle_vector(lone, nothing, ir.Constant(ir.VectorType(lane, LANES), [0] * LANES))

        place = {(row, k): (c, builder.mul(c_stride, index(row)), index(4 * LANES * k)) for row, k in cells}
        sums = {cell: cgutils.alloca_once_value(builder, load(vector, *place[cell])) for cell in cells}
        kind = ir.FunctionType(vector, [vector] * 3)
        fmuladd = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
        with cgutils.for_range(builder, n) as loop:
            row_of_b, column_of_a = builder.mul(loop.index, b_stride), builder.mul(loop.index, index(4))
            vectors = [load(vector, b, row_of_b, index(4 * LANES * k)) for k in range(TILE_VECTORS)]
            for row in range(n_rows):
                factor = spread(load(single, a, builder.mul(a_stride, index(row)), column_of_a))
                for k in range(TILE_VECTORS):
                    total = builder.call(fmuladd, [factor, vectors[k], builder.load(sums[row, k])])
                    builder.store(total, sums[row, k])
        for cell in cells:
            builder.store(builder.load(sums[cell]), pointer(vector, *place[cell]), align=4)
        return context.get_dummy_value()

    @intrinsic
    def tile(typing, c, c_stride, a, a_stride, b, b_stride, n):  # type: ignore[no-untyped-def]
        return types.void(*[types.intp] * 7), generate

    return tile


_tile_of_rows, _tile_of_one = _tile(TILE_ROWS), _tile(1)


@numba.njit(nogil=True, cache=True)
def _add_tiles(Phi: Array, W: Array, out: Array) -> None:
    """``out += Phi @ W``, where the columns fill tiles."""
    (n, d), m = Phi.shape, W.shape[1]
    a_stride, b_stride, c_stride = Phi.strides[0], 4 * m, 4 * m
    # Addresses are unsigned here, and with signed numbers would become floats.
    a, b, c = np.intp(Phi.ctypes.data), np.intp(W.ctypes.data), np.intp(out.ctypes.data)
    for top in range(0, n, HEIGHT):
        bottom = min(top + HEIGHT, n)
        last = bottom - (bottom - top) % TILE_ROWS
        for deep in range(0, d, DEPTH):
            depth = min(DEPTH, d - deep)
            for k in range(0, m, TILE_COLUMNS):
                own_b = b + deep * b_stride + 4 * k
                for i in range(top, last, TILE_ROWS):
                    own_a, own_c = a + i * a_stride + 4 * deep, c + i * c_stride + 4 * k
                    _tile_of_rows(own_c, c_stride, own_a, a_stride, own_b, b_stride, depth)
                for i in range(last, bottom):
                    own_a, own_c = a + i * a_stride + 4 * deep, c + i * c_stride + 4 * k
                    _tile_of_one(own_c, c_stride, own_a, a_stride, own_b, b_stride, depth)
