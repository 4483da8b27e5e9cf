"""What SDH and KSH share: anchors and width, chosen or given."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sihash.kernel import normalise
from sihash.research.baselines import KSH, SDH

X, y = load_iris(return_X_y=True)


@pytest.mark.parametrize("Hasher", [SDH, KSH])
class TestKernelParameters:
    def test_random_anchors_are_rows(self, Hasher):
        hasher = Hasher(4, n_anchors=10, random_state=0).fit(X, y)
        Z = normalise(X, X.mean(axis=0))
        nearest = np.min(np.linalg.norm(hasher.kernel_.anchors[:, None] - Z, axis=2), axis=1)
        np.testing.assert_allclose(nearest, 0, atol=1e-6)
        assert hasher.kernel_.width > 0

    def test_anchors_of_classes_have_unit_length(self, Hasher):
        hasher = Hasher(4, n_anchors=5, anchors="classes", random_state=0).fit(X, y)
        assert hasher.kernel_.anchors.shape == (5, 4)
        np.testing.assert_allclose(np.linalg.norm(hasher.kernel_.anchors, axis=1), 1, rtol=1e-5)

    def test_given_anchors_and_width_are_used_and_saved(self, Hasher, tmp_path):
        hasher = Hasher(4, anchors=X[:7], kernel_width=0.5, random_state=0).fit(X, y)
        np.testing.assert_allclose(hasher.kernel_.anchors, normalise(X[:7], X.mean(axis=0)), atol=1e-6)
        assert hasher.kernel_.width == 0.5
        hasher.save(tmp_path / "model")
        np.testing.assert_array_equal(Hasher.load(tmp_path / "model").anchors, X[:7])

    def test_more_anchors_than_rows_takes_every_row(self, Hasher):
        assert len(Hasher(4, n_anchors=1000).fit(X, y).kernel_.anchors) == len(X)

    @pytest.mark.parametrize("width", [0, -1.0, np.nan, np.inf, "wide", True])
    def test_senseless_widths_are_refused(self, Hasher, width):
        with pytest.raises(ValueError, match="kernel_width"):
            Hasher(4, kernel_width=width).fit(X, y)

    @pytest.mark.parametrize("anchors", ["grid", X[:3, :2], X[0], np.full((2, 4), np.nan)])
    def test_senseless_anchors_are_refused(self, Hasher, anchors):
        with pytest.raises(ValueError, match="anchors"):
            Hasher(4, anchors=anchors).fit(X, y)
