"""The 1,797 handwritten digits that come with scikit-learn: needs nothing, and fits anywhere."""

from __future__ import annotations

import hashlib

import numpy as np

from sihash.datasets.dataset import Collection


def read() -> Collection:
    """Images of 8 × 8, their 17 shades spread over 0…255; every fifth is in the test part."""
    from sklearn.datasets import load_digits  # takes a second to import, and only this data set needs it

    stored = load_digits()
    images = np.rint(stored.images * (255 / 16)).astype(np.uint8)
    return Collection(
        kind="digits of scikit-learn",
        X=images,
        y=stored.target.astype(np.int64),
        is_test=np.arange(len(images)) % 5 == 4,
        fingerprint=lambda: hashlib.sha256(images.tobytes()).hexdigest(),
        class_names=[str(k) for k in range(10)],
    )
