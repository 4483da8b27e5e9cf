"""Step lengths against scipy on all rows; and what a sample of the rows may get wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from svm_problems import problem

from sihash.svm.blocks import RowBlocks
from sihash.svm.moves import Moves
from sihash.svm.steplength import LENGTHS, MAX_LADDERS, REACH, step_lengths

WIDTH, C = 0.5, 2.0


def smoothed(z):
    u = 1 - z
    return np.where(np.abs(u) < WIDTH / 2, (u + WIDTH / 2) ** 2 / (2 * WIDTH), np.maximum(u, 0))


class Line:
    """A line from weights ``W`` along ``D`` (m × d), with the objective on it, bit by bit."""

    def __init__(self, seed, n=6000, d=8, m=3, reach=1.0):
        Phi, Y = problem(n, d, m, seed)
        rng = np.random.RandomState(seed)
        self.W = 0.3 * rng.standard_normal((m, d))
        self.rows = RowBlocks.of(Phi, Y=Y)
        self.z = Y * (Phi @ self.W.T)
        for block in self.rows:
            Z = block["Y"] * (block["Phi"] @ self.W.T)
            block.scratch = {"Y": block["Y"], "Z": Z.astype(np.float32)}
        p = np.clip(0.5 + (1 - self.z) / WIDTH, 0, 1)
        gradient = self.W - C * (p * Y).T @ Phi
        self.D = -gradient / (reach * C * 0.3 * n)
        self.start = np.sum(gradient * self.D, axis=1)
        self.v = Y * (Phi @ self.D.T)

    def lengths(self, every=1, start=None):
        start = self.start if start is None else start
        D = np.ascontiguousarray(self.D.T, dtype=np.float32)
        width = np.full(len(self.D), WIDTH)
        w_dot_d, d_dot_d = np.sum(self.W * self.D, axis=1), np.sum(self.D**2, axis=1)
        return step_lengths(self.rows, Moves(D), every, C, width, w_dot_d, d_dot_d, start)

    def value(self, j, t):
        return (
            0.5 * np.sum((self.W[j] + t * self.D[j]) ** 2)
            + C * smoothed(self.z[:, j] + t * self.v[:, j]).sum()
        )

    def gain(self, j, t):
        """Of what can be gained on the line, the share that ``t`` gains."""
        best = minimize_scalar(lambda t: self.value(j, t), bounds=(0, 100), method="bounded").fun
        return (self.value(j, 0) - self.value(j, t)) / (self.value(j, 0) - best)


@given(seed=st.integers(0, 10**6), reach=st.sampled_from([0.2, 1.0, 3.0]))
@settings(max_examples=30, deadline=None)
def test_all_rows_gain_nearly_all_that_the_line_has(seed, reach):
    line = Line(seed, reach=reach)
    for j, t in enumerate(line.lengths()):
        assert line.gain(j, t) > 0.97


@pytest.mark.parametrize("seed", range(10))
def test_every_sixth_row_gains_nearly_as_much(seed):
    line = Line(seed)
    for j, t in enumerate(line.lengths(every=6)):
        assert line.gain(j, t) > 0.9


def test_the_true_slope_at_the_start_corrects_the_sample():
    """A slope that is nearer to zero than the sample says is sooner there."""
    line = Line(0)
    assert (line.lengths(start=0.5 * line.start) < line.lengths()).all()


def test_where_rows_stop_pulling_the_error_at_the_start_does_not_stay():
    """Clean rows, all in the wrong at no weights, nearly none behind the first step.

    The sample is off at the start by as much as its rows pull there. Carried along to lengths at which no
    row pulls, that is a slope of its own, and the step goes several times too far, or hardly anywhere.
    """
    n, rng = 20_000, np.random.RandomState(0)
    Y = np.where(rng.uniform(size=(n, 1)) < 0.5, 1, -1).astype(np.int8)
    Phi = (Y * rng.uniform(0.2, 2.0, (n, 1))).astype(np.float32)
    rows = RowBlocks.of(Phi, Y=Y)
    for block in rows:
        block.scratch = {"Y": block["Y"], "Z": np.zeros((block.n, 1), np.float32)}
    D, none = np.ones((1, 1), np.float32), np.zeros(1)
    for off in (0.97, 1.0, 1.03):  # the true slope beside that of the sample
        slope = np.array([-C * float(Y[:, 0] @ Phi[:, 0]) * off])
        (t,) = step_lengths(rows, Moves(D), 1, C, np.array([WIDTH]), none, np.ones(1), slope)
        assert 4 < t < 7  # the last rows stop pulling between 0.75 / 0.2 and 1.25 / 0.2


def test_uphill_stays():
    line = Line(0)
    assert (line.lengths(start=np.abs(line.start)) == 0).all()


@pytest.mark.parametrize("size", [1e-9, 1e-4, 1e3, 1e6])
def test_directions_of_any_size(size):
    """A direction that is far too short or too long, as where the Hessian is unknown, costs more visits."""
    line, other = Line(0), Line(0, reach=1 / size)
    np.testing.assert_allclose(other.lengths() * size, line.lengths(), rtol=0.05)
    for j, t in enumerate(other.lengths()):
        assert line.gain(j, t * size) > 0.97


def test_a_line_that_falls_for_ever_ends_somewhere():
    """No rows speak against it, and the direction is all but nothing."""
    line = Line(0, reach=1e30)
    t = line.lengths()
    assert np.isfinite(t).all()
    np.testing.assert_allclose(t, LENGTHS[-1] * REACH ** (MAX_LADDERS - 1))
