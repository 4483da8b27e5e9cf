"""Tall, narrow products against NumPy's."""

import numpy as np
import pytest

from sihash.svm import products


def numbers(*shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("small_kernels", [False, True])
@pytest.mark.parametrize(
    ("d", "m"), [(1, 1), (5, 3), (30, 16), (1001, 32), (257, 17), (300, 99), (20_001, 2)]
)
@pytest.mark.parametrize("n", [0, 1, 5, 6, 53])
def test_a_product_is_the_product(n, d, m, small_kernels, monkeypatch):
    monkeypatch.setattr(products, "SMALL_KERNELS", small_kernels)
    Phi, W = numbers(n, d), numbers(d, m, seed=1)
    found = products.product(Phi, W)
    assert found.shape == (n, m)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, Phi.astype(float) @ W, atol=3e-5 * np.sqrt(d))


@pytest.mark.parametrize("small_kernels", [False, True])
def test_rows_may_lie_apart(small_kernels, monkeypatch):
    monkeypatch.setattr(products, "SMALL_KERNELS", small_kernels)
    Phi, W = numbers(100, 70), numbers(70, 20, seed=1)
    for some in (slice(None, None, 3), slice(1, None, 3), slice(7, 8), slice(99, 2, -5)):
        np.testing.assert_allclose(products.product(Phi[some], W), Phi[some] @ W, atol=1e-4)


def test_numbers_of_a_row_that_lie_apart_are_brought_together():
    Phi, W = numbers(40, 30), numbers(15, 4, seed=1)
    for rows in (np.asfortranarray(Phi[:, :15]), Phi[:, ::2], Phi[:, 14::-1], Phi[:, :15].astype(float)):
        np.testing.assert_allclose(products.product(rows, W), rows @ W, atol=1e-4)
        np.testing.assert_allclose(products.product(rows, W.astype(float)), rows @ W, atol=1e-4)


def test_a_row_has_the_same_product_whichever_rows_are_beside_it():
    Phi, W = numbers(50, 400), numbers(400, 9, seed=1)
    whole = products.product(Phi, W)
    for some in (slice(3, 4), slice(3, 11), slice(3, 50, 7)):
        np.testing.assert_array_equal(products.product(Phi[some], W), whole[some])


def test_kernels_for_small_products_get_small_ones(monkeypatch):
    monkeypatch.setattr(products, "SMALL_KERNELS", True)
    taken = []

    def matmul(A, B, out):
        taken.append(A.shape[-2] * A.shape[-1] * B.shape[-1])
        return np.copyto(out, A @ B)

    numpy = type("numpy", (), {**vars(np), "matmul": staticmethod(matmul)})
    monkeypatch.setattr(products, "np", numpy)
    products.product(numbers(200, 1001), numbers(1001, 32))
    assert max(taken) <= products.SMALL_PRODUCT


@pytest.mark.parametrize("share", [0, 0.05, 0.3, 1])
@pytest.mark.parametrize(("first", "every"), [(0, 1), (0, 3), (2, 3)])
def test_a_sum_of_rows_is_the_sum(share, first, every):
    rng = np.random.RandomState(0)
    Phi, g = numbers(183, 33), np.ones((9, 33), np.float32)
    shape = len(Phi[first::every]), 9
    R = np.where(rng.uniform(size=shape) < share, rng.standard_normal(shape), 0).astype(np.float32)
    expected = 1 + R.T.astype(float) @ Phi[first::every]
    both = g.copy()
    products.add_sparse_product(g, R, Phi, first, every)
    np.testing.assert_allclose(g, expected, atol=1e-4)
    products.add_product(both, R, Phi, first, every)
    np.testing.assert_allclose(both, expected, atol=1e-4)
