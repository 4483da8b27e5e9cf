"""The bit that agrees best with a residue of labels, by graph cuts over blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.research.baselines.label_residue import LabelResidue


def infer_bit(
    residue: LabelResidue, rng: np.random.RandomState, *, n_sweeps: int = 5, block_size: int = 256
) -> Array:
    """Maximise ``zᵀ R z`` over ``z`` ∈ {±1}ⁿ, from a spectral start, block by block; no block lowers it.

    Two rows of one class attract each other (``R_ij ≥ 1`` as long as fewer than m bits are subtracted), so
    the problem restricted to rows of one class, all others held fixed, is submodular: a minimum cut solves
    it. Sweeps over all blocks end when one changes nothing, or after ``n_sweeps``.
    """
    z = codes.sign(leading_eigenvector(residue)).astype(np.float64)
    class_sums = np.bincount(residue.numbers, z, residue.n_classes)
    bit_sums = residue.B.T @ z
    for _ in range(n_sweeps):
        n_changed = 0
        for rows in class_blocks(residue.numbers, block_size, rng):
            k = residue.numbers[rows[0]]
            B = residue.B[rows]
            R = residue.n_bits - B @ B.T
            pull = residue.n_bits * (2 * class_sums[k] - class_sums.sum()) - B @ bit_sums - R @ z[rows]
            new = best_signs(R, pull, z[rows])
            change = new - z[rows]
            z[rows] = new
            class_sums[k] += change.sum()
            bit_sums += B.T @ change
            n_changed += int(np.count_nonzero(change))
        if n_changed == 0:
            break
    return z


def leading_eigenvector(residue: LabelResidue) -> Array:
    """The eigenvector of R to its largest eigenvalue, from the few classes and bits that R is made of.

    R = F D Fᵀ with the columns of F the classes, the constant and the bits, and D a diagonal of weights.
    With FᵀF = V Λ Vᵀ it has the eigenvalues of the small ``(VΛ^½)ᵀ D (VΛ^½)``.
    """
    n, K, m = len(residue.numbers), residue.n_classes, residue.n_bits
    F = np.zeros((n, K + 1 + residue.B.shape[1]))
    F[np.arange(n), residue.numbers] = 1
    F[:, K] = 1
    F[:, K + 1 :] = residue.B
    weights = np.concatenate([np.full(K, 2.0 * m), [-m], np.full(residue.B.shape[1], -1.0)])
    values, V = np.linalg.eigh(F.T @ F)
    keep = values > 1e-9 * values[-1]  # the classes add up to the constant: one dimension is there twice
    values, V = values[keep], V[:, keep]
    root = V * np.sqrt(values)
    _, vectors = np.linalg.eigh(root.T @ (weights[:, None] * root))
    return F @ (V / np.sqrt(values)) @ vectors[:, -1]


def class_blocks(numbers: Array, block_size: int, rng: np.random.RandomState) -> Iterator[Array]:
    """All rows once, in blocks of at most ``block_size`` rows of one class, both in random order."""
    shuffled = rng.permutation(len(numbers))
    by_class = shuffled[np.argsort(numbers[shuffled], kind="stable")]
    ends = np.cumsum(np.bincount(numbers))
    blocks = [
        rows[start : start + block_size]
        for rows in np.split(by_class, ends[:-1])
        for start in range(0, len(rows), block_size)
    ]
    for i in rng.permutation(len(blocks)):
        yield blocks[i]


def best_signs(R: Array, pull: Array, z: Array) -> Array:
    """The ``z`` that maximises ``Σ_{i≠j} R_ij z_i z_j + 2 Σ pull_i z_i`` for whole R ≥ 0; ``z`` breaks ties.

    A row whose pull outweighs all its edges follows it, whatever the others do. Such rows are decided first
    and their edges become pull for the rest, again and again; only what is left goes to the cut.
    """
    z = z.copy()
    R = R - np.diag(np.diagonal(R))
    pull = pull.copy()
    undecided = np.ones(len(z), dtype=bool)
    while True:
        clear = undecided & (np.abs(pull) > R @ undecided)
        if not clear.any():
            break
        z[clear] = np.sign(pull[clear])
        pull += R @ (clear * z)
        undecided &= ~clear
    rest = np.flatnonzero(undecided)
    if len(rest):
        z[rest] = minimum_cut(R[np.ix_(rest, rest)], pull[rest])
    return z


def minimum_cut(R: Array, pull: Array) -> Array:
    """The same maximum by max-flow: a terminal for each sign, an edge a pair, cut where its signs differ."""
    import maxflow

    n = len(pull)
    i, j = np.triu_indices(n, 1)
    graph = maxflow.GraphInt(n, len(i))
    nodes = graph.add_grid_nodes(n)
    capacities = R[i, j].astype(np.int64)
    graph.add_edges(i, j, capacities, capacities)
    graph.add_grid_tedges(nodes, np.maximum(pull, 0).astype(np.int64), np.maximum(-pull, 0).astype(np.int64))
    graph.maxflow()
    return np.where(graph.get_grid_segments(nodes), -1.0, 1.0)
