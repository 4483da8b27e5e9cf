"""The verbs of a database: data on stdout, talk on stderr, exit codes that scripts can trust."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

import sihash
from sihash.cli import app
from sihash.database import Database
from sihash.database.answers import RANKS
from sihash.store.locks import locked
from sihash.store.writer import UPDATER, WRITER

# What the first use after installation may say first.
COMPILING = (
    "Compiling the inner loops of sihash for their first use after installation; this takes a few seconds.\n"
)
SMALL = ["--bits", "8", "--anchors", "10", "--features", "pixels"]


def write_images(folder, classes, n, seed):
    """Small pictures of noise around one shade a class."""
    rng = np.random.default_rng(seed)
    for shade, name in classes.items():
        (folder / name).mkdir(parents=True)
        for k in range(n):
            pixels = np.clip(rng.normal(shade, 20, (6, 6, 3)), 0, 255).astype(np.uint8)
            pixels[:, : shade // 50] = 255 - pixels[:, : shade // 50]
            Image.fromarray(pixels).save(folder / name / f"{seed}-{k}.png")


def invoke(*arguments):
    """Exit code, parsed or plain stdout, stderr."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    stdout = json.loads(result.stdout) if "--json" in arguments and result.stdout else result.stdout
    return result.exit_code, stdout, result.stderr


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    write_images(folder / "first", {60: "dark", 200: "light"}, 12, 0)
    write_images(folder / "more", {130: "grey"}, 6, 1)
    (folder / "broken.png").write_bytes(b"no picture")
    assert invoke("create", folder / "db", folder / "first", *SMALL)[0] == 0
    return folder


@pytest.fixture
def place(template, tmp_path):
    shutil.copytree(template, tmp_path / "place")
    return tmp_path / "place"


@pytest.fixture
def query(place):
    return place / "first" / "dark" / "0-3.png"


class TestCreateAndAdd:
    def test_create(self, place):
        code, data, _ = invoke("create", place / "new", place / "first", *SMALL, "--json")
        assert code == 0
        assert data["version"] == 1
        assert data["added"][:2] == ["dark/0-0.png", "dark/0-1.png"]
        assert len(data["added"]) == 24
        assert (data["n_added"], data["skipped"], data["rejected"]) == (24, [], [])

    def test_options_reach_the_hasher(self, place):
        options = [
            "--index",
            "exact",
            "--engine",
            "disk",
            "--training-rows",
            "all",
            "--size",
            "4",
        ]
        code, _, stderr = invoke(
            "create", place / "new", place / "first", *SMALL, *options, "--no-thumbnails"
        )
        assert (code, stderr.replace(COMPILING, "")) == (0, "")
        with Database(place / "new") as database:
            facts = database.info()
            assert (facts["n_bits"], facts["n_features"], facts["thumbnails"]) == (8, 48, False)
            assert database.versions()[0].n_training == len(database)

    def test_rejected_files_are_listed_and_the_code_is_3(self, place):
        shutil.copy(place / "broken.png", place / "first" / "dark" / "broken.png")
        code, data, stderr = invoke("create", place / "new", place / "first", *SMALL, "--json")
        assert code == 3
        assert [reject["name"] for reject in data["rejected"]] == ["dark/broken.png"]
        assert "rejected: dark/broken.png: not a picture" in stderr
        shutil.copy(place / "broken.png", place / "more" / "grey" / "broken.png")
        code, stdout, _ = invoke("add", place / "new", place / "more")
        assert code == 3
        assert stdout == f"6 added, 1 rejected; `sihash update {place / 'new'}` learns from them.\n"
        assert invoke("add", place / "new", place / "more", "--allow-rejects")[0] == 0

    def test_control_characters_of_names_are_spelt_out(self, place):
        shutil.copy(place / "broken.png", place / "more" / "grey" / "\x1b[31m.png")
        _, _, stderr = invoke("add", place / "db", place / "more")
        assert "\x1b" not in stderr
        assert "\\x1b[31m.png" in stderr

    def test_same_content_is_skipped(self, place):
        code, data, _ = invoke("add", place / "db", place / "first", "--json")
        assert (code, data["n_added"], len(data["skipped"])) == (0, 0, 24)

    def test_one_label_for_all(self, place):
        assert invoke("add", place / "db", place / "more", "--label", "dark")[0] == 0
        with Database(place / "db") as database:
            assert database.info()["classes"] == {"dark": 18, "light": 12}

    @pytest.mark.parametrize("options", [["--label", "a", "--labels", "b"], ["--unknown"]])
    def test_wrong_command_lines(self, place, options):
        assert invoke("add", place / "db", place / "more", *options)[0] == 2

    def test_errors(self, place):
        (place / "empty").mkdir()
        for arguments, message in [
            (["create", place / "new", place / "empty"], "Nothing"),
            (["create", place / "new", place / "nothing"], "There is nothing at"),
            (["create", place / "db", place / "first"], "already holds a database"),
            (["create", place / "new", place / "first", "--features", "sift"], "Unknown features"),
            (
                ["create", place / "new", place / "first", "--features", "none"],
                "use efficientnet-lite2, gist, pixels or onnx:<file>.",
            ),
            (["add", place / "nothing", place / "first"], "There is no database at"),
            (["add", place / "db", place / "empty"], "nothing to add"),
        ]:
            code, stdout, stderr = invoke(*arguments)
            assert (code, stdout) == (1, ""), arguments
            assert message in stderr
            assert stderr.startswith("Error: ")
            assert stderr.count("\n") == 1
        assert invoke("info", place / "new")[0] == 1
        assert (
            invoke("create", place / "new", place / "first", *SMALL)[0] == 0
        )  # failures left nothing in the way

    def test_errors_do_nothing_to_the_terminal(self, place):
        """File names come from others and may hold whatever a terminal obeys."""
        with zipfile.ZipFile(place / "hostile.zip", "w") as archive:
            archive.writestr("cat/\x1b]0;title\x07\x1b[2J.png", b"no picture")
        code, _, stderr = invoke("create", place / "new", place / "hostile.zip")
        assert code == 1
        assert "cat/\\x1b]0;title\\x07\\x1b[2J.png" in stderr
        assert stderr.removesuffix("\n").isprintable()

    @pytest.mark.parametrize("engine", ["dask", "elsewhere"])
    def test_an_engine_that_is_none(self, place, engine):
        code, stdout, stderr = invoke("create", place / "new", place / "first", "--engine", engine)
        assert (code, stdout) == (1, "")
        assert "tcp://" in stderr
        assert not (place / "new" / "catalogue.sqlite").exists()


class TestRemove:
    def test_by_id(self, place):
        data = {"version": 1, "dry_run": True, "n_removed": 2, "removed": ["dark/0-5.png", "dark/0-3.png"]}
        data["relabelled"] = []
        arguments = ["remove", place / "db", "--id", "dark/0-5.png", "--id", "dark/0-3.png", "--json"]
        assert invoke(*arguments, "--dry-run") == (0, data, "")
        assert invoke(*arguments) == (0, {**data, "dry_run": False}, "")
        code, _, stderr = invoke(*arguments)
        assert code == 1
        assert stderr.startswith("Error: ")

    def test_by_class(self, place):
        code, data, _ = invoke("remove", place / "db", "--class", "dark", "--dry-run", "--json")
        assert (code, data["n_removed"]) == (0, 12)
        assert invoke("remove", place / "db", "--class", "dark")[1] == "12 items removed.\n"
        assert invoke("remove", place / "db", "--class", "no such class")[0] == 1
        assert invoke("remove", place / "db", "--class", "no such class", "--dry-run")[0] == 1

    @pytest.mark.parametrize("options", [[], ["--id", "1", "--class", "dark"], ["--id"]])
    def test_wrong_command_lines(self, place, options):
        assert invoke("remove", place / "db", *options)[0] == 2


class TestUpdateAndUndo:
    def test_story(self, place):
        database = place / "db"
        assert invoke("add", database, place / "more")[0] == 0
        code, data, _ = invoke("update", database, "--compare", "--json")
        assert (code, data["version"], data["n_learned"], data["changed"]) == (0, 2, 6, True)
        assert set(data["compared"]) == {"passive", "incremental", "scratch"}
        assert "Nothing has changed" in invoke("update", database)[1]
        assert invoke("update", database, "--relearn")[1].startswith("version 3: ")
        assert invoke("undo", database, "--json") == (0, {"version": 2, "undone": "update"}, "")
        assert invoke("undo", database)[1] == "Undone: update. Searches use version 1.\n"
        assert invoke("undo", database, "--json")[1]["undone"] == "add"
        code, stdout, stderr = invoke("undo", database)
        assert (code, stdout) == (1, "")
        assert "nothing to undo" in stderr

    def test_a_busy_database_is_1_and_a_sentence(self, place):
        database = place / "db"
        with locked(database / WRITER, "is writing"), locked(database / UPDATER, "is updating it"):
            for arguments in (
                ["add", database, place / "more"],
                ["remove", database, "--id", "1"],
                ["update", database],
                ["compact", database],
                ["undo", database],
            ):
                code, stdout, stderr = invoke(*arguments, "--json")
                assert (code, stdout) == (1, ""), arguments
                assert "is busy: process" in stderr
                assert stderr.count("\n") == 1
            assert invoke("info", database)[0] == 0

    def test_choices_are_those_of_the_library(self, place, query):
        for rank in RANKS:
            assert invoke("search", place / "db", query, "--rank", rank, "--json")[1]["rank"] == rank
            assert rank in invoke("search", "--help")[1]
        message = "expected one of combined, hamming, vector, got 'label'"
        assert message in invoke("search", place / "db", query, "--rank", "label")[2]
        with Database(place / "db") as database, pytest.raises(ValueError, match="strategy"):
            database.update("other")


class TestSearch:
    def test_an_image(self, place, query):
        code, data, _ = invoke("search", place / "db", query, "-k", "3", "--json")
        with Database(place / "db") as database:
            (expected,) = database.search([query], k=3)
        assert (code, data["version"], data["rank"]) == (0, 1, "combined")
        (answer,) = data["answers"]
        assert answer["query"] == str(query)
        assert answer["code"] == expected.query_code.hex()
        assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in expected.hits]
        shown = {"id", "label", "labels", "name", "distance", "score", "code", "why", "columns"}
        assert set(answer["hits"][0]) == shown
        assert answer["hits"][0]["why"] == pytest.approx(vars(expected.hits[0].why))
        assert "10 found, version 1, combined ranking" in invoke("search", place / "db", query)[1]

    def test_items_are_left_out_of_their_answers(self, place):
        own = "dark/0-3.png"
        arguments = ["search", place / "db", "--id", own, "--radius", "8", "--rank", "hamming", "--json"]
        _, data, _ = invoke(*arguments)
        found = [hit["id"] for hit in data["answers"][0]["hits"]]
        assert len(found) == 23
        assert own not in found

    def test_class_filter(self, place, query):
        _, data, _ = invoke("search", place / "db", query, "--class", "light", "-k", "20", "--json")
        assert {hit["label"] for hit in data["answers"][0]["hits"]} == {"light"}
        assert len(data["answers"][0]["hits"]) == 12

    @pytest.mark.parametrize(
        "options",
        [["-k", "3", "--radius", "2"], ["--rank", "other"], ["-k", "0"], ["--radius", "-1"], ["--id", "1"]],
    )
    def test_wrong_command_lines(self, place, query, options):
        assert invoke("search", place / "db", query, *options)[:2] == (2, "")
        assert invoke("search", place / "db")[0] == 2

    def test_errors(self, place, query):
        for arguments, message in [
            ([place / "broken.png"], "cannot be searched for: not a picture"),
            ([place / "missing.png"], "There is no file"),
            (["--id", "99"], "99"),
            ([query, "--class", "other"], "other"),
            ([query, "--html", place / "no" / "page.html"], "page.html could not be written: No such file"),
        ]:
            code, stdout, stderr = invoke("search", place / "db", *arguments)
            assert (code, stdout) == (1, ""), arguments
            assert message in stderr
        assert invoke("search", place / "nothing", query)[0] == 1

    def test_page_stands_by_itself_and_escapes_names(self, place):
        hostile = place / "<script>alert('1').png"
        shutil.copy(place / "first" / "dark" / "0-3.png", hostile)
        page = place / "page.html"
        code, stdout, stderr = invoke("search", place / "db", hostile, "-k", "4", "--html", page)
        assert code == 0
        assert "page:" in stderr
        assert "page:" not in stdout
        text = page.read_text("utf-8")
        assert "<script" not in text
        assert text.count("data:image/jpeg;base64,") == 5
        assert "http" not in text
        assert invoke("search", place / "db", "--id", "dark/0-1.png", "--html", page)[0] == 0


class TestIdsAndColumns:
    @pytest.fixture
    def shop(self, place):
        rows = [
            {"sku": f"s{k}", "label": "ab"[k % 2], "vector": [k % 2 * 4 + k / 9, k / 7, k % 5], "price": k}
            for k in range(20)
        ]
        (place / "shop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = ["--id", "sku", "--bits", "8", "--anchors", "10"]
        assert invoke("create", place / "shop", place / "shop.jsonl", *options)[0] == 0
        return place / "shop"

    def test_they_come_back_and_restrict(self, shop):
        ask = ["search", shop, "--id", "s3", "-k", "20", "--where", "price < 5 and price != 1"]
        _, data, _ = invoke(*ask, "--json")
        found = {hit["id"]: hit["columns"] for hit in data["answers"][0]["hits"]}
        assert found == {f"s{k}": {"price": k} for k in (0, 2, 4)}
        assert "price 4" in invoke(*ask)[1]
        code, data, _ = invoke("info", shop, "--where", "price >= 15", "--json")
        assert (code, data["n_items"], data["columns"]) == (0, 5, {"price": "number"})
        assert "columns: price (number)" in invoke("info", shop)[1]

    @pytest.mark.parametrize(
        ("where", "words"), [("cost < 3", "there are price"), ("price", "where expects")]
    )
    def test_a_wrong_filter(self, shop, where, words):
        for verb in (["search", shop, "--id", "s3"], ["info", shop]):
            code, stdout, stderr = invoke(*verb, "--where", where)
            assert (code, stdout, stderr.count("\n"), words in stderr) == (1, "", 1, True)

    def test_replacing(self, shop, place):
        row = {"sku": "s3", "label": "b", "vector": [9, 9, 9], "price": 1000}
        (place / "new.jsonl").write_text(json.dumps(row))
        code, _, stderr = invoke("add", shop, place / "new.jsonl", "--id", "sku")
        assert (code, "The id 's3' is there already" in stderr) == (1, True)
        code, data, _ = invoke("add", shop, place / "new.jsonl", "--id", "sku", "--replace", "--json")
        assert (code, data["added"], data["replaced"]) == (0, ["s3"], ["s3"])
        assert invoke("info", shop, "--json")[1]["n_items"] == 20
        code, _, stderr = invoke("add", shop, place / "new.jsonl", "--id", "no")
        assert (code, "no column 'no' for ids; it has sku" in stderr) == (1, True)
        code, _, stderr = invoke("add", shop, place / "new.jsonl", "--id", "sku", "--column", "cost")
        assert (code, "no column 'cost'" in stderr) == (1, True)

    def test_merging(self, shop, place):
        shutil.copytree(shop, place / "other")
        row = {"sku": "new", "label": "b", "vector": [9, 9, 9], "price": 1000}
        (place / "new.jsonl").write_text(json.dumps(row))
        assert invoke("add", place / "other", place / "new.jsonl", "--id", "sku")[0] == 0
        code, data, _ = invoke("merge", shop, place / "other", "-o", place / "both", "--json")
        assert (code, data["n_items"], data["n_first"], data["n_second"]) == (0, 21, 20, 1)
        assert len(data["skipped"]) == 20
        code, _, stderr = invoke("merge", shop, place / "db", "-o", place / "none")
        assert (code, "learned apart" in stderr, (place / "none").exists()) == (1, True, False)


class TestLooking:
    def test_classify(self, place, query):
        code, data, _ = invoke("classify", place / "db", query, query, "--json")
        assert (code, data["version"], len(data["answers"])) == (0, 1, 2)
        one = data["answers"][0]
        assert one["label"] == "dark"
        assert one["probability"] == max(one["probabilities"].values())
        assert invoke("classify", place / "db", query)[1].startswith(f"{query}: dark (")
        assert invoke("classify", place / "db", place / "broken.png")[0] == 1

    def test_info(self, place):
        code, data, _ = invoke("info", place / "db", "--json")
        assert code == 0
        assert data["classes"] == {"dark": 12, "light": 12}
        assert [version["number"] for version in data["versions"]] == [1]
        assert "classes: 2\n  12  dark\n  12  light\n" in invoke("info", place / "db")[1]
        assert invoke("info", place / "nothing")[0] == 1

    def test_evaluate(self, place):
        code, data, _ = invoke("evaluate", place / "db", "--json")
        with Database(place / "db") as database:
            assert data["mAP"] == database.evaluate().mAP
        assert (code, data["n_queries"], data["n_items"]) == (0, 4, 20)
        assert "asked a collection without them" in data["note"]
        write_images(place / "held out", {60: "dark", 200: "light"}, 2, 5)
        code, data, _ = invoke("evaluate", place / "db", "--queries", place / "held out", "--json")
        assert (code, data["n_queries"], data["n_items"]) == (0, 4, 24)
        assert {each["label"] for each in data["classes"]} == {"dark", "light"}
        told = invoke("evaluate", place / "db", "--against")[1]
        for words in ("P@1", "mAP", "cosine", "LDA's label", "asked a collection without"):
            assert words in told

    def test_evaluate_lists_the_worst_classes(self, place):
        """Only classes that something is wrong with: here dark images are labelled light."""
        write_images(place / "held out", {60: "light"}, 2, 5)
        told = invoke("evaluate", place / "db", "--queries", place / "held out")[1]
        assert re.search(r"worst classes:\n  P@1 0\.000 .* 2 queries   light\n", told)
        write_images(place / "right", {60: "dark", 200: "light"}, 2, 5)
        assert "worst" not in invoke("evaluate", place / "db", "--queries", place / "right")[1]

    @pytest.mark.parametrize("name", ["out.npz", "out.parquet"])
    def test_export(self, place, name):
        code, data, _ = invoke("export", place / "db", place / name, "--json")
        assert (code, data["n_items"], data["bytes"]) == (0, 24, (place / name).stat().st_size)
        assert invoke("create", place / "again", place / name, "--bits", "8", "--anchors", "10")[0] == 0
        assert invoke("export", place / "db", place / "out.txt")[0] == 1

    def test_verify_and_compact(self, place):
        assert invoke("verify", place / "db", "--json") == (0, {"ok": True, "problems": []}, "")
        invoke("add", place / "db", place / "more")
        invoke("remove", place / "db", "--class", "grey")
        code, data, _ = invoke("compact", place / "db", "--json")
        assert (code, data["n_dropped"]) == (0, 6)
        assert invoke("undo", place / "db")[0] == 1
        (codes,) = (place / "db" / "segments").glob("*codes*")
        codes.write_bytes(codes.read_bytes()[:-1] + b"\0")
        code, data, _ = invoke("verify", place / "db", "--json")
        assert (code, data["ok"]) == (1, False)
        assert codes.name in data["problems"][0]["file"]
        assert codes.name in invoke("verify", place / "db")[1]

    def test_verify_of_what_is_no_database(self, place):
        for folder in (place / "nothing", place / "first"):
            code, stdout, stderr = invoke("verify", folder)
            assert (code, stdout) == (1, "")
            assert stderr.startswith(f"Error: There is no database at {folder}")
        (place / "db" / "catalogue.sqlite").unlink()
        code, stdout, _ = invoke("verify", place / "db")
        assert code == 1
        assert "restore it from a copy" in stdout


class TestVectors:
    @pytest.fixture
    def database(self, tmp_path):
        rng = np.random.default_rng(0)
        X = np.concatenate([rng.normal(c, 1, (20, 4)) for c in (-3, 3)]).astype(np.float32)
        np.savez(tmp_path / "v.npz", X=X, y=np.repeat([7, 9], 20))
        np.save(tmp_path / "q.npy", X[18:22])
        assert invoke("create", tmp_path / "db", tmp_path / "v.npz", "--bits", "8", "--anchors", "8")[0] == 0
        return tmp_path / "db"

    def test_rows_of_a_file_are_queries(self, database, tmp_path):
        code, data, _ = invoke("search", database, tmp_path / "q.npy", "-k", "2", "--json")
        assert code == 0
        assert [a["query"] for a in data["answers"]] == [f"{tmp_path / 'q.npy'} row {k}" for k in range(4)]
        assert [a["hits"][0]["label"] for a in data["answers"]] == [7, 7, 9, 9]
        page = tmp_path / "page.html"
        assert invoke("search", database, tmp_path / "q.npy", "--html", page)[0] == 0
        assert "no picture" in page.read_text()
        _, data, _ = invoke("classify", database, tmp_path / "q.npy", "--json")
        assert [a["label"] for a in data["answers"]] == [7, 7, 9, 9]

    def test_files_that_do_not_go_together(self, database, tmp_path):
        np.save(tmp_path / "none.npy", np.empty((0, 4), np.float32))
        np.save(tmp_path / "wide.npy", np.ones((2, 5), np.float32))
        for name, message in [("none.npy", "is empty"), ("wide.npy", "holds vectors of 5 numbers")]:
            code, stdout, stderr = invoke("search", database, tmp_path / "q.npy", tmp_path / name)
            assert (code, stdout) == (1, "")
            assert f"{tmp_path / name} {message}" in stderr

    def test_classes_that_are_numbers(self, database):
        assert invoke("remove", database, "--class", "9", "--json")[1]["n_removed"] == 20

    def test_vectors_are_refused_where_images_are(self, tmp_path, place):
        np.save(tmp_path / "q.npy", np.ones((1, 4), np.float32))
        code, _, stderr = invoke("search", place / "db", tmp_path / "q.npy")
        assert (code, "give image files" in stderr) == (1, True)

    def test_images_are_refused(self, database, place):
        code, _, stderr = invoke("search", database, place / "first")
        assert code == 1
        assert "holds vectors" in stderr


def test_help_does_not_load_what_it_does_not_need():
    """Nor does shell completion, which runs the same imports at every press of the tab key."""
    script = (
        "import sys, sihash.cli\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'faiss', 'PIL', 'pandas', 'fastapi'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


HEAVY = "{'scipy', 'sklearn', 'numba', 'faiss', 'pandas', 'fastapi', 'onnxruntime'}"


def loaded_by(*arguments):
    """Which of the heavy packages a verb imports, in a process of its own."""
    script = (
        "import sys\nfrom sihash.cli import app\n"
        f"try:\n    app({[str(a) for a in arguments]!r})\nexcept SystemExit:\n    pass\n"
        f"print(sorted({HEAVY} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1]


def test_errors_load_nothing_heavy(tmp_path, template):
    wrong = [
        ("--version",),
        ("info", tmp_path / "none"),
        ("create", tmp_path / "db", "nowhere"),
        ("search", template / "db", tmp_path / "none.jpg"),
        ("add", template / "db", tmp_path / "none"),
    ]
    assert {loaded_by(*arguments) for arguments in wrong} == {"[]"}


def test_only_learning_from_scratch_takes_scikit_learn(place, query):
    db = place / "db"
    for arguments in [("info", db), ("remove", db, 0), ("update", db), ("undo", db)]:
        assert not {"sklearn", "pandas", "faiss", "fastapi"} & set(eval(loaded_by(*arguments)))


def test_a_search_loads_no_compiler(place, query):
    assert loaded_by("search", place / "db", query) == "[]"


def test_the_version():
    assert invoke("--version")[1] == f"sihash {sihash.__version__}\n"


def verbs():
    return typer.main.get_command(app).commands


@pytest.mark.parametrize("name", verbs())
def test_help_is_readable_at_80_columns_and_has_an_example(name):
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"}, terminal_width=80)
    assert result.exit_code == 0
    assert f"Example: sihash {name}" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_the_list_of_verbs_is_whole_sentences():
    result = CliRunner().invoke(app, ["--help"], terminal_width=80)
    assert "..." not in result.stdout.partition("ARGS]...")[2]
    assert all(f"  {name} " in result.stdout for name in verbs())


def test_progress_as_lines_of_json(place):
    code, _, stderr = invoke("create", place / "new", place / "first", *SMALL, "--progress", "json")
    assert code == 0
    lines = [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]
    phases = list(dict.fromkeys(line["phase"] for line in lines))
    assert phases == ["reading", "learning", "encoding", "ranking"]
    assert lines[0]["detail"] == "24 of 24 photos, pixels"
    assert any(line["detail"].startswith("round 1, ") for line in lines)
    assert [line["share"] for line in lines if line["phase"] == "learning"][-1] == 1


def test_duplicates_with_another_label_are_named(place):
    (place / "again" / "light").mkdir(parents=True)
    shutil.copy(place / "first" / "dark" / "0-3.png", place / "again" / "light" / "copy.png")
    shutil.copy(place / "first" / "light" / "0-4.png", place / "again" / "light" / "same.png")
    code, stdout, stderr = invoke("add", place / "db", place / "again")
    assert code == 0
    assert "same content, different label: light/copy.png is light here, and dark in an earlier" in stderr
    assert stdout.startswith("0 added, 2 already there, 1 with another label than an equal item")
    assert Database(place / "db").add(place / "again").conflicts[0].kept == ("dark",)


def test_the_largest_classes_are_listed(tmp_path):
    sizes = {f"class {k:02}": 3 + k for k in range(25)}
    y = np.repeat(list(sizes), list(sizes.values()))
    X = np.random.default_rng(0).normal(size=(len(y), 4)).astype(np.float32)
    Database.create(tmp_path / "db", X, y, n_bits=8, n_anchors=30).close()
    text = invoke("info", tmp_path / "db")[1]
    assert "classes: 25\n  27  class 24\n  26  class 23\n" in text
    assert "   8  class 05\n  and 5 more; --json lists all\n" in text


def test_outputs_without_an_extension_get_one(place, query):
    assert invoke("export", place / "db", place / "items")[0] == 0
    assert invoke("search", place / "db", query, "--html", place / "found")[0] == 0
    assert all((place / name).is_file() for name in ("items.npz", "found.html"))


def test_without_extras(place, query):
    """`pip install sihash` alone creates, searches, adds and updates; what needs more says the command."""
    database, other = place / "alone", place / "other"
    steps = [
        ("", "create", database, place / "first", *SMALL),
        ("", "search", database, query),
        ("", "add", database, place / "more"),
        ("", "update", database),
        ("service", "serve", database),
        ("parquet", "export", database, place / "x.parquet"),
        ("onnx", "create", other, place / "first", "--features", "onnx:x.onnx"),
    ]
    script = (
        "import json, sys\n"
        "for name in ('faiss', 'fastapi', 'uvicorn', 'pyarrow', 'onnx', 'onnxruntime', 'httpx', 'pandas'):\n"
        "    sys.modules[name] = None\n"
        "from typer.testing import CliRunner\n"
        "from sihash.cli import app\n"
        "done = [CliRunner().invoke(app, step) for step in json.loads(sys.argv[1])]\n"
        "print(json.dumps([(one.exit_code, one.stderr) for one in done]))"
    )
    command = [sys.executable, "-c", script, json.dumps([list(map(str, step[1:])) for step in steps])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for (extra, *_), (code, stderr) in zip(steps, json.loads(done.stdout), strict=True):
        assert code == bool(extra), stderr
        if extra:
            assert f"pip install 'sihash[{extra}]'" in stderr
            assert stderr.count("\n") == 1


def test_completion_offers_the_choices(monkeypatch):
    words = {"COMP_WORDS": "sihash search DB --rank ", "COMP_CWORD": "4", "_SIHASH_COMPLETE": "complete_bash"}
    result = CliRunner().invoke(app, [], prog_name="sihash", env=words)
    assert result.stdout.split() == list(RANKS)


def test_several_labels_from_end_to_end(tmp_path):
    """Folders with one picture twice, a filter, another label, a class that goes, and out again."""
    folder, db = tmp_path / "photos", tmp_path / "db"
    for k in range(12):
        (folder / "abc"[k % 3]).mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(k).integers(0, 60, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(noise + np.uint8(k % 3 * 90)).save(folder / "abc"[k % 3] / f"{k}.png")
    shutil.copy(folder / "a" / "0.png", folder / "c" / "copy.png")
    code, stdout, stderr = invoke("create", db, folder, *SMALL)
    assert code == 0
    assert "same content twice: c/copy.png; the item has both labels: a, c" in stderr
    assert "1 gave an item another label" in stdout
    assert "1 with several" in invoke("info", db)[1]
    query = folder / "a" / "0.png"
    (found,) = invoke("search", db, query, "-k", "12", "--class", "c", "--json")[1]["answers"]
    assert {hit["id"] for hit in found["hits"]} == {"a/0.png", "c/2.png", "c/5.png", "c/8.png", "c/11.png"}
    assert next(h for h in found["hits"] if h["id"] == "a/0.png")["labels"] == ["a", "c"]
    assert "a, c" in invoke("search", db, folder / "a" / "0.png", "--class", "c")[1]
    assert invoke("relabel", db, "b/1.png", "b", "new")[1] == "1 item is now labelled b, new.\n"
    data = invoke("remove", db, "--class", "c", "--dry-run", "--json")[1]
    assert (data["n_removed"], data["relabelled"]) == (4, ["a/0.png"])
    told = invoke("remove", db, "--class", "c")[1]
    assert told == "4 items removed. 1 more lost the label and stay.\n"
    assert invoke("classify", db, folder / "a" / "0.png")[0] == 0
    assert invoke("update", db)[0] == 0
    more = invoke("add", db, folder / "c" / "2.png", "--label", "b", "--label", "new")
    assert more[0] == 0
    with Database(db) as opened:
        assert opened.items(limit=100)[-1].labels == ("b", "new")


def test_the_column_of_vectors_is_named_and_told(tmp_path):
    from pyarrow import parquet, table

    rows = np.random.RandomState(0).normal(size=(40, 4))
    columns = {"a": rows.tolist(), "b": rows[:, :2].tolist(), "label": [k % 2 for k in range(40)]}
    parquet.write_table(table(columns), tmp_path / "t.parquet")
    create = ["create", str(tmp_path / "db"), str(tmp_path / "t.parquet"), "--anchors", "10", "--bits", "8"]
    refused = CliRunner().invoke(app, create)
    assert refused.exit_code == 1
    assert "has 2 columns of number lists (a, b)" in refused.stderr
    made = CliRunner().invoke(app, [*create, "--vectors", "b"])
    assert made.exit_code == 0, made.stderr
    assert "vectors from b, labels from label, left out: a" in made.stdout
    with Database(tmp_path / "db") as database:
        assert database.info()["n_features"] == 2
