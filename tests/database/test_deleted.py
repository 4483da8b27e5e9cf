"""After remove, update and compact nothing in the folder is a removed vector, or a mean of three or fewer."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import small
from typer.testing import CliRunner

from sihash.cli import app
from sihash.database import Database
from sihash.kernel import normalise

FEWEST = 4  # vectors that an anchor is the mean of, if one of them was removed


def arrays(path: Path):
    """Every array in a file of a database."""
    if path.suffix == ".npy":
        array = np.load(path)
        return [array[name] for name in array.dtype.names] if array.dtype.names else [array]
    if path.suffix == ".safetensors":
        return list(safetensors.numpy.load_file(path).values())
    return []


def unit(A):
    return A / np.maximum(np.linalg.norm(A, axis=-1, keepdims=True), 1e-12)


def forms(X, mean):
    """Vectors as anything might keep them: raw, of unit length, centred, both."""
    return [X, unit(X), X - mean, normalise(X, mean)]


def means(Z):
    """All means of fewer than `FEWEST` rows, and these at unit length."""
    found = [
        Z[list(rows)].mean(axis=0)
        for n in range(1, FEWEST)
        for rows in itertools.combinations(range(len(Z)), n)
    ]
    return np.concatenate([found, unit(np.array(found))])


def traces(folder, removed, mean, names):
    """What can be found of removed vectors and names: in the bytes of files, and in the rows of arrays."""
    found = set()
    kept = np.concatenate([means(form.astype(np.float64)) for form in forms(removed, mean)])
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        for form in forms(removed, mean):
            for kind in (np.float16, np.float32, np.float64):
                if any(row.astype(kind).tobytes() in data for row in form):
                    found.add((path.name, "bytes"))
        if any(name.encode() in data for name in names):
            found.add((path.name, "name"))
        for array in arrays(path):
            if array.dtype.kind == "f" and array.ndim == 2 and array.shape[1] == small.WIDTH:
                for row in array.astype(np.float64):
                    if np.abs(kept - row).max(axis=1).min() < 1e-4:
                        found.add((path.name, "row"))
    return found


def make(path, **options):
    X, y = small.rows(90, seed=0)
    names = [f"secret-{k}-name" for k in range(90)]
    return (
        Database.create(path, X, y, names=names, **{**small.PARAMS, "n_anchors": 30, **options}),
        X,
        names,
    )


# Of each class a quarter and less of some anchors, all of others; whole classes; nearly everything.
REMOVALS = {
    "some": list(range(24)),
    "a class": list(range(0, 90, 3))[:24],
    "here and there": list(range(1, 90, 7)),
}


@pytest.mark.parametrize("options", [{}, {"anchors": "random"}, {"training_rows": 60}], ids=str)
@pytest.mark.parametrize("kind", REMOVALS)
def test_nothing_is_left_of_removed_vectors(folder, kind, options):
    db, X, names = make(folder / "db", **options)
    ids = REMOVALS[kind]
    own = [names[k] for k in ids]
    mean = db._read(lambda s: s.hasher.kernel_.mean.copy())
    assert traces(folder / "db", X[ids], mean, own)  # that is: the search finds what is there
    db.remove(ids)
    assert db.verify(deleted=True)
    db.update()
    db.compact()
    assert db.verify(deleted=True) == []
    db.close()
    assert traces(folder / "db", X[ids], mean, own) == set()


def test_most_of_a_collection_can_be_removed(folder):
    """Of a thousand anchors none stays that is made of what went (308 did)."""
    X, y = small.rows(600, seed=0)
    db = Database.create(folder / "db", X, y, **{**small.PARAMS, "n_anchors": 200})
    gone = np.setdiff1d(np.arange(600), np.arange(0, 600, 10))
    db.remove(gone.tolist())
    db.update()
    db.compact()
    assert db.verify(deleted=True) == []
    kernel = db._read(lambda s: s.hasher.kernel_)
    Z = normalise(X[gone], kernel.mean)
    assert np.abs(Z[:, None] - kernel.anchors[None]).max(axis=2).min() > 1e-4
    db.close()


def reasons(db):
    return " ".join(f"{problem.file}: {problem.reason}" for problem in db.verify(deleted=True))


def test_every_step_that_is_missing_is_named(folder):
    db, _, _ = make(folder / "db")
    assert db.verify(deleted=True) == []
    db.remove([1, 2, 5])
    told = reasons(db)
    for part in (
        "learned from 3 items that are removed",
        "vectors of 3",
        "items of 3",
        "`sihash update`, then",
    ):
        assert part in told
    db.compact()  # without the update: the model still has to forget them
    assert "`sihash update`, then" in reasons(db)
    db.update()
    assert "sihash compact" in reasons(db)
    db.compact()
    assert db.verify(deleted=True) == []
    db.close()


def test_what_a_killed_writer_left_is_named(folder):
    db, _, _ = make(folder / "db")
    [vectors] = (folder / "db" / "segments").glob("*vectors*")
    shutil.copy(vectors, vectors.with_name(vectors.name.replace("000001", "000009", 1)))
    told = reasons(db)
    assert "by a process that was killed" in told
    db.compact()
    assert db.verify(deleted=True) == []
    db.close()


def test_the_command_line_tells_it(folder):
    db, _, _ = make(folder / "db")
    runner, command = CliRunner(), ["verify", str(folder / "db"), "--deleted"]
    whole = runner.invoke(app, command)
    assert (whole.exit_code, "nothing is left of removed items" in whole.stdout) == (0, True)
    db.remove([3])
    db.close()
    left = runner.invoke(app, [*command, "--json"])
    assert left.exit_code == 1
    assert {problem["file"] for problem in json.loads(left.stdout)["problems"]} >= {"catalogue.sqlite"}
