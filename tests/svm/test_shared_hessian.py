"""The shared Hessian against plain sums, and where they are hard to factor."""

import numpy as np
import pytest
from svm_problems import problem

from sihash.svm import shared_hessian
from sihash.svm.blocks import BLOCK_ROWS, Memory, RowBlocks
from sihash.svm.shared_hessian import _evenly_spaced, _gram_of_part


def test_the_gram_matrix_reads_no_row_that_was_let_go():
    """On disk a row read again after its release would be mapped again, and stay."""

    class Wiping(Memory):
        def release(self, array):
            array[:] = np.nan

    Phi, Y = problem(9000, 5, 1)
    blocks = RowBlocks.of(Phi.copy(), Y=Y).blocks
    sample = np.concatenate([block["Phi"][::2] for block in blocks]).astype(float)
    gram = _gram_of_part(RowBlocks(blocks, Wiping()), _evenly_spaced, 2)
    np.testing.assert_allclose(gram, sample.T @ sample, rtol=1e-4, atol=0.05)


def laid_out(margins):
    """Rows with these margins (n × bits) in the scratch of their blocks, as while a solve is running."""
    Phi, Y = problem(len(margins), 12, margins.shape[1])
    rows = RowBlocks.of(Phi, Y=Y)
    for start, block in zip(range(0, len(margins), BLOCK_ROWS), rows, strict=True):
        block.scratch["Z"] = margins[start : start + block.n]
    return Phi, rows


MARGINS = np.random.RandomState(0).uniform(0, 4, (9000, 3)).astype(np.float32)


def test_of_bands_it_is_the_mean_of_those_of_the_bits(monkeypatch):
    """``I + C/width Σ φφᵀ`` over the band of each bit."""
    monkeypatch.setattr(shared_hessian, "SAMPLE_PER_FEATURE", 1000)  # all rows
    width, mean = np.array([0.1, 0.3, 0.2]), np.zeros((12, 12))
    Phi, rows = laid_out(MARGINS)
    for k in range(3):
        band = Phi[np.abs(1 - MARGINS[:, k]) < width[k] / 2].astype(float)
        mean += (np.eye(12) + 3.0 / width[k] * band.T @ band) / 3
    L = shared_hessian.of_bands(rows, 3.0, width).astype(float)
    np.testing.assert_allclose(L @ L.T, mean, rtol=1e-3, atol=1e-3 * mean.max())


def test_a_sample_of_the_bands_comes_near_it():
    width = np.array([0.4, 0.6, 0.5])
    _, rows = laid_out(MARGINS)
    sample = shared_hessian.of_bands(rows, 3.0, width).astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_hessian, "SAMPLE_PER_FEATURE", 1000)
        L = shared_hessian.of_bands(rows, 3.0, width).astype(float)
    ratios = np.linalg.eigvals(np.linalg.solve(L @ L.T, sample @ sample.T)).real
    assert 0.4 < ratios.min() < ratios.max() < 2.5


def test_where_most_rows_are_in_a_band_there_is_none():
    _, rows = laid_out(MARGINS)
    assert shared_hessian.of_bands(rows, 3.0, np.full(3, 4.0)) is None


@pytest.mark.parametrize("C", [1e3, 1e6, 1e9])
def test_rows_that_depend_on_each_other_and_a_large_C(C):
    """Rounding outweighs the 1 on the diagonal there; the factor is one of a definite matrix all the same."""
    rng = np.random.RandomState(0)
    Phi = (rng.standard_normal((300, 3)) @ rng.standard_normal((3, 40)) + 5).astype(np.float32)
    L = shared_hessian.of_all_rows(RowBlocks.of(Phi, Y=np.ones((300, 1), np.int8)), C)
    assert np.isfinite(L).all()
    assert (np.diag(L) > 0).all()
