"""Steps of many bits in few directions."""

import numpy as np
import pytest

from sihash.svm.moves import FEW, LOST, in_few_directions

D, M = 40, 16


def hessian(seed=0):
    A = np.random.RandomState(seed).standard_normal((2 * D, D))
    return np.eye(D) + A.T @ A


def steps(rank, noise=0.0, seed=1):
    rng = np.random.RandomState(seed)
    exact = rng.standard_normal((M, rank)) @ rng.standard_normal((rank, D))
    exact *= 10.0 ** rng.uniform(-3, 3, size=(M, 1))  # bits of any size count alike
    return exact + noise * np.linalg.norm(exact, axis=1, keepdims=True) * rng.standard_normal((M, D))


def of(moves):
    return moves.directions @ (np.eye(moves.directions.shape[1]) if moves.mix is None else moves.mix)


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_what_lies_in_few_directions_stays_as_it_is(rank):
    exact = steps(rank)
    D_, moves = in_few_directions(exact, np.linalg.cholesky(hessian()).astype(np.float32))
    assert moves.directions.shape == (D, rank)
    scale = np.linalg.norm(exact, axis=1)
    np.testing.assert_allclose(D_ / scale[:, None], exact / scale[:, None], atol=1e-3)
    np.testing.assert_allclose(of(moves) / scale, D_.T / scale, atol=1e-3)


@pytest.mark.parametrize("noise", [0.003, 0.01])
def test_no_bit_loses_much_of_its_gain(noise):
    exact, H = steps(3, noise), hessian()
    D_, moves = in_few_directions(exact, np.linalg.cholesky(H).astype(np.float32))
    assert moves.mix is not None
    lost = np.einsum("jd,de,je->j", exact - D_, H, exact - D_)
    assert (lost <= 1.01 * LOST * np.einsum("jd,de,je->j", exact, H, exact)).all()
    assert moves.directions.shape[1] <= FEW * M


def test_steps_that_need_many_directions_are_left_alone():
    exact = steps(M)
    D_, moves = in_few_directions(exact, np.linalg.cholesky(hessian()).astype(np.float32))
    assert D_ is exact
    assert moves.mix is None
    np.testing.assert_allclose(moves.directions, exact.T, rtol=1e-6)


def test_a_bit_without_a_step_is_no_trouble():
    exact = steps(2)
    exact[3] = 0
    D_, moves = in_few_directions(exact, np.eye(D, dtype=np.float32))
    assert np.isfinite(of(moves)).all()
    np.testing.assert_array_equal(D_[3], 0)


@pytest.mark.parametrize("rank", [2, M])
def test_scores_and_lengths(rank):
    _, moves = in_few_directions(steps(rank) / 1000, np.linalg.cholesky(hessian()).astype(np.float32))
    rng = np.random.RandomState(0)
    Phi, t = rng.standard_normal((30, D)).astype(np.float32), rng.uniform(0, 2, size=M)
    expected = (Phi @ of(moves)) * t
    size = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(moves.times(t).scores(Phi) / size, expected / size, atol=1e-5)
