"""The kernel map against its formula, anchors and widths against what they are for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from sihash.anchors import class_anchors, kmeans_centres, shares_of_classes
from sihash.kernel import MAPPED_ROWS, KernelMap, mean_of_rows, normalise, row_blocks
from sihash.kernel_fit import choose_width, fit_kernel_map


def by_formula(X, mean, anchors, width):
    """Row after row, anchor after anchor, in float64."""
    Phi = np.ones((len(X), len(anchors) + 1))
    for i, x in enumerate(X.astype(np.float64)):
        z = x - mean
        z = z / np.linalg.norm(z) if np.any(z) else z
        for k, a in enumerate(anchors.astype(np.float64)):
            Phi[i, k] = np.exp(-np.sum((z - a) ** 2) / (2 * width**2))
    return Phi


@given(
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from([np.float32, np.float64]),
    width=st.sampled_from([0.3, 0.8, 2.0]),
    n=st.integers(1, 20),
    d=st.integers(1, 10),
)
@settings(max_examples=50)
def test_the_map_is_its_formula(seed, dtype, width, n, d):
    rng = np.random.RandomState(seed)
    X = (5 + rng.standard_normal((n, d))).astype(dtype)
    mean = X.mean(axis=0, dtype=np.float64)
    X[0] = mean  # as near to the mean as the type allows
    anchors = normalise(rng.standard_normal((4, d)).astype(dtype), np.zeros(d))
    Phi = KernelMap(mean, anchors, width)(X)
    assert Phi.dtype == dtype
    tolerance = 3e-5 if dtype == np.float32 else 1e-12
    # The direction of a row depends on its distance to the mean, which the row's own type rounds.
    expected = by_formula(X - mean.astype(dtype), np.zeros(d), anchors, width)
    np.testing.assert_allclose(Phi, expected, atol=tolerance / width**2)
    assert Phi.max() <= 1
    assert Phi.min() >= 0


def test_more_rows_than_a_block():
    X = np.random.RandomState(0).standard_normal((MAPPED_ROWS + 5, 3)).astype(np.float32)
    kernel = KernelMap(np.zeros(3), normalise(X[:7], np.zeros(3)), 0.7)
    Phi = kernel(X)
    assert Phi.shape == (len(X), kernel.n_features_out) == (len(X), 8)
    np.testing.assert_allclose(Phi[-9:], by_formula(X[-9:], np.zeros(3), kernel.anchors, 0.7), atol=1e-5)
    out = np.full_like(Phi, np.nan)
    assert kernel(X, out=out) is out
    np.testing.assert_array_equal(out, Phi)
    with threadpool_limits(1):
        np.testing.assert_array_equal(kernel(X), Phi)


def test_row_blocks_cover_every_row_once():
    for n in (0, 1, 10, 11):
        covered = [i for rows in row_blocks(n, 5) for i in range(rows.start, rows.stop)]
        assert covered == list(range(n))


def test_a_row_equal_to_the_mean_has_no_direction_and_is_finite():
    mean = np.array([1.0, 2.0])
    np.testing.assert_array_equal(normalise(np.array([[1.0, 2.0], [4.0, 6.0]]), mean), [[0, 0], [0.6, 0.8]])
    Phi = KernelMap(mean, np.array([[1.0, 0.0]]), 1.0)(np.array([[1.0, 2.0]]))
    np.testing.assert_allclose(Phi, [[np.exp(-0.5), 1]])


@pytest.mark.parametrize("width", [1e-6, 0.01, 0.5])
def test_a_point_on_its_anchor_has_feature_one(width):
    X = np.random.RandomState(0).standard_normal((50, 20)).astype(np.float32)
    Z = normalise(X, np.zeros(20))
    Phi = KernelMap(np.zeros(20), Z, width)(X)
    np.testing.assert_allclose(np.diag(Phi), 1, atol=1e-6 / width**2)
    assert Phi.max() <= 1


def clustered(n=2000, d=8, n_clusters=20, seed=0):
    rng = np.random.RandomState(seed)
    centres = rng.standard_normal((n_clusters, d))
    y = rng.randint(n_clusters, size=n)
    return normalise((centres[y] + 0.2 * rng.standard_normal((n, d))).astype(np.float32), np.zeros(d)), y


def quantisation_error(Z, anchors):
    return ((Z[:, None] - anchors[None]) ** 2).sum(axis=2).min(axis=1).mean()


def anchors_of(Z, n, how, seed=0):
    """Anchors of rows that are all of one class."""
    y, rng = np.zeros(len(Z), int), np.random.RandomState(seed)
    return class_anchors(Z, np.zeros(Z.shape[1]), y, np.array([n]), how, rng)[0]


def test_centres_cover_better_than_random_rows():
    Z, _ = clustered()
    for seed in range(3):
        centres, drawn = (anchors_of(Z, 40, how, seed) for how in ("classes", "random"))
        assert centres.shape == drawn.shape == (40, Z.shape[1])
        assert quantisation_error(Z, centres) < 0.8 * quantisation_error(Z, drawn)
        np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("how", ["classes", "random"])
def test_anchors_follow_the_seed_alone(how):
    Z, _ = clustered()
    with threadpool_limits(1):
        first = anchors_of(Z, 30, how, 3)
    np.testing.assert_array_equal(anchors_of(Z, 30, how, 3), first)
    assert not np.array_equal(anchors_of(Z, 30, how, 4), first)


def test_random_anchors_are_different_rows():
    Z, _ = clustered()
    anchors = anchors_of(Z, 20, "random")
    assert len(np.unique(anchors, axis=0)) == 20
    assert (np.abs(anchors[:, None] - Z).sum(axis=2).min(axis=1) < 1e-5).all()


def test_as_many_anchors_as_rows_are_the_rows():
    Z, _ = clustered(n=10)
    for how in ("classes", "random"):
        anchors = anchors_of(Z, 10, how)
        np.testing.assert_allclose(np.sort(anchors, axis=0), np.sort(Z, axis=0), atol=1e-6)
        assert not np.shares_memory(anchors, Z)


def test_fewer_distinct_rows_than_centres():
    Z = np.repeat(np.eye(2, dtype=np.float32), 30, axis=0)
    centres, _ = kmeans_centres(Z, 5, np.random.RandomState(0))
    assert np.isfinite(centres).all()
    assert quantisation_error(Z, centres) < 1e-6


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=30), n_anchors=st.integers(1, 100))
@settings(max_examples=100)
def test_anchors_are_shared_out_by_class_size(sizes, n_anchors):
    sizes = np.array(sizes)
    shares = shares_of_classes(sizes, n_anchors)
    most = max(n_anchors, sizes.sum() // 2)  # with a row a class, not every row is an anchor
    assert (shares >= 1).sum() == min(len(sizes), most)
    assert (shares <= sizes).all()
    assert shares.sum() == max(min(len(sizes), most), min(n_anchors, sizes.sum()))
    order = np.argsort(sizes, kind="stable")
    assert (np.diff(shares[order]) >= -1).all()


def test_anchors_of_classes_lie_in_their_class():
    Z, y = clustered()
    for n_anchors, expected in ((100, 100), (3, 20)):
        shares = shares_of_classes(np.bincount(y), n_anchors)
        rng, names = np.random.RandomState(0), np.arange(len(Z)) + 1000
        anchors, classes, made_of = class_anchors(Z, np.zeros(Z.shape[1]), y, shares, "classes", rng, names)
        np.testing.assert_array_equal(y[made_of[0] - 1000], classes[made_of[1]])
        assert len(anchors) == len(classes) == expected
        np.testing.assert_allclose(np.linalg.norm(anchors, axis=1), 1, atol=1e-5)
        nearest = np.argmax(anchors @ Z.T, axis=1)
        assert (y[nearest] == classes).mean() > 0.9


@pytest.mark.parametrize("kind", ["linear", "rbf+linear"])
def test_features_with_the_vector_itself(kind):
    X = np.random.RandomState(0).standard_normal((30, 4)).astype(np.float32) + 3
    kernel = fit_kernel_map(X, np.arange(30) % 3, 6, "classes", 0.5, np.random.RandomState(0), kind)
    Phi, Z = kernel(X), normalise(X, kernel.mean)
    assert Phi.shape == (30, kernel.n_features_out)
    np.testing.assert_allclose(Phi[:, -5:-1], Z, atol=1e-6)
    np.testing.assert_array_equal(Phi[:, -1], 1)
    if kind == "rbf+linear":
        np.testing.assert_allclose(
            Phi[:, :6], by_formula(X, kernel.mean, kernel.anchors, 0.5)[:, :6], atol=1e-5
        )


# The width.


def test_the_width_is_a_share_of_the_median_distance_whatever_rows_are_drawn():
    Z, y = clustered()
    widths = [choose_width(Z, y, np.random.RandomState(seed)) for seed in range(3)]
    distances = np.linalg.norm(Z[:, None] - Z, axis=2)
    np.testing.assert_allclose(widths, 0.45 * np.median(distances[distances > 0]), rtol=0.1)
    with threadpool_limits(1):
        assert widths[0] == choose_width(Z, y, np.random.RandomState(0))


def test_data_that_every_kernel_separates_get_the_usual_width():
    y = np.arange(300) % 2
    Z = np.where(y == 1, 1, -1)[:, None] * np.array([1.0, 0.0]) + 0.01 * np.arange(600).reshape(300, 2) / 600
    Z = normalise(Z, np.zeros(2)).astype(np.float32)
    assert choose_width(Z, y, np.random.RandomState(0)) == pytest.approx(0.45 * 2, rel=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_fine_structure_gets_a_narrow_kernel(seed):
    """A circle in 24 slices, of two classes in turn: only the narrowest kernel can tell them apart."""
    angle = np.random.RandomState(0).uniform(0, 2 * np.pi, 3000)
    Z = np.column_stack([np.cos(angle), np.sin(angle)]).astype(np.float32)
    y = (angle // (np.pi / 12)).astype(int) % 2
    median_chord = np.sqrt(2)
    assert choose_width(Z, y, np.random.RandomState(seed)) == pytest.approx(0.2 * median_chord, rel=0.02)


@pytest.mark.parametrize(
    ("Z", "y"),
    [
        (np.eye(5, dtype=np.float32), np.zeros(5, int)),  # few rows
        (np.eye(40, dtype=np.float32), np.arange(40)),  # no class of two
        (np.ones((30, 3), np.float32), np.arange(30) % 2),  # all rows alike
        (np.zeros((30, 3), np.float32), np.arange(30) % 2),
        (np.ones((1, 3), np.float32), np.zeros(1, int)),
        (np.eye(2, dtype=np.float32), np.zeros(2, int)),
    ],
)
def test_data_that_say_nothing_about_the_width_still_get_one(Z, y):
    width = choose_width(Z, y, np.random.RandomState(0))
    assert np.isfinite(width)
    assert width > 0


# The map of a training set.


def test_given_anchors_are_in_the_coordinates_of_the_data():
    X = np.random.RandomState(0).standard_normal((30, 4)).astype(np.float32) + 3
    kernel = fit_kernel_map(X, np.zeros(30, int), 5, X[:5], 0.5, np.random.RandomState(0))
    np.testing.assert_allclose(np.diag(kernel(X[:5])), 1, atol=1e-4)
    np.testing.assert_allclose(kernel.mean, X.mean(axis=0, dtype=np.float64))


def test_more_anchors_than_rows_are_said():
    X = np.random.RandomState(0).standard_normal((6, 4)).astype(np.float32)
    with pytest.warns(UserWarning, match="10 anchors were asked for, but there are 6 rows"):
        kernel = fit_kernel_map(X, np.zeros(6, int), 10, "classes", 0.5, np.random.RandomState(0))
    assert kernel.n_features_out == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel_width": 0.0}, "number from 0.001 to 1000, got 0.0"),
        ({"kernel_width": np.nan}, "number from 0.001"),
        ({"kernel_width": "wide"}, "'auto' or a number, got 'wide'"),
        ({"anchors": "grid"}, "'classes', 'random' or an array, got 'grid'"),
        ({"anchors": np.zeros((3, 5))}, "with 4 columns like X, got shape \\(3, 5\\)"),
        ({"anchors": np.full((3, 4), np.nan)}, "must be finite"),
    ],
)
def test_parameters_that_make_no_kernel_are_refused(change, message):
    X = np.random.RandomState(0).standard_normal((20, 4)).astype(np.float32)
    arguments = {"anchors": "random", "kernel_width": 0.5} | change
    with pytest.raises(ValueError, match=message):
        fit_kernel_map(X, np.zeros(20, int), 5, rng=np.random.RandomState(0), **arguments)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_mean_is_exact_far_from_zero(dtype):
    X = (1e4 + np.random.RandomState(0).uniform(size=(2 * MAPPED_ROWS + 7, 6))).astype(dtype)
    for rows in (X, X[:, ::2], np.asfortranarray(X), X[:1]):
        np.testing.assert_allclose(mean_of_rows(rows), rows.astype(np.float64).mean(axis=0), rtol=1e-13)
