"""One pass over a block against the formulas, term by term."""

import numpy as np
import pytest
from svm_problems import problem

from sihash.svm import products, slopes
from sihash.svm.blocks import Block
from sihash.svm.moves import Moves

WIDTH = 0.5


def block_at(Phi, Y, W, bits):
    """A block whose scratch holds margins and slopes of ``bits`` by the weights ``W`` (d × bits)."""
    block = Block(len(Phi), 0, Phi=Phi, Y=Y, pi0=np.full(Y.shape, -1, np.float32))
    Z = Y[:, bits] * (Phi @ W)
    block.scratch = {"Y": np.ascontiguousarray(Y[:, bits]), "Z": Z, "P": slopes_at(Z).astype(np.float32)}
    return block


def slopes_at(z):
    return np.clip(0.5 + (1 - z) / WIDTH, 0, 1)


def assert_evaluated(block, found, W, bits, atol):
    """Margins, shares and sums are those of the weights ``W``; what changed is left to the caller."""
    Phi, Y = block["Phi"].astype(float), block["Y"][:, bits].astype(float)
    z = Y * (Phi @ W)
    p = slopes_at(z)
    h = np.maximum(1 - z, 0)
    np.testing.assert_allclose(block.scratch["Z"], z, atol=1e-4)
    np.testing.assert_allclose(block["pi0"][:, bits], p, atol=1e-3)
    np.testing.assert_array_equal(block["pi0"][:, bits], block.scratch["P"])
    others = np.setdiff1d(np.arange(block["Y"].shape[1]), bits)
    assert (block["pi0"][:, others] == -1).all(), "shares of other bits are left alone"
    for own, sums in zip(
        found[:4], ((p * Y).T @ Phi, p.sum(0), h.sum(0), (h - p * (1 - z)).sum(0)), strict=True
    ):
        np.testing.assert_allclose(own, sums, rtol=1e-4, atol=atol)
    P = block.scratch["P"]
    np.testing.assert_array_equal(found[-1], np.count_nonzero((P > 0) & (P < 1), axis=0))


@pytest.mark.parametrize("small_kernels", [False, True])
@pytest.mark.parametrize("by_change", [False, True])
@pytest.mark.parametrize("sparse", [0, 1])
@pytest.mark.parametrize(("d", "m"), [(5, 1), (30, 3), (200, 32), (1001, 7), (1500, 20)])
def test_a_move_evaluates_the_smoothed_hinge_where_it_ends(
    d, m, sparse, by_change, small_kernels, monkeypatch
):
    monkeypatch.setattr(products, "SPARSE", sparse)
    monkeypatch.setattr(products, "SMALL_KERNELS", small_kernels)
    monkeypatch.setattr(slopes, "CHUNK", 2**20)
    Phi, Y = problem(700, d, m + 2, seed=d)
    bits = np.arange(1, m + 1)
    rng = np.random.RandomState(m)
    W, move = (rng.standard_normal((2, d, m)) / np.sqrt(d)).astype(np.float32)
    block = block_at(Phi, Y, W, bits)
    before = block.scratch["P"].copy()
    kept = (before * Y[:, bits]).T.astype(float) @ Phi if by_change else 0
    g, *sums = slopes.evaluate(block, Moves(move), by_change, np.full(m, WIDTH, np.float32), bits, "pi0")
    assert_evaluated(block, (kept + g, *sums), W.astype(float) + move, bits, atol=0.1)
    np.testing.assert_array_equal(sums[-2], np.count_nonzero(block.scratch["P"] != before, axis=0))


@pytest.mark.parametrize("one_word", [False, True])
@pytest.mark.parametrize("cold", [False, True])
def test_where_the_margins_are(one_word, cold):
    """Rows of one code at no weights at all have one slope, and a shorter way to the same sums."""
    Phi, Y = problem(300, 20, 4)
    Y = np.tile(Y[:1], (300, 1)) if one_word else Y
    W = np.zeros((20, 4)) if cold else np.random.RandomState(0).standard_normal((20, 4)) / 5
    bits = np.arange(4)
    block = block_at(Phi, Y, W.astype(np.float32), bits)
    found = slopes.evaluate_here(block, np.full(4, WIDTH, np.float32), bits, "pi0")
    assert_evaluated(block, found, W, bits, atol=1e-2)
    assert (found[-2] == 300).all(), "all of them are new"
