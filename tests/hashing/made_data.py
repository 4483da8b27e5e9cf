"""Made data for the tests of SIH: classes that overlap a little, any number of them."""

from __future__ import annotations

import numpy as np


def blobs(n, n_classes=4, d=6, seed=0, spread=0.9):
    """``n`` rows in ``n_classes`` classes around random centres."""
    centres = np.random.RandomState(99).normal(size=(20, d)) * 2
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return (centres[y] + spread * rng.normal(size=(n, d))).astype(np.float32), y
