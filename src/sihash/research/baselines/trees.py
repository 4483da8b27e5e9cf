"""Boosted decision trees: learned by LightGBM, kept and evaluated as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from sihash._typing import Array
from sihash.kernel import row_blocks
from sihash.threads import map_threads, n_threads


@dataclass(frozen=True)
class Forest:
    """Sums of trees, one sum per bit; every tree is stored as a full binary tree of one depth.

    ``features`` and ``thresholds`` have shape (n_bits, n_trees, 2^depth − 1), ``leaves`` the same but for the
    last, 2^depth. The children of node ``i`` are ``2i + 1`` (feature ≤ threshold) and ``2i + 2``; the leaves
    follow the nodes.
    """

    features: Array
    thresholds: Array
    leaves: Array

    def __call__(self, Z: Array) -> Array:
        """Scores (n × n_bits) of rows ``Z``, in float64."""

        def evaluate(rows: slice) -> Array:
            return _evaluate(np.ascontiguousarray(Z[rows]), self.features, self.thresholds, self.leaves)

        return np.concatenate(map_threads(evaluate, row_blocks(len(Z))))


@numba.njit(nogil=True, cache=True)
def _evaluate(Z, features, thresholds, leaves):  # type: ignore[no-untyped-def]
    n_bits, n_trees, n_nodes = features.shape
    scores = np.zeros((len(Z), n_bits))
    for i in range(len(Z)):
        z = Z[i]
        for bit in range(n_bits):
            total = 0.0
            for tree in range(n_trees):
                node = 0
                while node < n_nodes:
                    # Without a branch: which way a row goes is as good as random to the processor.
                    node = 2 * node + 1 + int(z[features[bit, tree, node]] > thresholds[bit, tree, node])
                total += leaves[bit, tree, node - n_nodes]
            scores[i, bit] = total
    return scores


class TreeBooster:
    """Fits one `Forest` of a single bit after the other on the same rows, which are binned once."""

    def __init__(
        self, Z: Array, *, n_trees: int, depth: int, learning_rate: float, feature_share: float
    ) -> None:
        import lightgbm

        self.lightgbm = lightgbm
        self.Z = Z
        self.n_trees = n_trees
        self.depth = depth
        self.params = {
            "objective": "binary",
            "max_depth": depth,
            "num_leaves": 2**depth,
            "learning_rate": learning_rate,
            "feature_fraction": feature_share,
            "max_bin": 63,
            "deterministic": True,
            "force_col_wise": True,
            # The trees are the same for any number of threads; few rows are done sooner by one.
            "num_threads": n_threads() if Z.size > 10**6 else 1,
            "verbosity": -1,
        }
        self.rows = lightgbm.Dataset(Z, params=self.params, free_raw_data=False)

    def fit(self, z: Array, seed: int) -> Forest:
        """Trees whose sum has the sign of ``z`` (±1) where they can."""
        self.rows.set_label(z > 0)
        booster = self.lightgbm.train({**self.params, "seed": seed}, self.rows, self.n_trees)
        trees = booster.dump_model()["tree_info"]
        features = np.zeros((1, self.n_trees, 2**self.depth - 1), dtype=np.int32)
        thresholds = np.full(features.shape, np.inf)
        leaves = np.zeros((1, self.n_trees, 2**self.depth))
        for t, tree in enumerate(trees):
            _fill(tree["tree_structure"], 0, features[0, t], thresholds[0, t], leaves[0, t])
        return Forest(features, thresholds, leaves)


def _fill(tree: dict[str, Any], node: int, features: Array, thresholds: Array, leaves: Array) -> None:
    """Copy a LightGBM tree below ``node``. A leaf that sits higher than the rest is passed down leftwards."""
    if node >= len(features):
        leaves[node - len(features)] = tree["leaf_value"]
    elif "split_feature" in tree:
        features[node], thresholds[node] = tree["split_feature"], tree["threshold"]
        _fill(tree["left_child"], 2 * node + 1, features, thresholds, leaves)
        _fill(tree["right_child"], 2 * node + 2, features, thresholds, leaves)
    else:
        _fill(tree, 2 * node + 1, features, thresholds, leaves)


def join(forests: list[Forest]) -> Forest:
    """Forests of single bits, side by side."""
    return Forest(
        np.concatenate([f.features for f in forests]),
        np.concatenate([f.thresholds for f in forests]),
        np.concatenate([f.leaves for f in forests]),
    )
