"""SIH from labelled vectors to hash functions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from made_data import blobs
from threadpoolctl import threadpool_limits

from sihash import SIH, modelfile
from sihash.evaluation import leave_one_out
from sihash.hashing.training import Training
from sihash.hashing.words import first_words
from sihash.modelfile import ModelFileError
from sihash.svm import smooth


def small(**params):
    return SIH(**{"n_bits": 12, "n_anchors": 40, "random_state": 0, **params})


# Learning.


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
def test_codes_retrieve_their_class(solver):
    X, y = blobs(600)
    hasher = small(solver=solver).fit(X[:400], y[:400])
    assert leave_one_out(hasher.transform(X[400:]), y[400:]).mAP > 0.8
    assert (hasher.predict(X[400:]) == y[400:]).mean() > 0.8


def test_every_bit_is_solved():
    X, y = blobs(500)
    hasher = small(tol=1e-5).fit(X, y)
    # Four classes can be split in seven ways; the other five of twelve bits repeat some of them.
    assert hasher.report_.rounds[0].bits_trained == 7
    assert not hasher.report_.gaps_are_proved
    assert "estimated gap" in str(hasher.report_)
    proved = hasher.certify(0.01)
    assert np.all(proved.lower <= proved.upper)
    assert np.all(proved.upper - proved.lower <= 0.01 * proved.upper + 1e-3 * hasher.training_.svms.at_zero)
    np.testing.assert_allclose(proved.upper.sum(), hasher.objective_.binary)


def test_ocas_reports_what_it_proved():
    X, y = blobs(300)
    report = small(solver="ocas", tol=0.01).fit(X, y).report_
    assert report.gaps_are_proved
    assert "proved gap" in str(report)
    assert report.max_gap <= 0.01


def test_objective_is_eq_1_computed_the_slow_way():
    X, y = blobs(300)
    hasher = small(codebook="separated", lam=50.0, gamma=3.0, C_b=0.05).fit(X, y)
    B, W, V = hasher.codes_.astype(float), hasher.training_.svms.W, hasher.class_coef_
    Phi = hasher.kernel_(X).astype(float)
    binary = 0.5 * np.sum(W**2) + hasher.C_x * np.maximum(0, 1 - B * (Phi @ W.T)).sum()
    T = B @ V[:, :-1].T + V[:, -1]
    losses = T - T[np.arange(len(y)), y][:, None] + (np.arange(4) != y[:, None])
    multiclass = 50.0 * (0.5 * np.sum(V**2) + 0.05 * losses.max(axis=1).sum())
    balance = 3.0 * np.abs(B.sum(axis=0)).sum()
    assert hasher.objective_.binary == pytest.approx(binary, rel=1e-4)
    assert hasher.objective_.multiclass == pytest.approx(multiclass, rel=1e-9)
    assert hasher.objective_.balance == pytest.approx(balance)
    assert hasher.objective_.total == pytest.approx(binary + multiclass + balance, rel=1e-4)


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
@pytest.mark.parametrize("seed", range(3))
def test_eq_1_never_rises_within_a_phase(solver, seed, monkeypatch):
    """Small λ and γ, so that codes move for several rounds; eq. 1 is taken before and after every phase."""
    X, y = blobs(240, seed=seed, spread=1.6)
    seen = []
    import sihash.hashing.training as module

    def watched(name, function):
        def call(*args, **kwargs):
            if training[0].class_svm is not None:
                seen.append((f"before {name}", training[0].objective().total))
            result = function(*args, **kwargs)
            if name != "solve_multiclass" and training[0].class_svm is not None:
                seen.append((f"after {name}", training[0].objective().total))
            return result

        return call

    training: list[Training] = []
    run = Training._run
    monkeypatch.setattr(Training, "_run", lambda self: (training.append(self), run(self))[1])
    monkeypatch.setattr(module, "start", lambda work: lambda done=work(): done)  # one phase after the other
    for name in ("solve_svms", "solve_multiclass", "descend"):
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    hasher = small(solver=solver, codebook="random", lam=300.0, gamma=0.5, C_x=1.0, C_b=0.01).fit(X, y)
    assert hasher.n_iter_ > 1
    assert sum(int(r.n_flips.sum()) for r in hasher.report_.rounds) > 0
    values = [value for _, value in seen]
    assert len(values) > 6
    assert all(late <= early * (1 + 1e-6) for early, late in pairwise(values)), seen


def test_a_bit_whose_column_stayed_is_not_trained_again():
    X, y = blobs(240, spread=1.6)
    hasher = small(codebook="random", lam=300.0, gamma=0.5, C_x=1.0, C_b=0.01).fit(X, y)
    for before, after in zip(hasher.report_.rounds, hasher.report_.rounds[1:], strict=False):
        assert not after.n_steps[before.n_flips == 0].any()


def test_with_the_papers_parameters_codes_stay_at_the_words():
    X, y = blobs(300)
    words = first_words("separated", 12, np.bincount(y), True, np.random.RandomState(0))  # given: may move
    hasher = small(codebook=words, lam=None, gamma=1e5, C_x=16.0, C_b=1e-3).fit(X, y)
    assert hasher.n_iter_ == 1
    for k in range(4):
        assert len(np.unique(hasher.codes_[y == k], axis=0)) == 1


def test_codes_stand_in_the_order_of_the_rows():
    X, y = blobs(200)
    hasher = small().fit(X, y, ids=[f"image {i}" for i in range(200)])
    words = {k: hasher.codes_[list(y).index(k)] for k in range(4)}
    np.testing.assert_array_equal(hasher.codes_, [words[k] for k in y])
    assert hasher.ids_[17] == "image 17"


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
def test_threads_change_nothing(solver):
    X, y = blobs(5000)
    results = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            results.append(small(kernel_width=0.7, solver=solver).fit(X, y).transform(X))
    differing = np.unpackbits(results[0] ^ results[1]).sum() / (len(X) * 12)
    assert differing < 0.001


def test_solvers_agree():
    X, y = blobs(800)
    # Wide enough that the classes overlap: the smoothed solver's gap is one of C n, not of a tiny objective.
    smooth = small(solver="smooth", tol=1e-5, kernel_width=2.2).fit(X, y)
    ocas = small(solver="ocas", tol=1e-3, kernel_width=2.2).fit(X, y)
    assert smooth.objective_.binary == pytest.approx(ocas.objective_.binary, rel=2e-3)
    assert np.unpackbits(smooth.transform(X) ^ ocas.transform(X)).mean() < 0.01


def test_more_anchors_tell_apart_classes_of_several_clusters():
    X, clusters = blobs(1500, n_classes=16, spread=0.9)
    y = clusters % 4
    scores = [
        leave_one_out(small(n_anchors=n).fit(X[:1000], y[:1000]).transform(X[1000:]), y[1000:]).mAP
        for n in (5, 80)
    ]
    assert scores[1] > scores[0]


# The second stage.


def test_probabilities_are_calibrated():
    X, y = blobs(4000, spread=2.0)
    hasher = small(n_bits=16).fit(X[:3000], y[:3000])
    P = hasher.predict_proba(X[3000:])
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    confidence, hit = P.max(axis=1), P.argmax(axis=1) == y[3000:]
    assert abs(confidence.mean() - hit.mean()) < 0.06
    order = np.argsort(confidence, kind="stable")
    assert hit[order[-300:]].mean() > hit[order[:300]].mean()


def test_prediction_is_what_the_class_model_says():
    X, y = blobs(300)
    hasher = small().fit(X, y)
    P = np.exp(hasher.functions_.class_log_proba(X, hasher.decision_function(X)))
    np.testing.assert_allclose(P, hasher.predict_proba(X), rtol=1e-5)
    np.testing.assert_array_equal(hasher.predict(X), hasher.classes_[P.argmax(axis=1)])


# Input of every kind.


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_scale_of_the_data_does_not_matter(scale):
    X, y = blobs(300)
    plain, scaled = small().fit(X, y), small().fit(X.astype(float) * scale, y)
    assert np.unpackbits(plain.transform(X) ^ scaled.transform(X.astype(float) * scale)).mean() < 0.01


def test_numbers_beyond_float32_are_refused():
    with pytest.raises(ValueError, match="range of float32"):
        small().fit(np.array([[1e300, 0.0], [0.0, 1.0]]), [0, 1])


@pytest.mark.parametrize(("scale", "offset"), [(1, 1e8), (1e-60, 0)])
def test_differences_that_float32_loses_are_refused(scale, offset):
    X, y = blobs(300)
    with pytest.raises(ValueError, match="lost in float32"):
        small().fit(scale * X.astype(float) + offset, y)
    same = np.full((4, 3), 0.1)  # there is nothing to lose
    small().fit(same, [0, 1, 0, 1])


def test_few_rows_a_class_are_told_apart():
    rng = np.random.RandomState(0)
    centres, y = rng.normal(size=(50, 12)), np.repeat(np.arange(50), 2)
    X = (centres[y] + 0.2 * rng.normal(size=(100, 12))).astype(np.float32)
    assert (SIH(n_anchors=100, random_state=0).fit(X, y).predict(X) == y).mean() > 0.9


def test_a_vector_that_most_rows_are_does_not_set_the_width():
    rng = np.random.RandomState(5)
    centres, y = rng.normal(size=(4, 12)), rng.randint(3, size=150)
    few = centres[y] + 0.35 * rng.normal(size=(150, 12))
    X = np.vstack([np.tile(centres[3], (1350, 1)), few]).astype(np.float32)
    hasher = SIH(n_bits=8, n_anchors=200, random_state=0).fit(X, np.r_[np.full(1350, 3), y])
    assert hasher.kernel_.width > 0.05
    assert (hasher.predict(few.astype(np.float32)) == y).mean() > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused(dtype, bad):
    X, y = blobs(300)
    hasher = small().fit(X, y)
    spoilt = X.astype(dtype)
    spoilt[250, 3] = bad
    for learn in (hasher.fit, hasher.add):
        with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
            learn(spoilt, y)
    assert len(hasher.ids_) == 300


def test_one_class_is_refused():
    with pytest.raises(ValueError, match=r"at least two classes, got 1 class"):
        small().fit(np.eye(4), [1, 1, 1, 1])


@pytest.mark.parametrize("y", [[0] * 10, [0, 1] * 4, [0, None] * 5])
def test_a_refused_fit_leaves_the_hasher_as_it_was(y):
    X, labels = blobs(100)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    hasher = small().fit(frame, labels)
    codes = hasher.transform(frame)
    with pytest.raises(ValueError, match=r"class|labels|no label"):
        hasher.fit(np.eye(10)[:, :3], y)
    assert hasher.n_features_in_ == 6
    np.testing.assert_array_equal(hasher.transform(frame), codes)
    assert not hasattr(hasher.fit(X[:, :3], labels), "feature_names_in_")
    assert hasher.n_features_in_ == 3


def test_a_class_of_one_row_is_learned():
    X, y = blobs(100)
    y = y.copy()
    y[0] = 7
    assert 7 in small().fit(X, y).classes_


def test_fewer_rows_than_anchors_warns_and_works():
    X, y = blobs(30)
    with pytest.warns(UserWarning, match="40 anchors were asked for, but there are 30 rows"):
        hasher = small().fit(X, y)
    assert len(hasher.kernel_.anchors) == 30


def test_mixed_labels_stay_apart():
    X, _ = blobs(60)
    y = [1, "1", (2, "b")] * 20
    hasher = small().fit(X, y)
    assert set(hasher.classes_.tolist()) == {1, "1", (2, "b")}


def test_dataframes_and_whole_numbers():
    X, y = blobs(100)
    whole = np.round(10 * X).astype(int)
    frame = pd.DataFrame(whole, columns=list("abcdef"))
    hasher = small().fit(frame, pd.Series(y))
    np.testing.assert_array_equal(hasher.transform(frame), small().fit(whole, y).transform(whole))


def test_given_anchors_and_words():
    X, y = blobs(100)
    words = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [-1, 1, -1, 1], [-1, -1, -1, -1]])
    hasher = SIH(n_bits=4, anchors=X[:7], kernel="rbf", codebook=words, random_state=0).fit(X, y)
    assert hasher.bit_coef_.shape == (4, 8)
    np.testing.assert_array_equal(hasher.codes_, words[y])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_bits": 0}, "n_bits must be a whole number"),
        ({"C_x": -1.0}, "C_x must be positive"),
        ({"tol": 0}, "tol must be at least 1e-09 and below 1"),
        ({"tol": 5}, "tol must be at least 1e-09 and below 1"),
        ({"n_bits": 10**8}, "n_bits must be at most 4096"),
        ({"kernel_width": 1e-30}, "kernel_width must be"),
        ({"codebook": np.ones((4, 12))}, "every class the same word"),
        ({"C_x": np.inf}, "C_x must be positive and finite"),
        ({"gamma": -1}, "gamma must be finite and not negative"),
        ({"lam": np.nan}, "lam must be finite and not negative"),
        ({"solver": "liblinear"}, "solver must be"),
        ({"anchors": "first"}, "anchors must be"),
        ({"anchors": np.ones((3, 2))}, "6 columns like X"),
        ({"kernel_width": 0.0}, "kernel_width must be"),
        ({"kernel_width": "wide"}, "kernel_width must be"),
        ({"codebook": "best"}, "codebook must be one of"),
    ],
)
def test_senseless_parameters_are_refused(params, message):
    X, y = blobs(60)
    with pytest.raises(ValueError, match=message):
        small(**params).fit(X, y)


# Files.


def test_saved_hash_functions_alone(tmp_path):
    X, y = blobs(300)
    hasher = small().fit(X, y)
    hasher.save(tmp_path / "all.sih")
    hasher.save(tmp_path / "hash.sih", updatable=False)
    assert (tmp_path / "hash.sih").stat().st_size < 0.5 * (tmp_path / "all.sih").stat().st_size
    loaded = SIH.load(tmp_path / "hash.sih")
    np.testing.assert_array_equal(loaded.transform(X), hasher.transform(X))
    np.testing.assert_allclose(loaded.predict_proba(X), hasher.predict_proba(X))
    assert loaded.objective_ == hasher.objective_
    with pytest.raises(ValueError, match="without training rows"):
        loaded.add(X[:3], y[:3])


def test_parameters_that_were_set_for_a_later_fit_do_not_spoil_a_file(tmp_path):
    X, y = blobs(300)
    hasher = small().fit(X, y).set_params(n_bits=40)
    hasher.save(tmp_path / "m")
    loaded = SIH.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.transform(X), hasher.transform(X))
    assert loaded.remove([0]).codes_.shape == (299, 12)
    assert loaded.fit(X, y).codes_.shape == (300, 40)


@pytest.mark.parametrize(
    "name", ["mean", "bit_coef", "class_coef", "class.sums", "class.axes", "class.words", "anchors"]
)
def test_a_made_file_whose_tensors_do_not_fit_is_refused(tmp_path, name):
    X, y = blobs(100)
    small().fit(X, y).save(tmp_path / "m", updatable=False)
    header, tensors = modelfile.read(tmp_path / "m")
    modelfile.write(tmp_path / "m", header, {**tensors, name: tensors[name][..., :1]})
    with pytest.raises(ValueError, match=r"shape"):
        SIH.load(tmp_path / "m")


def test_a_made_file_that_lacks_something_is_refused(tmp_path):
    X, y = blobs(60)
    small().fit(X, y).save(tmp_path / "m")
    header, tensors = modelfile.read(tmp_path / "m")
    lacking = [({**header, "objective": {}}, tensors)]
    # Vectors come later; the Gram matrix and sums over rows can be had again.
    may_lack = {"rows.X", "made_of", *(f"machines.{name}" for name in ("gram", *smooth._SUMS))}
    lacking += [
        (header, {k: v for k, v in tensors.items() if k != name}) for name in tensors if name not in may_lack
    ]
    for some_header, some_tensors in lacking:
        modelfile.write(tmp_path / "less", some_header, some_tensors)
        with pytest.raises(ModelFileError, match="lacks"):
            SIH.load(tmp_path / "less")


def test_labels_of_any_storable_kind_survive_a_file(tmp_path):
    X, _ = blobs(60)
    y = [("a", 1), "b", 3] * 20
    small().fit(X, y).save(tmp_path / "m")
    assert SIH.load(tmp_path / "m").classes_.tolist() == small().fit(X, y).classes_.tolist()


def test_labels_that_no_file_can_hold_are_named(tmp_path):
    X, _ = blobs(60)
    y = [b"one", b"two"] * 30
    hasher = small().fit(X, y)
    with pytest.raises(TypeError, match="bytes"):
        hasher.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_truncated_file_is_refused(tmp_path):
    X, y = blobs(60)
    small().fit(X, y).save(tmp_path / "m")
    (tmp_path / "m").write_bytes((tmp_path / "m").read_bytes()[:-1])
    with pytest.raises(ModelFileError, match="cut short or altered"):
        SIH.load(tmp_path / "m")


# What scikit-learn's users expect.


def test_score_is_the_accuracy_of_predict():
    from sklearn.metrics import accuracy_score
    from sklearn.model_selection import cross_val_score

    X, y = blobs(300)
    hasher = small().fit(X[:200], y[:200])
    weights = np.linspace(0, 1, 100)
    assert hasher.score(X[200:], y[200:]) == accuracy_score(y[200:], hasher.predict(X[200:]))
    assert hasher.score(X[200:], y[200:], weights) == pytest.approx(
        accuracy_score(y[200:], hasher.predict(X[200:]), sample_weight=weights)
    )
    assert cross_val_score(small(), X, y, cv=2).shape == (2,)


def test_verbose_logs_each_step_and_changes_nothing(caplog):
    X, y = blobs(200)
    with caplog.at_level("INFO", logger="sihash"):
        quiet = small().fit(X, y)
        assert caplog.text == ""
        told = small(verbose=True).fit(X, y)
    lines = [record.getMessage() for record in caplog.records]
    assert "fit: kernel" in lines
    assert "fit: round 1, binary SVMs" in lines
    np.testing.assert_array_equal(quiet.transform(X), told.transform(X))


def test_a_class_given_alone_is_removed():
    X, y = blobs(200)
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    hasher = small().fit(X, names).remove_classes("dog")
    assert hasher.classes_.tolist() == ["ant", "bee", "cat"]


def test_hash_functions_of_a_file_do_what_the_hasher_does(tmp_path):
    from sihash.hashing.hash_functions import HashFunctions

    X, y = blobs(200)
    hasher = small().fit(X, y)
    for k, updatable in enumerate((True, False)):
        hasher.save(tmp_path / f"{k}", updatable=updatable)
        functions = HashFunctions.from_file(tmp_path / f"{k}")
        np.testing.assert_array_equal(functions.transform(X), hasher.transform(X))
        np.testing.assert_array_equal(functions.predict(X), hasher.predict(X))
        np.testing.assert_allclose(functions.predict_proba(X), hasher.predict_proba(X))
    with pytest.raises(ValueError, match="one row or more of"):
        functions.transform(X[:, :1])
    with pytest.raises(ValueError, match="NaN"):
        functions.transform(np.full_like(X, np.nan))
