"""The Hessian that all bits of the smoothed solver share, as a Cholesky factor.

The Hessian of a bit is ``I + C/width Σ φφᵀ`` over the rows in its band. One for all bits is taken from all
rows alike at first, when nobody knows the bands; later, where these hold few rows, from the bands.

Like the risk it is a sum over groups of rows. Where these lie in this process, what each group adds is kept:
a group that goes is taken out without a product, and one that comes costs its own rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import qr, solve_triangular

from sihash import memory
from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.cholesky import cholesky
from sihash.threads import map_threads

KAPPA = 0.2  # share of rows in the band, per unit of width
SAMPLE_PER_FEATURE = 16  # rows, as a multiple of the order
FEW_NEAR = 0.5  # of all rows are in some band: then these alone say more than all rows alike
GRAM_ROWS = 4096  # of the sample in one product at most: taller ones are faster
# Precision, and a ridge as a share of the trace, tried in turn: rounding may outweigh the 1 where C is large.
ATTEMPTS = (np.float32, 0), (np.float64, 0), (np.float64, 1e-7), (np.float64, 1e-6), (np.float64, 1e-5)
MOST_MEMORY = 0.5  # of what the features take: what the groups' matrices may take
AS_BEFORE = 1.5  # times as many rows as then, or as few: so far a group is the same ...
MATTERS = 0.05  # ... and if it is not, it matters with so many of all rows
WORTH = 8  # of d n m: two steps fewer save four products; a symmetric one takes half as long as it counts
N_DIRECTIONS, FEWEST, SHARE = 128, 64, 0.25  # the strongest ones: so many, but not of few features
POWERS = 2  # of the Hessian, to find them

Pick = Callable[..., tuple[Array, Array | None]]  # of a block: numbers of rows, and roots of their weights


@dataclass(frozen=True)
class SharedHessian:
    """``I + C gram`` by its factor, and what each group of rows adds to ``gram``, if that is known."""

    factor: Array  # lower triangular, float32
    gram: Array | None = None
    of_group: dict[int, Array] = field(default_factory=dict)  # float32
    n_rows: dict[int, int] = field(default_factory=dict)  # of each group, at the time

    def solve(self, Q: Array) -> Array:
        """The inverse applied to the rows of ``Q`` (bits × d)."""
        half = self._half_solved(Q)
        full = solve_triangular(self.factor, half, lower=True, trans=1, check_finite=False)
        return full.T.astype(np.float64)

    def norms(self, Q: Array) -> Array:
        """``q · H⁻¹ q`` for the rows of ``Q``."""
        half = self._half_solved(Q).astype(np.float64)
        return np.einsum("dj,dj->j", half, half)

    def _half_solved(self, Q: Array) -> Array:
        return solve_triangular(self.factor, Q.T.astype(np.float32), lower=True, check_finite=False)

    def following(self, rows: RowBlocks, C: float) -> SharedHessian:
        """This one, or one that knows which groups came and went, where that is worth its cost."""
        if self.gram is None:
            return self
        now, then, every, d = _sizes(rows), self.n_rows, _every(rows), rows.n_features
        others = [group for group in now | then if not _as_before(now.get(group, 0), then.get(group, 0))]
        came = {group: now[group] for group in others if group in now}
        changed = sum(max(now.get(group, 0), then.get(group, 0)) for group in others)
        cost = d * d * (d + sum(came.values()) / every)  # a factor, and the products of rows that came
        if changed < MATTERS * len(rows) or cost > WORTH * d * len(rows) * rows.n_bits:
            return self
        stay = {group: own for group, own in self.of_group.items() if group not in others}
        new = _grams(rows, KAPPA * every, set(came), _evenly_spaced, every)
        gram = self.gram
        for group in then.keys() & others:
            gram = np.subtract(gram, self.of_group[group], out=memory.empty(gram.shape, np.float64))
        for own in new.values():
            gram = np.add(gram, own, out=memory.empty(gram.shape, np.float64))
        return SharedHessian(
            _factor(gram, C), gram, stay | new, {group: then[group] for group in stay} | came
        )


def of_all_rows(rows: RowBlocks, C: float) -> SharedHessian:
    """``I + κ C ΦᵀΦ``, the product estimated from evenly spaced rows."""
    every = _every(rows)
    return _taken(rows, C, KAPPA * every, _evenly_spaced, every)


def of_bands(rows: RowBlocks, C: float, width: Array) -> SharedHessian | None:
    """The mean of the open bits' Hessians, at the margins ``Z`` in the blocks' scratch.

    None where most rows are in some band.
    """
    near, asked = rows.total(_count_in_bands, width)
    if near > FEW_NEAR * asked:
        return None
    every = _every(rows, float(near / asked))
    return _taken(rows, C, every, _in_bands, width, every)


def strongest_directions(factor: Array) -> Array:
    """Orthonormal columns, nearly the leading eigenvectors of ``L Lᵀ``, ``L = factor``, strongest first."""
    d = len(factor)
    k = min(N_DIRECTIONS, max(FEWEST, int(SHARE * d)), d)
    V = np.random.RandomState(0).standard_normal((d, k)).astype(np.float32)
    for _ in range(POWERS):
        V = qr(np.matmul(factor, np.matmul(factor.T, V)), mode="economic", check_finite=False)[0]
    half = np.matmul(factor.T, V)
    return np.ascontiguousarray(np.matmul(V, np.linalg.eigh(np.matmul(half.T, half))[1][:, ::-1]))


def _every(rows: RowBlocks, share: float = 1.0) -> int:
    """How far apart the rows of the sample are, of this share of all rows."""
    return max(1, int(share * len(rows)) // (SAMPLE_PER_FEATURE * rows.n_features))


def _sizes(rows: RowBlocks) -> dict[int, int]:
    """How many rows each group has."""
    sizes: dict[int, int] = {}
    for group, n in rows.map(_size):
        sizes[group] = sizes.get(group, 0) + n
    return sizes


def _as_before(now: int, then: int) -> bool:
    return then <= AS_BEFORE * now and now <= AS_BEFORE * then


def _taken(rows: RowBlocks, C: float, weight: float, pick: Pick, *args: Any) -> SharedHessian:
    """``I + C weight · Σ ω φφᵀ`` over the rows that ``pick`` chooses in each block."""
    d = rows.n_features
    if not rows.are_here or len(rows.groups) * d > MOST_MEMORY * len(rows):
        (gram,) = _grams(rows, weight, None, pick, *args).values()
        return SharedHessian(_factor(gram, C))
    sizes, gram = _sizes(rows), np.zeros((d, d))
    grams = _grams(rows, weight, set(sizes), pick, *args)
    for own in grams.values():
        gram += own
    return SharedHessian(_factor(gram, C), gram, grams, sizes)


def _factor(gram: Array, C: float) -> Array:
    """Cholesky factor of ``I + C gram``: in float32, where that fails in float64, then with a ridge."""
    trace = C * np.trace(gram, dtype=np.float64)
    for dtype, ridge in ATTEMPTS:
        if trace > np.finfo(dtype).max:
            continue
        hessian = memory.empty(gram.shape, dtype)
        hessian[:] = gram
        hessian *= C
        hessian[np.diag_indices(len(gram))] += 1 + ridge * trace
        try:
            return cholesky(hessian).astype(np.float32, copy=False)
        except LinAlgError as error:
            indefinite = error
    raise indefinite


def _grams(
    rows: RowBlocks, weight: float, groups: set[int] | None, pick: Pick, *args: Any
) -> dict[int, Array]:
    """``weight · Σ ω φφᵀ`` of each of these groups; of all rows together, under 0, if ``groups`` is None."""
    total: dict[int, Array] = {}
    for part in rows.parts(_grams_of_part, weight, groups, pick, *args):
        _add(total, part)
    return total


def _add(total: dict[int, Array], part: dict[int, Array]) -> None:
    for group, gram in part.items():
        total[group] = total[group] + gram if group in total else gram


def _grams_of_part(
    rows: RowBlocks, weight: float, groups: set[int] | None, pick: Pick, *args: Any
) -> dict[int, Array]:
    """In float32: close enough for a preconditioner, and half as much to send."""
    blocks = [block for block in rows.blocks if groups is None or block.group in groups]
    chosen = map_threads(lambda block: pick(block, *args), blocks)

    def gram(run: list[int]) -> Array:
        Phi = memory.empty((sum(len(chosen[k][0]) for k in run), rows.n_features), np.float32)
        n = 0
        here = RowBlocks([blocks[k] for k in run], rows.store)  # read once, let go before the next
        for k, block in zip(run, here, strict=True):
            index, root = chosen[k]
            own = Phi[n : n + len(index)]
            np.take(block["Phi"], index, axis=0, out=own, mode="clip")  # any other mode copies twice
            if root is not None:
                own *= root[:, None]
            n += len(index)
        product = np.matmul(Phi.T, Phi)
        product *= weight
        return product

    group_of = [0 if groups is None else block.group for block in blocks]
    runs = _runs(group_of, [len(index) for index, _ in chosen])
    total: dict[int, Array] = {}
    for run, own in zip(runs, map_threads(gram, runs), strict=True):
        _add(total, {group_of[run[0]]: own})
    return total


def _runs(group_of: list[int], counts: list[int]) -> list[list[int]]:
    """Numbers of blocks in runs of one group each, at least two in all and none much above `GRAM_ROWS`."""
    longest = min(GRAM_ROWS, max(1, -(-sum(counts) // 2)))
    runs = []
    for group in sorted(set(group_of)):
        own = np.flatnonzero(np.array(group_of) == group)
        stops = np.cumsum(np.array(counts)[own])
        n_runs = -(-max(int(stops[-1]), 1) // longest)
        home = np.maximum(stops - 1, 0) * n_runs // max(int(stops[-1]), 1)
        runs += [own[home == k].tolist() for k in range(n_runs)]
    return [run for run in runs if run]


def _size(block: Block) -> tuple[int, int]:
    return block.group, block.n


def _evenly_spaced(block: Block, every: int) -> tuple[Array, None]:
    return np.arange(0, block.n, every), None


def _count_in_bands(block: Block, width: Array) -> tuple[Array, Array]:
    """How many rows are in a band, of how many that were asked: every eighth tells."""
    Z = block.scratch["Z"][::8]
    near = np.count_nonzero(_within(Z, width).any(axis=1))
    return np.asarray(near), np.asarray(len(Z))


def _in_bands(block: Block, width: Array, every: int) -> tuple[Array, Array]:
    """Every ``every``-th row that is in a band, and ``√ω``: ω is ``1/width`` there, averaged over bits."""
    omega = _within(block.scratch["Z"], width) @ (1 / width / len(width)).astype(np.float32)
    index = np.flatnonzero(omega)[::every]
    return index, np.sqrt(omega[index])


def _within(Z: Array, width: Array) -> Array:
    """Which margins are in the band of their bit."""
    return np.abs(1 - Z) < (width / 2).astype(np.float32)
