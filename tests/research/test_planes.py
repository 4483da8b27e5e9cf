"""Figure 1: the path of OCAS ends at the optimum, and each stage starts from the one before."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.svm import SVC

from sihash.research import planes


@pytest.fixture(scope="module")
def result():
    return planes.simulate(0)


def objective(w, X, signs):
    margins = signs * (X @ w[:2] + w[2])
    return 0.5 * w @ w + planes.C * np.maximum(1 - margins, 0).sum()


def test_stages_follow_each_other(result):
    first, second, third = result["stages"]
    assert [len(s["rows"]) for s in result["stages"]] == [300, 600, 400]
    assert not any(first["start"])
    assert second["start"] == first["path"][-1]
    assert third["start"] == second["path"][-1]
    assert set(np.array(result["y"])[third["rows"]]) == {0, 2, 3, 5}


def test_paths_fall_and_end_within_the_tolerance_of_the_optimum(result):
    X, y, signs = (np.array(result[name]) for name in ("X", "y", "signs"))
    for stage in result["stages"]:
        rows = np.array(stage["rows"])
        values = [objective(np.array(w), X[rows], signs[y[rows]]) for w in stage["path"]]
        assert all(b <= a + 1e-6 * a for a, b in pairwise(values))
        # The bias is part of w here, so the oracle gets it as a feature and has no intercept of its own.
        kernel = np.column_stack([X[rows], np.ones(len(rows))])
        best = SVC(kernel="precomputed", C=planes.C, tol=1e-6).fit(kernel @ kernel.T, signs[y[rows]])
        dual = np.abs(best.dual_coef_).sum()
        w = best.dual_coef_[0] @ kernel[best.support_]
        lower = dual - 0.5 * w @ w  # with an intercept the dual has one more condition: still a lower bound
        assert values[-1] >= lower - 1e-3 * abs(lower)
        assert values[-1] <= 1.02 * min(values[-1], objective(w, X[rows], signs[y[rows]]))


def test_a_warm_start_takes_no_more_steps(result):
    for stage in result["stages"][1:]:
        assert stage["n_steps"] <= stage["n_steps_from_zero"]
