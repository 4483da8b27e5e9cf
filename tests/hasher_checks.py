"""One list of promises, kept by every hasher: `CHECKS`, functions of ``make`` and an empty folder.

``make(**params)`` gives a fresh, unfitted, small hasher with 12 bits (no multiple of 8) and a fixed
``random_state``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sihash import SIH
from sihash.evaluation import leave_one_out
from sihash.modelfile import ModelFileError

N_BITS = 12


def rows_and_labels(n=90, seed=0):
    """Three classes of whole numbers in six columns, apart but not trivially so."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % 3
    centres = np.array([[8, 0, 0, 4, 0, 0], [0, 8, 0, 0, 4, 0], [0, 0, 8, 0, 0, 4]])
    return centres[y] + rng.randint(-3, 4, (n, 6)), y


def needs_labels(hasher):
    return hasher.__sklearn_tags__().target_tags.required


def packed_shape_and_dtype(make, tmp_path):
    X, y = rows_and_labels()
    codes = make().fit(X, y).transform(X)
    assert codes.dtype == np.uint8
    assert codes.shape == (len(X), 2)
    assert codes.flags.c_contiguous


def any_number_of_bits(make, tmp_path):
    X, y = rows_and_labels()
    for n_bits, n_bytes in [(1, 1), (7, 1), (8, 1), (9, 2), (33, 5)]:
        hasher = make(n_bits=n_bits).fit(X, y)
        assert hasher.transform(X).shape == (len(X), n_bytes)
        assert hasher.decision_function(X).shape == (len(X), n_bits)


def bit_j_is_the_sign_of_score_j(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X, y)
    codes, scores = hasher.transform(X), hasher.decision_function(X)
    for j in range(N_BITS):
        np.testing.assert_array_equal((codes[:, j // 8] >> (j % 8)) & 1, scores[:, j] >= 0)
    assert not (codes[:, 1] >> (N_BITS % 8)).any(), "the unused high bits are zero"


def same_seed_same_codes(make, tmp_path):
    X, y = rows_and_labels()
    once, again = make(random_state=7).fit(X, y), make(random_state=7).fit(X, y)
    np.testing.assert_array_equal(once.transform(X), again.transform(X))
    np.testing.assert_array_equal(once.decision_function(X), again.decision_function(X))


def a_second_fit_forgets_the_first(make, tmp_path):
    X, y = rows_and_labels()
    other, other_y = rows_and_labels(60, seed=1)
    hasher = make().fit(other[:, :4], other_y).fit(X, y)
    np.testing.assert_array_equal(hasher.transform(X), make().fit(X, y).transform(X))


def the_global_generator_is_left_alone(make, tmp_path):
    X, y = rows_and_labels()
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    make().fit(X, y).transform(X)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def inputs_are_not_written(make, tmp_path):
    X, y = rows_and_labels()
    X = X.astype(np.float64)
    X.flags.writeable = y.flags.writeable = False
    make().fit(X, y).transform(X)


def save_and_load_give_identical_codes(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X, y)
    hasher.save(tmp_path / "model")
    loaded = type(hasher).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(X), hasher.transform(X))
    np.testing.assert_array_equal(loaded.decision_function(X), hasher.decision_function(X))
    assert loaded.get_params() == hasher.get_params()
    assert loaded.n_features_in_ == 6
    if hasattr(hasher, "classes_"):
        np.testing.assert_array_equal(loaded.classes_, hasher.classes_)


def a_generator_as_seed_does_not_prevent_saving(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make(random_state=np.random.RandomState(3)).fit(X, y)
    hasher.save(tmp_path / "model")
    np.testing.assert_array_equal(type(hasher).load(tmp_path / "model").transform(X), hasher.transform(X))


def a_damaged_file_is_refused(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X, y)
    path = tmp_path / "model"
    hasher.save(path)
    whole = path.read_bytes()
    rng = np.random.RandomState(0)
    for length in [0, 7, 8, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            type(hasher).load(path)
    for place in rng.randint(0, len(whole), 100):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randint(8)
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            type(hasher).load(path)


def a_file_of_another_class_is_refused_by_name(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X, y)
    hasher.save(tmp_path / "model")
    stranger = type("Stranger", (type(hasher),), {})
    with pytest.raises(ModelFileError, match=type(hasher).__name__):
        stranger.load(tmp_path / "model")


def any_kind_of_matrix(make, tmp_path):
    """Whole numbers are taken as float32; how a matrix lies in memory makes no difference."""
    X, y = rows_and_labels()
    X32 = X.astype(np.float32)
    strided = np.zeros((len(X), 12), dtype=np.float32)
    strided[:, ::2] = X
    kinds = {
        "int64": X,
        "int8": X.astype(np.int8),
        "list": X.tolist(),
        "dataframe": pd.DataFrame(X, columns=list("abcdef")),
        "dataframe of float32": pd.DataFrame(X32, columns=list("abcdef")),
        "Fortran order": np.asfortranarray(X32),
        "strided": strided[:, ::2],
    }
    expected = make().fit(X32, y).transform(X32)
    for name, kind in kinds.items():
        np.testing.assert_array_equal(make().fit(kind, y).transform(kind), expected, err_msg=name)


def float32_and_float64_agree(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X.astype(np.float32), y)
    scores = {dtype: hasher.decision_function(X.astype(dtype)) for dtype in (np.float32, np.float64)}
    for dtype, values in scores.items():
        assert values.dtype == dtype
    scale = np.abs(scores[np.float64]).max()
    close = np.isclose(scores[np.float32], scores[np.float64], atol=1e-3 * scale)
    assert close.mean() > 0.99, "a tree may send a row at its threshold the other way, but few"


def one_row_at_a_time_equals_all_at_once(make, tmp_path):
    X, y = rows_and_labels()
    X = X.astype(np.float64)
    hasher = make().fit(X, y)
    np.testing.assert_allclose(
        np.vstack([hasher.decision_function(x[None]) for x in X]), hasher.decision_function(X), atol=1e-7
    )


def missing_and_infinite_values_are_refused(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X, y)
    for bad in (np.nan, np.inf):
        spoilt = X.astype(np.float64)
        spoilt[3, 2] = bad
        for call in (lambda s: make().fit(s, y), hasher.transform, hasher.decision_function):
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                call(spoilt)


def an_unfitted_hasher_says_so(make, tmp_path):
    X, _ = rows_and_labels()
    hasher = make()
    for call in (
        lambda: hasher.transform(X),
        lambda: hasher.decision_function(X),
        lambda: hasher.get_feature_names_out(),
        lambda: hasher.save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError):
            call()
    assert not (tmp_path / "model").exists()


def another_number_of_columns_is_refused(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X, y)
    with pytest.raises(ValueError, match=r"5 features.*6 features"):
        hasher.transform(X[:, :5])


def other_column_names_are_refused_also_after_loading(make, tmp_path):
    X, y = rows_and_labels()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    hasher = make().fit(frame, y)
    hasher.save(tmp_path / "model")
    for h in (hasher, type(hasher).load(tmp_path / "model")):
        with pytest.raises(ValueError, match="feature names"):
            h.transform(frame[list("bacdef")])


def no_rows_are_refused(make, tmp_path):
    X, y = rows_and_labels()
    with pytest.raises(ValueError, match="0 sample"):
        make().fit(X[:0], y[:0])


def a_senseless_number_of_bits_is_refused(make, tmp_path):
    X, y = rows_and_labels()
    for bad in (0, -8, 2.5, "many", True):
        with pytest.raises(ValueError, match="n_bits"):
            make(n_bits=bad).fit(X, y)


def set_output_names_the_bits(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X, y)
    frame = hasher.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == ["bits0_7", "bits8_11"]
    assert list(frame.columns) == list(hasher.get_feature_names_out())
    np.testing.assert_array_equal(frame.to_numpy(), make().fit(X, y).transform(X))


def clone_keeps_parameters_and_nothing_learnt(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X, y)
    twin = clone(hasher)
    assert twin.get_params() == hasher.get_params()
    with pytest.raises(NotFittedError):
        twin.transform(X)


def works_in_a_pipeline(make, tmp_path):
    X, y = rows_and_labels()
    codes = make_pipeline(StandardScaler(), make()).fit(X, y).transform(X)
    assert codes.shape == (len(X), 2)


def labels_of_any_hashable_kind(make, tmp_path):
    X, y = rows_and_labels()
    expected = make().fit(X, y).transform(X)
    kinds = {
        "strings": np.array(["ape", "bee", "cat"])[y],
        "list of strings": [["ape", "bee", "cat"][k] for k in y],
        "series": pd.Series(y).map({0: "ape", 1: "bee", 2: "cat"}),
        "floats": y / 2,
        "tuples": [(0, int(k)) for k in y],
        "mixed": [[1, "1", (1,)][k] for k in y],
    }
    for name, kind in kinds.items():
        hasher = make().fit(X, kind)
        np.testing.assert_array_equal(hasher.transform(X), expected, err_msg=name)
        hasher.save(tmp_path / "model")
        loaded = type(hasher).load(tmp_path / "model")
        if hasattr(hasher, "classes_"):
            assert list(loaded.classes_) == list(hasher.classes_), name


def labels_are_asked_for_and_checked(make, tmp_path):
    X, y = rows_and_labels()
    if not needs_labels(make()):
        make().fit(X)
        return
    with pytest.raises(ValueError, match="requires y"):
        make().fit(X, None)
    with pytest.raises(ValueError, match="89 labels for 90 rows"):
        make().fit(X, y[:-1])
    with pytest.raises(ValueError, match="infinity"):
        make().fit(X, np.where(y == 0, np.inf, y))
    if not isinstance(make(), SIH):  # to which NaN means that a row is not labelled
        with pytest.raises(ValueError, match="NaN"):
            make().fit(X, np.where(y == 0, np.nan, y))


def rows_without_direction_have_finite_scores(make, tmp_path):
    X, y = rows_and_labels()
    hasher = make().fit(X, y)
    mean = X.mean(axis=0)[None]
    assert np.isfinite(hasher.decision_function(np.vstack([mean, 0 * mean, 1e6 * mean]))).all()


def codes_of_one_class_are_close(make, tmp_path):
    X, y = rows_and_labels()
    fresh, fresh_y = rows_and_labels(seed=5)
    mAP = leave_one_out(make().fit(X, y).transform(fresh), fresh_y).mAP
    assert mAP > (0.9 if needs_labels(make()) else 0.6)


CHECKS = [
    packed_shape_and_dtype,
    any_number_of_bits,
    bit_j_is_the_sign_of_score_j,
    same_seed_same_codes,
    a_second_fit_forgets_the_first,
    the_global_generator_is_left_alone,
    inputs_are_not_written,
    save_and_load_give_identical_codes,
    a_generator_as_seed_does_not_prevent_saving,
    a_damaged_file_is_refused,
    a_file_of_another_class_is_refused_by_name,
    any_kind_of_matrix,
    float32_and_float64_agree,
    one_row_at_a_time_equals_all_at_once,
    missing_and_infinite_values_are_refused,
    an_unfitted_hasher_says_so,
    another_number_of_columns_is_refused,
    other_column_names_are_refused_also_after_loading,
    no_rows_are_refused,
    a_senseless_number_of_bits_is_refused,
    set_output_names_the_bits,
    clone_keeps_parameters_and_nothing_learnt,
    works_in_a_pipeline,
    labels_of_any_hashable_kind,
    labels_are_asked_for_and_checked,
    rows_without_direction_have_finite_scores,
    codes_of_one_class_are_close,
]
