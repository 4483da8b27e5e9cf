"""`sihash data`, `extract` and `evaluate`: data on stdout, talk on stderr, exit codes to rely on."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pytest
from PIL import Image
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


@pytest.fixture
def folder(tmp_path):
    """Two classes of three pictures, one of them no picture."""
    rng = np.random.default_rng(0)
    for i in range(6):
        path = tmp_path / "pictures" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(buffer, "PNG")
        path.write_bytes(buffer.getvalue() if i != 4 else b"no picture")
    return tmp_path / "pictures"


class TestData:
    def test_list(self, run):
        code, rows, _ = run("data", "list", "--json")
        assert code == 0
        assert [row["name"] for row in rows] == ["cifar10", "mnist", "nuswide", "digits"]
        assert [row["found"] for row in rows] == [False, False, False, True]
        assert "digits" in run("data", "list")[1]

    def test_info(self, run, folder):
        code, facts, _ = run("data", "info", folder, "--json")
        assert code == 3
        assert facts["classes"] == {"a": 2, "b": 3}
        assert facts["n_rejects"] == 1
        assert "a/4.png: not a picture" in facts["rejects"][0]
        assert run("data", "info", "digits")[0] == 0

    def test_info_of_vectors(self, run, tmp_path):
        np.savez(tmp_path / "v.npz", X=np.ones((3, 2)), y=[1, 1, 2])
        code, facts, _ = run("data", "info", tmp_path / "v.npz", "--json")
        assert (code, facts["shape"], facts["classes"]) == (0, [2], {"1": 2, "2": 1})

    def test_fetch(self, run):
        assert run("data", "fetch", "digits", "--json") == (0, {"name": "digits", "place": "built in"}, "")
        code, stdout, stderr = run("data", "fetch", "nuswide")
        assert (code, stdout) == (1, "")
        assert stderr.startswith("Error: nuswide was found neither")

    def test_errors_are_one_sentence_on_stderr(self, run, tmp_path):
        code, stdout, stderr = run("data", "info", tmp_path / "nothing", "--json")
        assert (code, stdout) == (1, "")
        assert stderr.startswith("Error: There is nothing at")
        assert stderr.count("\n") == 1

    def test_a_wrong_command_line_is_2(self, run):
        assert run("data", "info")[0] == 2
        assert run("extract", "digits")[0] == 2


class TestExtract:
    def test_two_parts(self, run, tmp_path):
        out = tmp_path / "v.npz"
        code, facts, _ = run("extract", "digits", "-o", out, "--features", "pixels", "--json")
        assert code == 0
        assert facts["output"] == str(out)
        again, direct = load(out), load("digits", "pixels")
        assert np.array_equal(again.X_test, direct.X_test)
        assert np.array_equal(again.y_train, direct.y_train)
        assert again.class_names == direct.class_names
        assert [p.name for p in tmp_path.glob("v.npz*")] == ["v.npz"]

    def test_rejects_are_listed_and_the_code_is_3(self, run, tmp_path, folder):
        out = tmp_path / "v.npz"
        code, facts, stderr = run("extract", folder, "-o", out, "--features", "gist", "--json")
        assert code == 3
        assert facts["n_train"] == 5
        assert "1 files were rejected" in stderr
        lines = (tmp_path / "v.npz.rejects.jsonl").read_text().splitlines()
        assert json.loads(lines[0])["name"] == "a/4.png"
        assert load(out).X_train.shape == (5, 512)
        assert run("extract", folder, "-o", out, "--allow-rejects")[0] == 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--features", "sift"], "Unknown features"),
            (["--features", "none"], "holds images"),
            (
                ["--features", "gist", "--mean", "1,2,3"],
                "Wrong option for the features 'gist': mean; they have size.",
            ),
            (["--features", "onnx:"], "Expected an ONNX file after the colon"),
        ],
    )
    def test_errors(self, run, tmp_path, folder, options, message):
        code, stdout, stderr = run("extract", folder, "-o", tmp_path / "v.npz", *options)
        assert (code, stdout) == (1, "")
        assert message in stderr
        assert not (tmp_path / "v.npz").exists()

    @pytest.mark.parametrize("size", ["0", "-3"])
    def test_sizes_start_at_one(self, run, tmp_path, folder, size):
        assert (
            run("extract", folder, "-o", tmp_path / "v.npz", "--features", "pixels", "--size", size)[0] == 2
        )

    def test_places_that_cannot_be_written_to(self, run, tmp_path, folder):
        """Named as the user named them, and nothing is left behind."""
        (tmp_path / "v.npz").mkdir()
        missing = tmp_path / "no" / "v.npz"
        for place, message in [
            (tmp_path / "v.npz", "is a folder; name a file to write to."),
            (missing, "could not be written: No such file or directory."),
        ]:
            assert run("extract", folder, "-o", place) == (1, "", f"Error: {place} {message}\n")
        assert not [p.name for p in tmp_path.iterdir() if p.name not in ("cache", "pictures", "v.npz")]

    def test_permissions_follow_the_umask(self, run, tmp_path, folder):
        before = os.umask(0o027)
        try:
            run("extract", folder, "-o", tmp_path / "v.npz")
        finally:
            os.umask(before)
        assert (tmp_path / "v.npz").stat().st_mode & 0o777 == 0o640


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
        baselines = pytest.importorskip("sihash.baselines")
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
