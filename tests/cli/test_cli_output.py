"""What is common to all verbs: whatever goes wrong is told in one sentence, warnings too."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from sihash.cli import app
from sihash.cli.output import errors_as_sentences
from sihash.database import Database


def told(work):
    """What a verb that does ``work`` says on stderr, and its exit code."""
    verb = typer.Typer()
    verb.command()(errors_as_sentences()(work))
    result = CliRunner().invoke(verb, [])
    return result.exit_code, result.stderr


def raises(error):
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("Expected a, got b."), "Expected a, got b."),
        (
            FileNotFoundError(2, "No such file or directory", "/nowhere"),
            "/nowhere: No such file or directory.",
        ),
        (OSError(28, "No space left on device"), "No space left on device."),
        (OSError("There is nothing."), "There is nothing."),
        (MemoryError(), "Not enough memory"),
        (OverflowError("int too large"), "One of the numbers given is too large: int too large."),
    ],
)
def test_errors(error, sentence):
    code, stderr = told(raises(error))
    assert code == 1
    assert stderr.startswith(f"Error: {sentence}")
    assert stderr.count("\n") == 1


def test_warnings_are_sentences_without_a_place_in_the_code():
    assert told(lambda: warnings.warn("There are few.", stacklevel=1)) == (0, "Note: There are few.\n")


def test_too_few_rows_for_the_anchors(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    np.savez(tmp_path / "v.npz", X=X, y=np.repeat([0, 1], 20))
    result = CliRunner().invoke(app, ["create", str(tmp_path / "db"), str(tmp_path / "v.npz"), "--bits", "8"])
    assert (result.exit_code, result.stderr.count("\n")) == (0, 1)
    assert result.stderr.startswith("Note: 1000 anchors were asked for")


@pytest.fixture
def database(tmp_path):
    Database.create(tmp_path / "db", np.eye(8, dtype=np.float32), [1, 2] * 4, n_bits=8, n_anchors=4).close()
    return str(tmp_path / "db")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_results_that_cannot_be_printed(database):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "sihash", "info", database]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: The result could not be printed: No space left on device.\n"


def test_a_reader_that_has_seen_enough_is_no_error(database):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as nobody:
        command = [sys.executable, "-m", "sihash", "info", database]
        done = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
