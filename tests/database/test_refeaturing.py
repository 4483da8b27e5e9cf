"""Other features: all that was said of items stays, and the rest is as if it had been created so."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from sihash import Database
from sihash.cli import app
from sihash.database import DatabaseError, describing

RNG = np.random.default_rng(0)
OPTIONS = {"n_bits": 8, "n_anchors": 10}


def save(folder, n, start=0):
    for k in range(start, start + n):
        own = folder / f"class{k % 3}"
        own.mkdir(parents=True, exist_ok=True)
        colour = np.array([[0, 60, 0], [180, 0, 0], [0, 90, 190]][k % 3])
        pixels = RNG.integers(0, 60, (8, 8, 3)) + colour
        Image.fromarray(pixels.astype(np.uint8)).save(own / f"{k}.png")
    return folder


@pytest.fixture
def photos(tmp_path):
    return save(tmp_path / "photos", 45)


@pytest.fixture
def db(tmp_path, photos):
    """A database with a history: items were added, removed and relabelled, and an update."""
    columns = {"price": [k / 2 for k in range(45)]}
    db = Database.create(tmp_path / "db", photos, columns=columns, features="pixels", **OPTIONS)
    db.add(save(tmp_path / "more", 9, start=50), columns={"price": [100.0] * 9}, prefix="more/")
    db.remove(["class1/4.png", "class2/8.png"])
    db.relabel("class0/0.png", "class1")
    db.update()
    db.remove("class0/3.png")
    return db


def said(db):
    return [(i.id, i.labels, i.name, i.version, i.sha256, i.columns, i.path, db.thumbnail(i.id))
            for i in db.items(limit=1000)]  # fmt: skip


def test_what_was_said_stays_and_the_rest_is_new(db, tmp_path, photos):
    before, versions = said(db), db.versions()
    report = db.refeature("pixels", feature_options={"size": 4, "grey": True})
    assert (report.version, report.n_reencoded, report.changed) == (3, len(before), True)
    assert said(db) == before
    assert [v.number for v in db.versions()] == [1, 2, 3]
    assert [(v.at, v.strategy) for v in db.versions()[:2]] == [(v.at, v.strategy) for v in versions]
    assert db.versions()[2].strategy == "refeature"
    assert db.versions()[2].current
    assert (db.info()["n_features"], db.features.options) == (16, {"size": 4, "grey": True})
    assert db.verify() == db.verify(deleted=True) == []
    # The same items, created so.
    folders = {True: tmp_path / "more", False: photos}
    ids = [item.id for item in db.items(limit=1000)]
    table = {own: folders[own.startswith("more/")] / own.removeprefix("more/") for own in ids}
    fresh = Database.create(
        tmp_path / "fresh", [str(path) for path in table.values()],
        [item.labels[0] for item in db.items(limit=1000)], ids=list(table),
        features="pixels", feature_options={"size": 4, "grey": True}, **OPTIONS,
    )  # fmt: skip
    queries = [str(path) for path in list(table.values())[:9]]
    for rank in ("vector", "hamming"):
        ours, theirs = (each.search(queries, k=8, rank=rank) for each in (db, fresh))
        for one, two in zip(ours, theirs, strict=True):
            assert [(h.id, h.distance) for h in one.hits] == [(h.id, h.distance) for h in two.hits]


def test_the_database_goes_on(db, tmp_path):
    db.refeature("pixels", feature_options={"size": 4})
    with pytest.raises(DatabaseError, match="nothing to undo"):
        db.undo()
    db.add(save(tmp_path / "later", 9, start=80), columns={"price": [7.0] * 9}, prefix="later/")
    assert db.update().version == 4
    db.undo()
    assert db.version == 3
    db.undo()
    assert not [item for item in db.items(limit=1000) if str(item.id).startswith("later/")]
    db.compact()
    assert db.verify(deleted=True) == []
    assert {h.columns["price"] for h in db.search_ids("class0/6.png", k=3, where="price < 30")[0].hits}


def test_features_that_it_has_change_nothing(db):
    assert not db.refeature("pixels").changed
    assert db.version == 2


def test_a_reader_follows_and_describes_queries_as_the_items_were(db, photos):
    query = str(photos / "class0" / "6.png")
    for background in (False, True):
        with Database(db.path, background=background) as reader:
            assert reader.search([query], k=1, rank="vector")[0].hits[0].id == "class0/6.png"
            size = 5 if background else 4
            db.refeature("pixels", feature_options={"size": size})
            (answer,) = reader.search([query], k=1, rank="vector")
            assert answer.hits[0].id == "class0/6.png"
            assert answer.hits[0].score == pytest.approx(1, abs=1e-5)
            assert reader.info()["n_features"] == 3 * size**2


def test_a_query_that_was_described_before_the_change_is_described_again(db, photos, monkeypatch):
    from sihash.database import searching

    real, times = searching.query_vectors, []

    def slow(queries, features):
        X = real(queries, features)
        times.append(X.shape[1])
        if len(times) == 1:  # of the same width, so nothing but the features tells them apart
            other.refeature("pixels", feature_options={"size": 4, "grey": False})
        return X

    db.refeature("pixels", feature_options={"size": 4})
    other = Database(db.path)
    other.features  # noqa: B018
    monkeypatch.setattr(searching, "query_vectors", slow)
    (answer,) = db.search([str(photos / "class0" / "6.png")], k=1)
    assert (len(times), answer.version) == (2, 4)


def test_photos_that_moved_are_found_by_their_content(db, tmp_path, photos):
    shutil.move(tmp_path / "more", tmp_path / "elsewhere")
    with pytest.raises(
        DatabaseError, match=r"9 of 51 photos cannot be described, .*class\d/5\d\.png: it is not"
    ):
        db.refeature("pixels", feature_options={"size": 4})
    assert db.version == 2
    seen = []
    real = describing.describe
    describing.describe = lambda images, *others: seen.append(len(images)) or real(images, *others)
    try:
        db.refeature("pixels", tmp_path / "elsewhere", feature_options={"size": 4})
    finally:
        describing.describe = real
    assert sum(seen) == 9  # the others were noted
    assert db.verify(deleted=True) == []


def test_a_photo_that_was_altered_is_no_photo_of_it(db, photos):
    Image.new("RGB", (8, 8)).save(photos / "class0" / "6.png")
    with pytest.raises(DatabaseError, match=r"1 of 51 photos .* class0/6\.png: it is not where"):
        db.refeature("pixels", feature_options={"size": 4})


def test_killed_at_any_moment_it_is_what_it_was_and_goes_on(db):
    before = said(db)
    code = (
        "import os, signal, sys\nfrom sihash import Database\nseen = []\n"
        "def stop(step, share):\n    seen.append(step)\n"
        "    if len(seen) == int(sys.argv[2]):\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "Database(sys.argv[1]).refeature('pixels', feature_options={'size': 4}, progress=stop)"
    )
    for n in (1, 2, 4):
        command = [sys.executable, "-c", code, db.path, str(n)]
        assert subprocess.run(command, env=os.environ).returncode == -signal.SIGKILL
        assert (db.version, said(db), db.verify()) == (2, before, [])
    db.refeature("pixels", feature_options={"size": 4})
    assert (db.version, said(db), db.verify(deleted=True)) == (3, before, [])


def test_on_the_command_line(db, tmp_path):
    def run(*options):
        return CliRunner().invoke(app, ["refeature", str(db.path), *map(str, options)])

    told = run("--features", "pixels", "--size", 4)
    assert (told.exit_code, told.stdout) == (0, "51 photos described by pixels (48 numbers); version 3.\n")
    again = json.loads(run("--features", "pixels", "--size", 4, "--json").stdout)
    assert (again["version"], again["changed"]) == (3, False)
    shutil.rmtree(tmp_path / "more")
    refused = run("--features", "pixels", "--size", 5)
    assert (refused.exit_code, "9 of 51 photos cannot be described" in refused.stderr) == (1, True)
    assert "There is nothing at" in run(tmp_path / "nowhere").stderr


def test_refusals(tmp_path, db):
    vectors = Database.create(tmp_path / "v", np.eye(20, 4), [0, 1] * 10, **OPTIONS)
    with pytest.raises(DatabaseError, match="holds vectors"):
        vectors.refeature("pixels")
    with pytest.raises(DatabaseError, match="Expected photos, got vectors"):
        db.refeature("gist", np.eye(4))
    with pytest.raises(ValueError, match="Unknown features"):
        db.refeature("sift")
    db.remove([item.id for item in db.items(limit=1000)])
    with pytest.raises(DatabaseError, match="no photos any more"):
        db.refeature("gist")
