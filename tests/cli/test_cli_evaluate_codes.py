"""`sihash evaluate` of codes: data on stdout, talk on stderr, exit codes to rely on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sihash.cli import app
from sihash.datasets import load
from sihash.evaluation import against_database, leave_one_out


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    monkeypatch.delenv("SIHASH_DATA", raising=False)


@pytest.fixture
def run():
    """Run a command; its exit code, its parsed or plain stdout, its stderr."""

    def run(*arguments):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        stdout = json.loads(result.stdout) if "--json" in arguments and result.stdout else result.stdout
        return result.exit_code, stdout, result.stderr

    return run


class TestEvaluate:
    @pytest.fixture
    def coded(self):
        rng = np.random.default_rng(0)
        return rng.integers(0, 256, (60, 2), dtype=np.uint8), rng.integers(0, 3, 60)

    def test_leave_one_out(self, run, tmp_path, coded):
        np.savez(tmp_path / "c.npz", codes=coded[0], labels=coded[1])
        code, result, _ = run("evaluate", tmp_path / "c.npz", "-k", "5", "-k", "10", "--json")
        expected = leave_one_out(*coded, k=[5, 10])
        assert code == 0
        assert result["protocol"] == "leave one out"
        assert result["mAP"] == expected.mAP
        assert result["mAP_at"] == {"5": expected.mAP_at[5], "10": expected.mAP_at[10]}
        assert result["precision"] == expected.precision.tolist()
        assert f"mAP {expected.mAP:.4f}" in run("evaluate", tmp_path / "c.npz", "-k", "5")[1]

    def test_database(self, run, tmp_path, coded):
        codes, labels = coded
        np.savez(tmp_path / "q.npz", codes=codes[:10], labels=labels[:10])
        np.savez(tmp_path / "d.npz", codes=codes[10:], labels=labels[10:])
        code, result, _ = run("evaluate", tmp_path / "q.npz", "--database", tmp_path / "d.npz", "--json")
        assert code == 0
        assert result["mAP"] == against_database(codes[:10], labels[:10], codes[10:], labels[10:]).mAP

    def test_a_mean_over_nothing_is_null(self, run, tmp_path):
        np.savez(tmp_path / "c.npz", codes=np.zeros((2, 1), np.uint8), labels=[1, 2])
        code, result, _ = run("evaluate", tmp_path / "c.npz", "--json")
        assert (code, result["mAP"], result["n_left_out"]) == (0, None, 2)

    def test_with_a_model(self, run, tmp_path):
        baselines = pytest.importorskip("sihash.research.baselines")
        data = load("digits", "pixels")
        hasher = baselines.CCAITQ(n_bits=12, random_state=0).fit(data.X_train, data.y_train)
        hasher.save(tmp_path / "model")
        arguments = ["evaluate", "digits", "--model", tmp_path / "model", "--features", "pixels", "--json"]
        code, result, _ = run(*arguments)
        codes = hasher.transform(data.X_test)
        assert (code, result["mAP"]) == (0, leave_one_out(codes, data.y_test).mAP)
        code, result, _ = run(*arguments, "--against-train")
        database = hasher.transform(data.X_train)
        expected = against_database(codes, data.y_test, database, data.y_train)
        assert (code, result["mAP"], result["n_database"]) == (0, expected.mAP, 1438)

    def test_ranks_beyond_all_items(self, run, tmp_path, coded):
        np.savez(tmp_path / "c.npz", codes=coded[0], labels=coded[1])
        rank = "99999999999999999999"
        code, result, _ = run("evaluate", tmp_path / "c.npz", "-k", rank, "-k", "1000", "--json")
        assert (code, result["mAP_at"][rank]) == (0, result["mAP_at"]["1000"])

    def test_a_model_takes_vectors(self, run, tmp_path):
        code, stdout, stderr = run("evaluate", "digits", "--model", tmp_path / "model")
        assert (code, stdout) == (1, "")
        assert "digits holds images, and vectors are needed; choose --features" in stderr

    def test_errors(self, run, tmp_path, coded):
        (tmp_path / "words.npz").write_text("words")
        np.savez(tmp_path / "c.npz", codes=coded[0], labels=coded[1])
        (tmp_path / "short.npz").write_bytes((tmp_path / "c.npz").read_bytes()[:-30])
        for name, n_bits in [("few", -1), ("many", 17), ("text", "x"), ("two", [8, 8])]:
            np.savez(tmp_path / f"{name}.npz", codes=coded[0], labels=coded[1], n_bits=n_bits)
        np.savez(tmp_path / "other.npz", Z=[1])
        np.savez(tmp_path / "floats.npz", codes=np.ones((3, 2)), labels=[1, 2, 3])
        for name, message in [
            ("words.npz", "is not an .npz file"),
            ("other.npz", "holds Z; expected arrays codes and labels"),
            ("floats.npz", "packed uint8"),
            ("missing.npz", "There is no database and no file of codes"),
            ("", "a data set needs --model"),
            ("short.npz", "is not an .npz file"),
            ("few.npz", "Codes of 2 bytes hold 1 to 16 bits, got n_bits=-1."),
            ("many.npz", "Codes of 2 bytes hold 1 to 16 bits, got n_bits=17."),
            ("text.npz", "n_bits must be one whole number"),
            ("two.npz", "n_bits must be one whole number"),
        ]:
            code, stdout, stderr = run("evaluate", tmp_path / name)
            assert (code, stdout) == (1, ""), name
            assert message in stderr
