"""Codes with the SVMs fixed: the cut of eq. 3 and the descent, against trying everything."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sihash.hashing import assignment
from sihash.hashing.assignment import PairLosses, descend
from sihash.hashing.code_table import CodeTable
from sihash.svm.binary import make_svms
from sihash.svm.blocks import Block, RowBlocks

numbers = st.one_of(st.floats(-5, 5), st.integers(-3, 3).map(float))


def cut(delta, current, gamma):
    """The signs that `assignment.cut` gives to rows in one part."""
    rows = RowBlocks([Block(len(delta), Phi=np.zeros((len(delta), 1)))])
    rows.scratch = {"delta": delta, "stays": current < 0, "pair": np.arange(len(delta))}
    (rule,) = assignment.cut(rows, gamma)
    assignment._flip(rows, rule)
    signs = current.copy()
    signs[rows.scratch["flipped"]] *= -1
    return signs


def cut_cost(delta, signs, gamma):
    return gamma * abs(signs.sum()) + delta[signs < 0].sum()


@given(st.lists(st.tuples(numbers, st.sampled_from([-1, 1])), min_size=1, max_size=9), st.floats(0, 3))
def test_cut_is_the_best_of_all_signs(rows, gamma):
    delta = np.array([d for d, _ in rows])
    current = np.array([c for _, c in rows], dtype=np.int8)
    found = cut_cost(delta, cut(delta, current, gamma).astype(int), gamma)
    best = min(cut_cost(delta, np.array(s), gamma) for s in product([-1, 1], repeat=len(rows)))
    assert found == pytest.approx(best, abs=1e-9)


@given(st.lists(st.tuples(numbers, st.sampled_from([-1, 1])), min_size=1, max_size=30), st.floats(0, 3))
def test_a_second_cut_changes_nothing(rows, gamma):
    delta = np.array([d for d, _ in rows])
    once = cut(delta, np.array([c for _, c in rows], dtype=np.int8), gamma)
    np.testing.assert_array_equal(cut(delta, once, gamma), once)


def test_without_a_penalty_every_row_decides_for_itself():
    delta = np.array([-1.0, 0.0, 0.0, 2.0])
    current = np.array([1, 1, -1, -1], dtype=np.int8)
    np.testing.assert_array_equal(cut(delta, current, 0.0), [-1, 1, -1, 1])


def test_a_high_price_balances_any_column():
    delta = np.arange(1.0, 8.0)
    assert abs(int(cut(delta, np.ones(7, dtype=np.int8), 1e6).sum())) == 1


def _own(sets):
    return np.arange(len(sets)), sets, np.ones(len(sets))


class Problem:
    """A few rows with random SVMs of both stages, and eq. 1 without its constant parts, the slow way."""

    def __init__(self, seed, n=7, m=3, n_classes=3, lam_C_b=0.7, gamma=0.4, C_x=0.9):
        rng = np.random.RandomState(seed)
        self.lam_C_b, self.gamma, self.C_x = lam_C_b, gamma, C_x
        self.y = np.concatenate([np.arange(n_classes), rng.randint(0, n_classes, n - n_classes)])
        self.Phi = rng.uniform(size=(n, 4)).astype(np.float32)
        self.coef = rng.normal(size=(n_classes, m + 1))
        words = rng.choice([-1, 1], size=(n_classes, m)).astype(np.int8)
        self.table = CodeTable(m)
        pair = np.array([self.table.find(words[k], k) for k in range(n_classes)], dtype=np.int32)[self.y]
        self.table.count(pair)
        block = Block(n, Phi=self.Phi, Y=words[self.y], pair=pair)
        self.svms = make_svms(RowBlocks([block]), C_x, "ocas")
        self.svms.W = rng.normal(size=(m, 4))
        self.svms.count(self.svms.rows.total(self.svms.counter().enter, slice(0, n)))
        self.svms.risk -= n

    def cost(self, B):
        B = B.astype(float)
        scores = self.Phi @ self.svms.W.T
        binary = self.C_x * np.maximum(0, 1 - B * scores).sum()
        T = B @ self.coef[:, :-1].T + self.coef[:, -1]
        losses = T - T[np.arange(len(B)), self.y][:, None] + (np.arange(len(self.coef)) != self.y[:, None])
        return binary + self.lam_C_b * losses.max(axis=1).sum() + self.gamma * np.abs(B.sum(axis=0)).sum()

    def descend(self):
        return descend(self.svms, self.table, self.coef, _own, self.lam_C_b, self.gamma)

    @property
    def B(self):
        return self.svms.rows.column("Y")


@pytest.mark.parametrize("seed", range(20))
def test_descent_lowers_eq_1_to_where_no_column_can_be_bettered(seed):
    problem = Problem(seed)
    before = problem.cost(problem.B)
    flips = problem.descend()
    B, after = problem.B, problem.cost(problem.B)
    assert after <= before + 1e-9
    assert (flips.sum() > 0) == (after < before - 1e-9)
    for j in range(B.shape[1]):  # every column is the best of all 2^n given the others
        for column in product([-1, 1], repeat=len(B)):
            other = B.copy()
            other[:, j] = column
            assert problem.cost(other) >= after - 1e-6
    assert not problem.descend().any(), "a converged pass is a no-op"


@pytest.mark.parametrize("seed", range(5))
def test_descent_keeps_the_books(seed):
    problem = Problem(seed)
    problem.descend()
    rows, table = problem.svms.rows, problem.table
    np.testing.assert_array_equal(table.words[rows.column("pair")], problem.B)
    np.testing.assert_array_equal(table.sets[rows.column("pair")], problem.y)
    counts = np.bincount(rows.column("pair"), minlength=len(table.counts))
    np.testing.assert_array_equal(table.counts, counts)
    np.testing.assert_array_equal(table.surplus(), problem.B.astype(int).sum(axis=0))
    margins = problem.B * (problem.Phi @ problem.svms.W.T)
    np.testing.assert_allclose(problem.svms.risk, np.maximum(0, 1 - margins).sum(axis=0), rtol=1e-5)


def test_pair_losses_are_those_of_the_rows():
    problem = Problem(0)
    losses = PairLosses(problem.table, problem.coef, _own, problem.lam_C_b)
    problem.svms.C = problem.C_x = 0.0
    problem.gamma = 0.0
    for j in range(3):
        expected = np.zeros(len(problem.y))
        for i in range(len(problem.y)):
            low, high = problem.B.copy(), problem.B.copy()
            low[i, j], high[i, j] = -1, 1
            expected[i] = problem.cost(low) - problem.cost(high)
        pair = problem.svms.rows.column("pair")
        np.testing.assert_allclose(losses.differences(j)[pair], expected, atol=1e-9)
