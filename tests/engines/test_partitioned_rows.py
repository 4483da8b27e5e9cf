"""Rows in several parts: sums, cuts and hash functions as in one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts_here import EngineHere, PartsHere

from sihash import SIH
from sihash.hashing import assignment
from sihash.hashing.assignment import kth_smallest
from sihash.svm import ocas, smooth
from sihash.svm.binary import make_svms
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.certificate import lower_bounds


def made(n, seed=0, n_classes=4, d=6, spread=0.9):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    centres = np.random.RandomState(99).normal(size=(10, d)) * 2
    return (centres[y] + spread * rng.normal(size=(n, d))).astype(np.float32), y


def part_with(**scratch):
    n = len(next(iter(scratch.values())))
    rows = RowBlocks([Block(n, Phi=np.zeros((n, 1)), Y=np.zeros((n, 1), np.int8))])
    rows.scratch = scratch
    return rows


numbers = st.one_of(st.floats(allow_nan=False), st.integers(-3, 3).map(float), st.just(-0.0))
parts_of_numbers = st.lists(st.lists(numbers, min_size=1, max_size=8), min_size=1, max_size=4)


@given(parts_of_numbers, st.data())
def test_the_kth_smallest_is_that_of_a_sort(parts, data):
    everything = sorted(number for part in parts for number in part)
    k = data.draw(st.integers(1, len(everything)))
    rows = PartsHere([part_with(delta=np.array(part)) for part in parts])
    assert kth_smallest(rows, "delta", k) == everything[k - 1]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=6), min_size=1, max_size=4
    ),
    st.integers(0, 3),
)
def test_a_cut_over_parts_is_that_over_one(parts, gamma):
    delta = [np.array([float(d) for d, _ in part]) for part in parts]
    stays = [np.array([s for _, s in part]) for part in parts]

    def flipped(rows):
        return [rows.scratch["flipped"] for rows in rows]

    several = [part_with(delta=d, stays=s, pair=np.arange(len(d))) for d, s in zip(delta, stays, strict=True)]
    one = part_with(
        delta=np.concatenate(delta), stays=np.concatenate(stays), pair=np.arange(sum(map(len, delta)))
    )
    for rows, whole in ((PartsHere(several), False), (one, True)):
        rows.deal(assignment._flip, assignment.cut(rows, float(gamma)))
        if whole:
            expected = rows.scratch["flipped"]
    starts = np.cumsum([0] + [len(d) for d in delta[:-1]])
    found = np.concatenate([start + part for start, part in zip(starts, flipped(several), strict=True)])
    np.testing.assert_array_equal(found, expected)


def svms_in(parts, method, n=6000, d=12, m=5, C=4.0):
    rng = np.random.RandomState(0)
    Phi = rng.uniform(size=(n, d)).astype(np.float32)
    Y = np.where(Phi @ rng.normal(size=(d, m)) + 0.3 * rng.normal(size=(n, m)) > 0, 1, -1).astype(np.int8)
    cuts = np.array_split(np.arange(n), parts)
    rows = [RowBlocks.of(Phi[cut], Y=Y[cut]) for cut in cuts]
    return make_svms(rows[0] if parts == 1 else PartsHere(rows), C, method), Phi, Y


@pytest.mark.parametrize("method", ["smooth", "ocas"])
def test_both_solvers_reach_the_same_optimum(method):
    solve = {"smooth": smooth, "ocas": ocas}[method].solve
    one, several = (solve(svms_in(parts, method)[0], 1e-3) for parts in (1, 3))
    assert several.converged.all()
    np.testing.assert_allclose(several.upper, one.upper, rtol=2e-3, atol=0.1)


def test_bounds_are_proved_in_parts():
    svms, *_ = svms_in(3, "smooth")
    smooth.solve(svms, 1e-3)
    lower = lower_bounds(svms, 0.01)
    assert (lower <= svms.upper()).all()
    assert (lower >= 0.97 * svms.upper() - 0.1).all()


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
@pytest.mark.parametrize("lam", [None, 1e3])
def test_sih_in_parts_through_every_change(solver, lam, tmp_path):
    """With a small λ the codes move, and so do flips, cuts and renamed pairs."""
    X, y = made(1500, spread=1.6)
    extra, extra_y = made(200, seed=1, n_classes=5)
    params = {
        "n_bits": 8,
        "n_anchors": 40,
        "solver": solver,
        "codebook": "random",
        "lam": lam,
        "gamma": 5.0,
        "random_state": 2,  # a start from which both paths lead to much the same codes
    }
    # Codes that move go where what is left of a gap leads them: with a wide one the paths part early.
    params["tol"] = 0.001 if lam is not None and solver == "smooth" else 0.01
    one, three = SIH(**params, engine=EngineHere(1)), SIH(**params, engine=EngineHere(3))
    for hasher in (one, three):
        hasher.fit(X, y)
        assert_books_are_kept(hasher)
        assert hasher.report_.rounds[0].n_flips.any() == (lam is not None)
        hasher.add(extra, extra_y)
        hasher.remove(range(0, 300, 3))
        hasher.remove_classes([1])
        assert_books_are_kept(hasher)
    assert three.training_.svms.rows.n_parts == 3
    if lam is None:
        assert one.objective_.total == pytest.approx(three.objective_.total, rel=0.011)
        np.testing.assert_array_equal(one.codes_, three.codes_)
    else:
        assert one.objective_.total == pytest.approx(three.objective_.total, rel=0.05)
    assert np.mean(one.transform(X) != three.transform(X)) < 0.1
    three.save(tmp_path / "model")
    again = SIH.load(tmp_path / "model", engine=EngineHere(2))
    again.add(extra[:50], extra_y[:50])
    assert_books_are_kept(again)


def assert_books_are_kept(hasher):
    """Codes, pairs and counts agree; the risk is that of the rows as they are."""
    training = hasher.training_
    svms, table = training.svms, training.table
    rows = svms.rows
    pair = rows.column("pair")
    np.testing.assert_array_equal(table.words[pair], rows.column("Y"))
    np.testing.assert_array_equal(table.counts, np.bincount(pair, minlength=len(table.counts)))
    np.testing.assert_array_equal(np.sort(rows.column("key")), np.sort(list(training.key_of.values())))
    margins = rows.column("Y") * (rows.column("Phi") @ svms.W.T)
    np.testing.assert_allclose(svms.risk, np.maximum(0, 1 - margins).sum(axis=0), rtol=1e-3, atol=0.1)
