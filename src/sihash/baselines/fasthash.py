"""FastHash: codes by graph cuts, hash functions by boosted decision trees."""

from __future__ import annotations

import importlib.util
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from sihash import codes, labels
from sihash._typing import Array
from sihash.baselines.graph_cuts import infer_bit
from sihash.baselines.residue import LabelResidue
from sihash.baselines.training import check_count, check_labelled_rows
from sihash.baselines.trees import Forest, TreeBooster, join
from sihash.hasher import Hasher
from sihash.kernel import normalise


class FastHash(Hasher):
    """Hashing with graph cuts and boosted trees (Lin, Shen, Shi, van den Hengel, Suter; CVPR 2014)."""

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_trees: int = 500,
        max_depth: int = 2,
        learning_rate: float = 0.3,
        feature_share: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.feature_share = feature_share
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows ``X`` (n × n_features) and their labels ``y``."""
        _require("lightgbm", "maxflow")
        check_count("n_trees", self.n_trees)
        check_count("max_depth", self.max_depth)
        X, self.classes_, numbers = check_labelled_rows(self, X, y)
        rng = check_random_state(self.random_state)
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        booster = TreeBooster(
            normalise(X, self.mean_),
            n_trees=self.n_trees,
            depth=self.max_depth,
            learning_rate=self.learning_rate,
            feature_share=self.feature_share,
        )
        residue = LabelResidue(numbers, self.n_bits)
        forests = []
        for _ in range(self.n_bits):
            z = infer_bit(residue, rng)
            forest = booster.fit(z, int(rng.randint(2**31 - 1)))
            # The next bit makes up for what the trees get wrong, not for what was asked of them.
            residue.subtract(codes.sign(forest(booster.Z)[:, 0]).astype(np.float64))
            forests.append(forest)
        self.forest_ = join(forests)
        return self

    def _scores(self, X: Array) -> Array:
        return self.forest_(normalise(X, self.mean_))

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        f = self.forest_
        tensors = {"mean": self.mean_, "features": f.features, "thresholds": f.thresholds, "leaves": f.leaves}
        return {"classes": labels.to_json(self.classes_)}, tensors

    def _set_state(self, header: dict[str, Any], tensors: dict[str, Array]) -> None:
        self.classes_ = labels.from_json(header["classes"])
        self.mean_ = tensors["mean"]
        self.forest_ = Forest(tensors["features"], tensors["thresholds"], tensors["leaves"])


def _require(*modules: str) -> None:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"FastHash.fit needs {' and '.join(missing)}; install what it uses with pip install 'sihash[fasthash]'."
        )
