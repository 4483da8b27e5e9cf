"""The shared Hessian against plain sums, and where it is hard to factor."""

import numpy as np
import pytest
from svm_problems import problem

from sihash.svm.blocks import Memory, RowBlocks
from sihash.svm.gram import Gram, sample_product
from sihash.svm.settings import DEFAULTS


def rows_of(Phi):
    return RowBlocks.of(np.ascontiguousarray(Phi), Y=np.ones((len(Phi), 1), np.int8))


def hessian(Phi, C):
    Phi = Phi.astype(float)
    return np.eye(Phi.shape[1]) + DEFAULTS.kappa * C * Phi.T @ Phi


@pytest.mark.parametrize("n", [1, 50, 6000])
def test_of_all_rows_where_these_are_few(n):
    Phi, _ = problem(n, 400, 1)
    gram = Gram.of(rows_of(Phi), 3.0)
    expected = hessian(Phi, 3.0)
    np.testing.assert_allclose(gram.factor @ gram.factor.T, expected, rtol=1e-3, atol=1e-4 * expected.max())
    Q = np.random.RandomState(0).standard_normal((2, 400))
    np.testing.assert_allclose(gram.solve(Q), np.linalg.solve(expected, Q.T).T, rtol=0.02, atol=1e-4)
    norms = np.square(gram.half_solve(Q)).sum(axis=0)
    np.testing.assert_allclose(norms, np.sum(Q * np.linalg.solve(expected, Q.T).T, axis=1), rtol=1e-3)


def test_a_sample_comes_near_it_and_reads_no_row_that_was_let_go():
    """On disk a row read again after its release would be mapped again, and stay."""

    class Wiping(Memory):
        def release(self, array):
            array[:] = np.nan

    Phi, _ = problem(9000, 12, 1)
    expected = hessian(Phi, 3.0)
    gram = Gram.of(RowBlocks(rows_of(Phi.copy()).blocks, Wiping()), 3.0)
    assert gram.every > 1
    ratios = np.linalg.eigvals(np.linalg.solve(expected, gram.factor.astype(float) @ gram.factor.T)).real
    assert 0.4 < ratios.min() < ratios.max() < 2.5


def test_rows_that_come_are_added_and_many_that_went_are_noticed():
    Phi, _ = problem(3000, 40, 1)
    first, more = Phi[:2000], Phi[2000:]
    gram = Gram.of(rows_of(first), 3.0)
    both = gram.with_rows(sample_product(more, gram.every), len(more))
    expected = hessian(Phi, 3.0)
    ratios = np.linalg.eigvals(np.linalg.solve(expected, both.factor.astype(float) @ both.factor.T)).real
    assert 0.4 < ratios.min() < ratios.max() < 2.5
    assert not both.is_stale(rows_of(Phi[:2500]))
    assert both.is_stale(rows_of(first))


@pytest.mark.parametrize("C", [1e3, 1e6, 1e9, 1e40])
def test_rows_that_depend_on_each_other_and_a_large_C(C):
    """Rounding outweighs the 1 on the diagonal there; the factor is one of a definite matrix all the same."""
    rng = np.random.RandomState(0)
    Phi = (rng.standard_normal((300, 3)) @ rng.standard_normal((3, 40)) + 5).astype(np.float32)
    L = Gram.of(rows_of(Phi), C).factor
    assert np.isfinite(L).all()
    assert (np.diag(L) > 0).all()


def test_columns_that_come_later():
    Phi, _ = problem(1300, 40, 1)
    whole = Gram.of(rows_of(Phi), 3.0)
    first = np.r_[0:20, 25:40]
    gram = Gram.of(rows_of(Phi[:, first]), 3.0).with_columns(rows_of(Phi), 20, 5)
    assert gram.every > 1, "the same sample of the rows"
    np.testing.assert_allclose(gram.matrix, whole.matrix, rtol=1e-5, atol=1e-5 * whole.matrix.max())
    assert not gram.is_stale(rows_of(Phi))


def test_columns_counted_on_other_rows_are_noticed():
    Phi, _ = problem(60, 40, 1)
    other = np.column_stack([Phi[:30, :20], 100 * Phi[:30, :20]])  # as if one column were another's multiple
    gram = Gram.of(rows_of(Phi[30:, :20]), 3.0).with_columns(rows_of(other), 20, 20)
    assert gram.is_stale(rows_of(other))
