"""The shared Hessian against plain sums, and where they are hard to factor."""

import numpy as np
import pytest
from svm_problems import problem

from sihash.svm import shared_hessian
from sihash.svm.blocks import BLOCK_ROWS, Block, Memory, RowBlocks
from sihash.svm.shared_hessian import _evenly_spaced, _grams_of_part
from sihash.svm.smooth_machines import SmoothMachines
from sihash.threads import team


def test_the_gram_matrix_reads_no_row_that_was_let_go():
    """On disk a row read again after its release would be mapped again, and stay."""

    class Wiping(Memory):
        def release(self, array):
            array[:] = np.nan

    Phi, Y = problem(9000, 5, 1)
    blocks = RowBlocks.of(Phi.copy(), Y=Y).blocks
    sample = np.concatenate([block["Phi"][::2] for block in blocks]).astype(float)
    grams = _grams_of_part(RowBlocks(blocks, Wiping()), 1.0, None, _evenly_spaced, 2)
    np.testing.assert_allclose(grams[0], sample.T @ sample, rtol=1e-4, atol=0.05)


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
    L = shared_hessian.of_bands(rows, 3.0, width).factor.astype(float)
    np.testing.assert_allclose(L @ L.T, mean, rtol=1e-3, atol=1e-3 * mean.max())


def test_a_sample_of_the_bands_comes_near_it():
    width = np.array([0.4, 0.6, 0.5])
    _, rows = laid_out(MARGINS)
    sample = shared_hessian.of_bands(rows, 3.0, width).factor.astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_hessian, "SAMPLE_PER_FEATURE", 1000)
        L = shared_hessian.of_bands(rows, 3.0, width).factor.astype(float)
    ratios = np.linalg.eigvals(np.linalg.solve(L @ L.T, sample @ sample.T)).real
    assert 0.4 < ratios.min() < ratios.max() < 2.5


def test_where_most_rows_are_in_a_band_there_is_none():
    _, rows = laid_out(MARGINS)
    assert shared_hessian.of_bands(rows, 3.0, np.full(3, 4.0)) is None


@pytest.mark.parametrize("C", [1e3, 1e6, 1e9, 1e40])
def test_rows_that_depend_on_each_other_and_a_large_C(C):
    """Rounding outweighs the 1 on the diagonal there; the factor is one of a definite matrix all the same."""
    rng = np.random.RandomState(0)
    Phi = (rng.standard_normal((300, 3)) @ rng.standard_normal((3, 40)) + 5).astype(np.float32)
    L = shared_hessian.of_all_rows(RowBlocks.of(Phi, Y=np.ones((300, 1), np.int8)), C).factor
    assert np.isfinite(L).all()
    assert (np.diag(L) > 0).all()


# Rows that come and go. Groups 0 to 3 with 600 rows each, in blocks of 300.


@pytest.fixture
def all_rows(monkeypatch):
    """Samples would differ."""
    monkeypatch.setattr(shared_hessian, "SAMPLE_PER_FEATURE", 1000)


def rows_of(groups, seed=0):
    Phi, Y = problem(2400, 12, 3, seed=seed)
    return RowBlocks(
        [
            Block(300, group, Phi=Phi[start : start + 300], Y=Y[start : start + 300])
            for group in groups
            for start in (600 * group, 600 * group + 300)
        ]
    )


def matrix(hessian):
    L = hessian.factor.astype(float)
    return L @ L.T


def assert_close(hessian, expected):
    expected = matrix(expected)
    np.testing.assert_allclose(matrix(hessian), expected, rtol=1e-3, atol=1e-4 * expected.max())


@pytest.mark.usefixtures("all_rows")
@pytest.mark.parametrize("left", [[0, 1, 2], [1, 3], [2]])
def test_without_a_group_it_is_that_of_the_others(left):
    followed = shared_hessian.of_all_rows(rows_of([0, 1, 2, 3]), 3.0).following(rows_of(left), 3.0)
    assert_close(followed, shared_hessian.of_all_rows(rows_of(left), 3.0))


@pytest.mark.usefixtures("all_rows")
def test_with_new_groups_it_is_that_of_all():
    followed = shared_hessian.of_all_rows(rows_of([0, 2]), 3.0).following(rows_of([0, 1, 2, 3]), 3.0)
    assert_close(followed, shared_hessian.of_all_rows(rows_of([0, 1, 2, 3]), 3.0))


@pytest.mark.usefixtures("all_rows")
def test_a_group_that_came_back_with_other_rows_is_taken_anew():
    first, without = shared_hessian.of_all_rows(rows_of([0, 1, 2]), 3.0), rows_of([0, 1])
    again = RowBlocks(without.blocks + rows_of([2], seed=1).blocks)
    followed = first.following(without, 3.0).following(again, 3.0)
    assert_close(followed, shared_hessian.of_all_rows(again, 3.0))


@pytest.mark.usefixtures("all_rows")
def test_a_group_that_doubled_is_taken_anew_and_one_that_grew_a_little_is_not():
    first = shared_hessian.of_all_rows(rows_of([0, 1, 2]), 3.0)
    doubled = RowBlocks(rows_of([0, 1, 2]).blocks + rows_of([2], seed=1).blocks)
    assert_close(first.following(doubled, 3.0), shared_hessian.of_all_rows(doubled, 3.0))
    grown = RowBlocks(doubled.blocks[:-2])
    grown.blocks[0].n -= 50
    assert first.following(grown, 3.0) is first


@pytest.mark.usefixtures("all_rows")
def test_one_on_its_way_is_that_of_the_rows_when_it_is_asked_for():
    """As after a solve that was cut short: what was begun then is not what the next one needs."""
    machines = SmoothMachines(rows_of([0, 1, 2, 3]), 3.0)
    assert_close(machines.hessian, shared_hessian.of_all_rows(machines.rows, 3.0))
    with team(2):
        machines.rows = rows_of([0, 1, 2])
        machines.prepare()
        machines.rows = rows_of([0, 2])
        machines.settle()
    assert_close(machines.hessian, shared_hessian.of_all_rows(rows_of([0, 2]), 3.0))
    assert machines._following is None


def test_where_it_would_cost_more_than_it_saves_it_stays(monkeypatch):
    first = shared_hessian.of_all_rows(rows_of([0, 1, 2, 3]), 3.0)
    monkeypatch.setattr(shared_hessian, "WORTH", 1e-6)
    assert first.following(rows_of([0, 1]), 3.0) is first


def test_the_matrices_of_groups_are_not_kept_where_they_take_too_much_memory(monkeypatch):
    monkeypatch.setattr(shared_hessian, "MOST_MEMORY", 0.001)
    first = shared_hessian.of_all_rows(rows_of([0, 1, 2, 3]), 3.0)
    assert not first.of_group
    assert first.following(rows_of([0, 1]), 3.0) is first
    monkeypatch.undo()
    assert_close(first, shared_hessian.of_all_rows(rows_of([0, 1, 2, 3]), 3.0))


@pytest.mark.usefixtures("all_rows")
def test_of_bands_it_follows_too():
    width = np.array([0.1, 0.3, 0.2])
    _, rows = laid_out(MARGINS)
    for k, block in enumerate(rows.blocks):
        block.group = k % 3
    fewer = RowBlocks([block for block in rows.blocks if block.group != 1])
    followed = shared_hessian.of_bands(rows, 3.0, width).following(fewer, 3.0)
    assert_close(followed, shared_hessian.of_bands(fewer, 3.0, width))


def test_directions_are_those_of_the_leading_eigenvectors():
    rng = np.random.RandomState(0)
    basis = np.linalg.qr(rng.normal(size=(200, 200)))[0]
    values = 1 + 1e6 / np.arange(1, 201) ** 3
    V = shared_hessian.strongest_directions(np.linalg.cholesky((basis * values) @ basis.T).astype(np.float32))
    assert V.shape == (200, shared_hessian.FEWEST)
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-5)
    caught = np.linalg.norm(V.T @ basis, axis=0)
    assert caught[:32].min() > 0.99
    assert np.sum(values * caught**2) > 0.999 * values[: V.shape[1]].sum()
    strengths = np.sum((V.T @ basis) ** 2 * values, axis=1)
    assert (np.diff(strengths) <= 1e-3 * strengths[:-1]).all(), "strongest first"
    few = shared_hessian.strongest_directions(np.eye(5, dtype=np.float32))
    np.testing.assert_allclose(few @ few.T, np.eye(5), atol=1e-6)
