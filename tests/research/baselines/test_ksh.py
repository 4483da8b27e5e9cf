"""KSH against dense twins: the label matrix written out, the paper's eigenproblem, plain gradient steps."""

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from sklearn.datasets import load_digits

from sihash.research.baselines import KSH
from sihash.research.baselines.ksh import SpectralStart, accelerated_gradient
from sihash.research.baselines.label_residue import LabelResidue


@pytest.fixture
def problem():
    rng = np.random.RandomState(0)
    numbers = rng.randint(0, 3, 60)
    K = rng.standard_normal((3, 8))[numbers] + rng.standard_normal((60, 8))
    K -= K.mean(axis=0)
    residue = LabelResidue(numbers, 6)
    R = 6 * np.where(numbers[:, None] == numbers, 1.0, -1.0)
    return K, residue, R


def test_residue_is_the_matrix_it_stands_for(problem):
    _, residue, R = problem
    rng = np.random.RandomState(1)
    for _ in range(4):
        v = rng.standard_normal(60)
        np.testing.assert_allclose(residue @ v, R @ v, atol=1e-9)
        np.testing.assert_allclose(residue.squared_norm, np.sum(R**2))
        b = rng.choice([-1.0, 1.0], 60)
        residue.subtract(b)
        R -= np.outer(b, b)


def test_spectral_start_is_the_generalised_eigenvector(problem):
    K, residue, R = problem
    spectral = SpectralStart(K, residue)
    rng = np.random.RandomState(1)
    for _ in range(4):
        a = spectral.leading()
        values, vectors = scipy.linalg.eigh(K.T @ R @ K, K.T @ K)
        expected = vectors[:, -1] * np.sqrt(60)
        np.testing.assert_allclose(np.abs(K @ a), np.abs(K @ expected), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose((K @ a) @ R @ (K @ a), values[-1] * 60, rtol=1e-6)
        b = rng.choice([-1.0, 1.0], 60)
        residue.subtract(b)
        spectral.subtract(K, b)
        R -= np.outer(b, b)


def plain_steps(K, R, a0, max_iter):
    """The authors' loop with dense products and nothing reused."""

    def smooth_sign(a):
        return 2 * scipy.special.expit(K @ a) - 1

    def loss(a):
        s = smooth_sign(a)
        return -s @ R @ s

    def gradient(a):
        s = smooth_sign(a)
        return -K.T @ ((R @ s) * (1 - s**2))

    a1, previous = a0, loss(a0)
    delta, beta = [0.0, 1.0], 1.0
    for _ in range(max_iter):
        v = a1 + (delta[-2] - 1) / delta[-1] * (a1 - a0)
        g = gradient(v)
        while loss(v - g / beta) > loss(v) - g @ g / (2 * beta):
            beta *= 2
        a0, a1 = a1, v - g / beta
        delta.append((1 + np.sqrt(1 + 4 * delta[-1] ** 2)) / 2)
        value = loss(a1)
        if abs(value - previous) / len(K) <= 1e-2:
            break
        previous = value
    return a1


def test_accelerated_gradient_takes_the_authors_steps(problem):
    K, residue, R = problem
    start = 0.1 * np.random.RandomState(2).standard_normal(8)
    for max_iter in (1, 2, 5, 12):
        a, n_iter = accelerated_gradient(K, residue, start, max_iter)
        np.testing.assert_allclose(a, plain_steps(K, R, start, max_iter), rtol=1e-8)
        assert n_iter <= max_iter


def test_fit_lowers_the_residue_and_never_below_the_spectral_start():
    X, y = load_digits(n_class=5, return_X_y=True)
    X, y = X[:400], y[:400]
    hasher = KSH(8, n_anchors=60, kernel_width=0.8, random_state=0).fit(X, y)
    assert np.all(np.diff(hasher.residue_) < 0)

    # Again, bit by bit, with the label matrix written out.
    B = np.where(hasher.decision_function(X) >= 0, 1.0, -1.0)
    R = 8 * np.where(y[:, None] == y, 1.0, -1.0)
    K = hasher.kernel_(X)[:, :-1]
    K = K - K.mean(axis=0)
    gram = K.T @ K + np.finfo(np.float64).eps * np.trace(K.T @ K) * np.eye(60)
    for k in range(8):
        np.testing.assert_allclose(hasher.residue_[k], np.sum(R**2), rtol=1e-9)
        a = scipy.linalg.eigh(K.T @ R @ K, gram)[1][:, -1]
        spectral = np.where(K @ a >= 0, 1.0, -1.0)
        assert B[:, k] @ R @ B[:, k] >= spectral @ R @ spectral
        R -= np.outer(B[:, k], B[:, k])


def test_only_the_labelled_rows_are_used():
    X, y = load_digits(n_class=3, return_X_y=True)
    hasher = KSH(4, n_anchors=30, kernel_width=0.8, n_labelled=50, random_state=0).fit(X, y)
    assert hasher.residue_[0] == (4 * 50) ** 2
