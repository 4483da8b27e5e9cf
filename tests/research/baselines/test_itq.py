"""ITQ: the error falls, the rotation is one, and the padded square rotation of the authors does the same."""

import numpy as np
import pytest

from sihash.codes import sign, unpack
from sihash.research.baselines import CCAITQ, LSH, PCAITQ
from sihash.research.baselines.itq import canonical_directions, itq_rotation


def projections(n, c, seed=0):
    return np.random.RandomState(seed).standard_normal((n, c)) @ np.diag(np.linspace(1, 0.2, c))


@pytest.mark.parametrize(("c", "n_bits"), [(4, 4), (3, 8), (1, 5)])
def test_error_never_rises_and_rows_stay_orthonormal(c, n_bits):
    V = projections(300, c)
    R, errors = itq_rotation(V, n_bits, np.random.RandomState(1), n_iter=30)
    np.testing.assert_allclose(R @ R.T, np.eye(c), atol=1e-12)
    assert np.all(np.diff(errors) <= 1e-9 * errors[0])
    final = np.sum((sign(V @ R) - V @ R) ** 2)
    assert final <= errors[-1] * (1 + 1e-12)


def test_first_error_is_that_of_the_first_rotation():
    V = projections(100, 3)
    _, errors = itq_rotation(V, 3, np.random.RandomState(4), n_iter=1)
    U, _, Wt = np.linalg.svd(np.random.RandomState(4).standard_normal((3, 3)))
    np.testing.assert_allclose(errors[0], np.sum((sign(V @ U @ Wt) - V @ U @ Wt) ** 2))


def test_zero_columns_change_nothing():
    """The authors pad V to a square problem; we leave the zero columns out."""
    V = projections(200, 3)
    R, _ = itq_rotation(V, 6, np.random.RandomState(2), n_iter=20)
    padded = np.hstack([V, np.zeros((200, 3))])
    start = np.linalg.svd(np.random.RandomState(2).standard_normal((3, 6)), full_matrices=True)
    square = np.vstack([start[0] @ start[2][:3], start[2][3:]])  # the same first rows, completed
    for _ in range(20):
        U, _, Wt = np.linalg.svd(padded.T @ sign(padded @ square))
        square = U @ Wt
    np.testing.assert_array_equal(sign(padded @ square), sign(V @ R))


def test_canonical_directions_solve_the_eigenproblem():
    rng = np.random.RandomState(0)
    numbers = rng.randint(0, 4, 200)
    Z = rng.standard_normal((4, 6))[numbers] + rng.standard_normal((200, 6))
    Z -= Z.mean(axis=0)
    W, r = canonical_directions(Z, numbers, 1e-6)
    Y = np.eye(4)[numbers]
    Y -= Y.mean(axis=0)
    C_zz = Z.T @ Z / 200 + 1e-6 * np.eye(6)
    C_yy = Y.T @ Y / 200 + 1e-6 * np.eye(4)
    C_zy = Z.T @ Y / 200
    M = np.linalg.solve(C_zz, C_zy @ np.linalg.solve(C_yy, C_zy.T))
    values = np.sort(np.linalg.eigvals(M).real)[::-1]
    np.testing.assert_allclose(r**2, values[:3], atol=1e-9)
    np.testing.assert_allclose(M @ W, W * r**2, atol=1e-9)
    np.testing.assert_allclose(W.T @ C_zz @ W, np.eye(3), atol=1e-9)


@pytest.mark.parametrize("n_bits", [1, 2, 3, 16])
def test_fewer_and_more_bits_than_directions(n_bits):
    rng = np.random.RandomState(0)
    y = rng.randint(0, 3, 150)
    X = 3 * rng.standard_normal((3, 5))[y] + rng.standard_normal((150, 5))
    hasher = CCAITQ(n_bits, random_state=0).fit(X, y)
    assert len(hasher.correlations_) == min(2, n_bits)
    assert np.linalg.matrix_rank(hasher.coef_) == min(2, n_bits)
    assert np.all(np.diff(hasher.quantisation_errors_) <= 1e-6)


def test_pca_itq_keeps_the_principal_subspace():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 6)) * [9, 8, 7, 0.1, 0.1, 0.1]
    hasher = PCAITQ(3, random_state=0).fit(X)
    np.testing.assert_allclose(hasher.coef_.T @ hasher.coef_, np.eye(3), atol=1e-9)
    assert np.abs(hasher.coef_[3:]).max() < 0.05


def test_lsh_differs_in_proportion_to_the_angle():
    angles = np.linspace(0, np.pi, 7)
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    X = np.vstack([X, -X])  # mean zero, and so many bits that the share is close to its expectation
    hasher = LSH(20000, random_state=0).fit(X)
    B = unpack(hasher.transform(X), 20000)
    share = (B[0] != B[:7]).mean(axis=1)
    np.testing.assert_allclose(share, angles / np.pi, atol=0.015)
