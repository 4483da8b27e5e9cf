"""Ids of the user: one meaning everywhere, told apart strictly, replaced only if that is wanted."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
import small
from PIL import Image

from sihash import SIH
from sihash.database import Database, DatabaseError, IdTaken, NoSuchItem, verify
from sihash.store.ids import folded, plain_ids

IMAGE_PARAMS = {"n_bits": 8, "n_anchors": 5, "kernel_width": 1.0, "index": "exact"}
X, Y = small.rows(60, seed=0)
IDS = [f"sku-{k}" for k in range(60)]
COLUMNS = {"price": [k / 2 for k in range(60)], "colour": ["red", "blue", None] * 20, "n": list(range(60))}


@pytest.fixture
def shop(folder):
    with Database.create(folder / "shop", X, Y, ids=IDS, columns=COLUMNS, **small.PARAMS) as database:
        yield database


def state(db):
    return [(i.id, i.label, i.name, i.sha256, i.columns) for i in db.items(limit=1000)]


def unchanged(db, work, error, message):
    before = state(db)
    with pytest.raises(error, match=message) as caught:
        work()
    assert "\n" not in str(caught.value)
    assert state(db) == before
    assert verify(db.path) == []


def png(seed):
    out = io.BytesIO()
    Image.fromarray(np.random.RandomState(seed).randint(0, 255, (30, 30, 3)).astype(np.uint8)).save(
        out, "PNG"
    )
    return out.getvalue()


# One meaning.


def test_ids_and_columns_come_back_everywhere(shop):
    assert shop.created_.added == IDS
    item = shop.item("sku-7")
    assert (item.id, item.label, item.columns) == ("sku-7", 1, {"price": 3.5, "colour": "blue", "n": 7})
    [hit] = shop.search(X[7], k=1)[0].hits
    assert (hit.id, hit.columns) == (item.id, item.columns)
    assert shop.search_ids(["sku-7"], k=5)[0].hits[0].id != "sku-7"
    assert shop.info()["columns"] == {"price": "number", "colour": "text", "n": "number"}
    assert shop.remove(["sku-9", "sku-3", "sku-9"]).removed == ["sku-9", "sku-3"]
    shop.undo()
    assert shop.remove_classes([2]).removed == IDS[2::3]
    shop.compact()
    with Database(shop.path) as again:
        assert state(again) == state(shop)
        assert [i.id for i in again.items(limit=3)] == ["sku-0", "sku-1", "sku-3"]


@pytest.mark.parametrize("wrong", [True, 1.0, None, b"sku-1", ["sku-1"], "", "\ud800", "x" * 1001, 2**63])
def test_what_is_no_id_is_refused(shop, wrong):
    for work in (shop.remove, shop.search_ids):
        unchanged(shop, lambda work=work: work([wrong]), DatabaseError, r"id|Ids")


@pytest.mark.parametrize("wrong", ["Sku-1", "sku-61", 1, 0, "1", "1_0", " sku-1"])
def test_ids_are_exact(shop, wrong):
    hint = "there is 'sku-1'" if wrong == "Sku-1" else "No item has the id"
    unchanged(shop, lambda: shop.remove(["sku-2", wrong]), NoSuchItem, hint)


@pytest.mark.parametrize("wrong", ["0", "1_0", 1_000, -1, True, "00"])
def test_numbers_are_exact(db, wrong):
    unchanged(db, lambda: db.remove([1, wrong]), DatabaseError, "No item has the id|must be text")


def test_text_stands_for_the_id_that_is_written_so(shop, db):
    assert (db.id_of("7"), db.id_of("07"), db.id_of("7_0")) == (7, "07", "7_0")
    assert (shop.id_of("sku-7"), shop.id_of("7"), shop.id_of("SKU-7")) == ("sku-7", "7", "SKU-7")


def test_numbers_as_ids_are_not_the_numbers_of_the_database(folder):
    ids = [100 + 2 * k for k in range(60)]
    with Database.create(folder / "db", X, Y, ids=np.array(ids), **small.PARAMS) as db:
        assert db.item(100).sha256 == db.items(limit=1)[0].sha256
        with pytest.raises(NoSuchItem):
            db.item(0)
        assert db.remove([118]).removed == [118]
        # What comes without an id is numbered past every id that is a number.
        assert db.add(small.rows(2, seed=1)[0]).added == [219, 220]
        new = small.rows(1, seed=2)[0]
        unchanged(db, lambda: db.add(new, ids=[219]), DatabaseError, "id 219 is there already")
        assert db.add(new, ids=[219], replace=True).replaced == [219]
        assert db.item(219).label is None
        unchanged(db, lambda: db.add(small.rows(1, seed=3)[0], ids=["220"]), DatabaseError, "type")
        assert verify(db.path) == []


def test_one_id_or_class_is_a_list_of_one(folder):
    """Not of its letters: "12" is one item, and neither 1 nor 2."""
    labels = ["12" if k % 3 == 0 else "1" if k % 3 == 1 else "2" for k in range(60)]
    with Database.create(folder / "db", X, labels, ids=list(map(str, range(60))), **small.PARAMS) as db:
        assert db.search_ids("12", k=3) == db.search_ids(["12"], k=3)
        assert db.search(X[:1], k=60, classes="12") == db.search(X[:1], k=60, classes=["12"])
        assert [i.id for i in db.items(limit=60, classes="12")] == list(map(str, range(0, 60, 3)))
        assert {i.label for i in db.sample(60, classes="12")} == {"12"}
        assert db.relabel("12", "1").relabelled == ["12"]
        assert db.remove("12").removed == ["12"]
        assert len(db.relabel_classes("12", "3").relabelled) == 19
        assert len(db.remove_classes("3").removed) == 19
        assert {i.label for i in db.items(limit=60)} == {"1", "2"}
    with Database.create(folder / "numbered", X, Y, **small.PARAMS) as db:
        assert db.remove(12).removed == [12]
        assert db.relabel(np.int64(1), 0).relabelled == [1]
        assert db.search(X[:1], k=5, classes=2) == db.search(X[:1], k=5, classes=[2])
    hasher = SIH(n_bits=8, n_anchors=10, random_state=0).fit(X, labels, ids=list(map(str, range(60))))
    assert set(hasher.ids_) - set(hasher.remove("12").ids_) == {"12"}


# Existing ids.


def test_an_existing_id_is_an_error_that_names_it(shop):
    new = small.rows(3, seed=1)[0]
    ids = ["new", "sku-5", "sku-6"]
    unchanged(shop, lambda: shop.add(new, [0, 1, 2], ids=ids), DatabaseError, "id 'sku-5' is there already")
    for label, columns in ((0, {**COLUMNS, "price": [9.5] * 60}), (1, COLUMNS)):
        one = {name: [values[5]] for name, values in columns.items()}
        unchanged(
            shop,
            lambda one=one, label=label: shop.add(X[5:6], [label], ids=["sku-5"], columns=one),
            DatabaseError,
            "'sku-5'",
        )


def test_the_same_again_is_skipped(shop):
    report = shop.add(X, Y, ids=IDS, columns=COLUMNS)
    assert (report.added, report.replaced, len(report.skipped)) == ([], [], 60)
    assert shop.info()["operation"] == 1


def test_replacing_is_one_operation(shop):
    before = state(shop)
    new = small.rows(3, seed=1)[0]
    report = shop.add(
        new, [0, 1, None], ids=["sku-5", "new", "sku-6"], columns={"n": [1, 2, 3]}, replace=True
    )
    assert (report.added, report.replaced) == (["sku-5", "new", "sku-6"], ["sku-5", "sku-6"])
    assert shop.info()["operation"] == 2
    assert len(shop) == 61
    assert shop.item("sku-5").columns == {"n": 1}
    assert shop.search(new[0], k=1)[0].hits[0].id == "sku-5"
    assert "sku-5" not in [hit.id for hit in shop.search(X[5], k=1)[0].hits]
    shop.update()
    shop.undo()
    shop.undo()
    assert state(shop) == before
    shop.add(new, [0, 1, None], ids=["sku-5", "new", "sku-6"], replace=True)
    shop.update()
    shop.compact()
    assert shop.item("sku-5").columns == {}
    assert verify(shop.path) == []


def test_a_removed_id_may_come_again(shop):
    shop.remove(["sku-5"])
    new = small.rows(1, seed=1)[0]
    assert shop.add(new, [1], ids=["sku-5"]).added == ["sku-5"]
    shop.undo()
    shop.undo()
    assert shop.item("sku-5").columns["n"] == 5


def test_equal_content_under_two_ids_of_the_user_is_two_items(shop):
    assert shop.add(X[:2], [0, 0], ids=["a", "b"]).added == ["a", "b"]
    twice = np.concatenate([X[:1], X[:1]])
    assert shop.add(twice, [0, 0], ids=["c", "d"]).added == ["c", "d"]
    found = [hit.id for hit in shop.search(X[0], k=4)[0].hits]
    assert sorted(found) == ["a", "c", "d", "sku-0"]


# Ids that are too much alike.


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "A"), ("stra\u00dfe", "STRASSE"), ("caf\u00e9", "cafe\u0301"), ("7", 7), ("\u00c5", "\u212b")],
)
def test_ids_that_differ_only_in_form_are_refused(shop, one, other):
    assert folded(one) == folded(other)
    new = small.rows(2, seed=1)[0]
    words = "differ only in case, Unicode form or type"
    unchanged(shop, lambda: shop.add(new, ids=[one, other]), DatabaseError, words)
    shop.add(new[:1], ids=[one])
    for replace in (False, True):
        unchanged(shop, lambda r=replace: shop.add(new[1:], ids=[other], replace=r), DatabaseError, words)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "a"], "id 'a' is given twice"),
        (["a"], "1 ids for 2 items"),
        (["a", None], "got None"),
        (["a", True], "got True"),
        (["a", 1.0], "got 1.0"),
        (["a", ""], "must not be empty"),
        (["a", "x" * 1001], "at most 1,000 characters; got one of 1,001"),
        ([1, 1 << 63], "must fit 64 bits"),
    ],
)
def test_wrong_ids_are_refused(ids, message):
    with pytest.raises(DatabaseError, match=message):
        plain_ids(ids, 2)


# Folders and archives.


@pytest.fixture
def photos(folder):
    for k in range(12):
        path = folder / "photos" / ("cat", "dog")[k % 2] / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(k))
    return folder / "photos"


def test_paths_are_the_ids_of_files(photos, folder):
    with Database.create(folder / "db", photos, **IMAGE_PARAMS) as db:
        assert [i.id for i in db.items(limit=2)] == ["cat/0.png", "cat/10.png"]
        assert db.thumbnail("cat/0.png")[:3] == b"\xff\xd8\xff"
        assert db.thumbnail("cat/1.png") is None
        # The same folder again: nothing new. A file that moved is the item that it was.
        (photos / "dog" / "11.png").rename(photos / "dog" / "moved.png")
        assert db.add(photos).added == []
        # A file with other content is refused, or takes the place of the item.
        (photos / "cat" / "4.png").write_bytes(png(100))
        (photos / "cat" / "new.png").write_bytes(png(101))
        unchanged(db, lambda: db.add(photos), DatabaseError, "id 'cat/4.png' is there already")
        (photos / "cat" / "broken.png").write_bytes(b"no picture")
        report = db.add(photos, replace=True)
        assert (report.added, report.replaced) == (["cat/4.png", "cat/new.png"], ["cat/4.png"])
        assert [r.name for r in report.rejected] == ["cat/broken.png"]
        # One that cannot be read replaces nothing.
        (photos / "cat" / "4.png").write_bytes(b"no picture")
        assert db.add(photos, replace=True).added == []
        assert db.item("cat/4.png").label == "cat"
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.writestr("cat/0.png", png(0))
        archive.writestr("cat/x.png", png(0))
        archive.writestr("dog/y.png", png(1))
    with Database.create(folder / "zipped", folder / "all.zip", **IMAGE_PARAMS) as db:
        assert db.created_.added == ["cat/0.png", "dog/y.png"]  # equal files of a folder are one item
        assert db.created_.skipped == ["cat/x.png"]


def test_a_second_folder_with_the_same_names(photos, folder):
    with Database.create(folder / "db", photos, **IMAGE_PARAMS) as db:
        for k, path in enumerate(sorted(photos.rglob("*.png"))):
            path.write_bytes(png(200 + k))
        unchanged(db, lambda: db.add(photos), IdTaken, "--prefix")
        report = db.add(photos, prefix="holiday/")
        assert report.added[:2] == ["holiday/cat/0.png", "holiday/cat/10.png"]
        assert (len(db), db.item("holiday/cat/0.png").name) == (24, "cat/0.png")
        assert db.add(photos, prefix="holiday/").added == []
        one = [png(300)]
        unchanged(db, lambda: db.add(one, prefix="a/"), DatabaseError, "the source has none")
        unchanged(db, lambda: db.add(one, ids=["x"], prefix="a/"), DatabaseError, "ids of its own")


@pytest.mark.parametrize("moved", ["cat/3 old.png", "cat/50.png"])
def test_a_file_that_moved_while_another_took_its_place_is_not_lost(photos, folder, moved):
    """Whether it comes before or after the one that replaces it."""
    with Database.create(folder / "db", photos, **IMAGE_PARAMS) as db:
        old = db.item("cat/4.png").sha256
        (photos / "cat" / "4.png").rename(photos / moved)
        (photos / "cat" / "4.png").write_bytes(png(100))
        report = db.add(photos, replace=True)
        assert (set(report.added), report.replaced) == ({moved, "cat/4.png"}, ["cat/4.png"])
        assert (db.item(moved).sha256, len(db)) == (old, 13)
        assert db.add(photos, replace=True).added == []


def test_paths_that_are_no_text_are_spelt_out(photos, folder):
    (photos / "cat" / "\udcff.png").write_bytes(png(50))
    with Database.create(folder / "db", photos, **IMAGE_PARAMS) as db:
        assert db.item("cat/\\xff.png").label == "cat"


def test_files_that_differ_only_in_case_are_refused(photos, folder):
    (photos / "cat" / "0.PNG").write_bytes(png(50))
    with pytest.raises(DatabaseError, match=r"'cat/0.PNG' and 'cat/0.png' differ only in case"):
        Database.create(folder / "db", photos, **IMAGE_PARAMS)
    assert not (folder / "db").exists()


def test_a_table_beside_a_folder_says_ids_and_columns(photos, folder):
    rows = [
        {
            "file": f"{('cat', 'dog')[k % 2]}/{k}.png",
            "label": ("cat", "dog")[k % 2],
            "id": f"p{k}",
            "stars": k,
        }
        for k in range(12)
    ]
    csv, lines = folder / "labels.csv", folder / "labels.jsonl"
    csv.write_text("file,label,id,stars\n" + "".join(",".join(map(str, r.values())) + "\n" for r in rows))
    lines.write_text("".join(json.dumps(r) + "\n" for r in rows))
    for table in (csv, lines):
        with Database.create(folder / table.suffix, photos, table, **IMAGE_PARAMS) as db:
            assert {i.id: i.columns for i in db.items()} == {f"p{k}": {"stars": k} for k in range(12)}
    with Database.create(folder / "some", photos, csv, ids="stars", columns=["id"], **IMAGE_PARAMS) as db:
        assert db.item(3).columns == {"id": "p3"}
    csv.write_text("file,label,id\ncat/0.png,cat,a\n")
    with pytest.raises(DatabaseError, match="but none for"):
        Database.create(folder / "none", photos, csv, **IMAGE_PARAMS)


def test_a_table_of_files_is_a_source(photos, folder):
    table = photos / "table.csv"
    table.write_text(
        "file,label,price,zip\n"
        + "".join(f"{('cat', 'dog')[k % 2]}/{k}.png,{k % 2},{k}.5,0{k}\n" for k in range(12))
        + "cat/missing.png,0,,\n"
    )
    with Database.create(folder / "db", table, **IMAGE_PARAMS) as db:
        item = db.item("cat/2.png")
        assert (item.label, item.columns) == (0, {"price": 2.5, "zip": "02"})
        assert item.path == str(photos / "cat" / "2.png")
        assert [r.name for r in db.created_.rejected] == ["cat/missing.png"]


# Tables of vectors.


def write_table(path, ids="id", label="label"):
    rows = [
        {ids: f"r{k}", label: int(Y[k]), "vector": X[k].tolist(), "price": k if k % 3 else None}
        for k in range(60)
    ]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".npz":
        prices = np.array([k if k % 3 else np.nan for k in range(60)])
        np.savez(path, X=X, y=Y, price=prices, **{ids: np.array([r[ids] for r in rows])})
    else:
        pa = pytest.importorskip("pandas")
        frame = pa.DataFrame(rows)
        frame["vector"] = (
            [json.dumps(v) for v in frame["vector"]] if path.suffix == ".csv" else frame["vector"]
        )
        frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "npz", "parquet"])
def test_ids_and_columns_of_a_table(folder, ending):
    expected = [(f"r{k}", Y[k], {"price": k} if k % 3 else {}) for k in range(60)]
    for ids in ("id", "sku"):
        path = write_table(folder / f"{ids}.{ending}", ids)
        wanted = None if ids == "id" else ids
        with Database.create(folder / f"{ids}-db", path, ids=wanted, **small.PARAMS) as db:
            assert [(i.id, i.label, i.columns) for i in db.items(limit=100)] == expected
            assert db.items(limit=1)[0].name == "r0"
            assert len(db.add(path, ids=wanted).skipped) == 60
            with pytest.raises(ValueError, match=r"no column 'price2' for ids; it has"):
                db.add(path, ids="price2")
            with pytest.raises(ValueError, match=r"no column 'cost'; it has price"):
                db.add(path, ids=wanted, columns=["cost"])


@pytest.mark.parametrize("second", ['["a"]', "7", "true"])
def test_a_column_of_two_kinds_is_one_sentence(folder, second):
    rows = [f'{{"vector": {X[k].tolist()}, "label": {k % 2}, "size": "a"}}' for k in range(10)]
    rows[1] = rows[1].replace('"size": "a"', f'"size": {second}')
    (folder / "t.jsonl").write_text("\n".join(rows))
    with pytest.raises(DatabaseError, match=r"[Cc]olumn 'size'"):
        Database.create(folder / "db", folder / "t.jsonl", **small.PARAMS)
    assert not (folder / "db").exists()


def test_a_label_that_is_a_list_in_one_row_and_text_in_the_next_is_one_sentence(folder):
    rows = [{"vector": X[k].tolist(), "label": ["a", "b"] if k == 3 else "a"} for k in range(10)]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DatabaseError, match=r"[Ll]abel"):
        Database.create(folder / "db", folder / "t.jsonl", **small.PARAMS)
    assert not (folder / "db").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,label\n1,2\n", "0 columns of number lists"),
        ("a.csv", "id,label\n", "has no rows"),
        ("a.csv", "", "has no rows"),
        ("a.csv", "vector,vector\n[1],[2]\n", "different names"),
        ("a.csv", "vector,label\n[1]\n", "Row 2 .* 1 cells where the header has 2"),
        ("a.csv", "vector\nx\n", "Row 1 .* must have a vector"),
        ("a.csv", 'vector\n"[1, 2]"\n"[1]"\n', "not all of one length"),
        ("a.jsonl", '{"vector": [true]}', "must have a vector"),
        ("a.jsonl", "[1]", "must be an object of JSON"),
        ("a.jsonl", '{"vector": [' + "9" * 400 + "]}", "beyond the range"),
        ("a.csv", b"\xff\xfe", "UTF-8"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(folder, name, content, message):
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=message):
        Database.create(folder / "db", folder / name, **small.PARAMS)
    assert not (folder / "db").exists()


# Filters.


def brute(db, keep, query, k, **how):
    """What a filtered search must find: all items in order, those that do not fit left out."""
    [answer] = db.search(query, k=len(db), **how)
    return [hit.id for hit in answer.hits if keep(hit)][:k]


@pytest.mark.parametrize("rank", ["hamming", "vector"])
@pytest.mark.parametrize(
    ("where", "keep"),
    [
        ("price < 7", lambda hit: hit.columns["price"] < 7),
        ("colour = 'red'", lambda hit: hit.columns.get("colour") == "red"),
        (
            "colour != 'red' and n > 30",
            lambda hit: hit.columns.get("colour") == "blue" and hit.columns["n"] > 30,
        ),
        ("n > 1000", lambda hit: False),
    ],
)
def test_a_filtered_search_finds_what_a_filter_leaves(shop, rank, where, keep):
    for query in small.QUERIES:
        [found] = shop.search(query, k=5, rank=rank, where=where)
        assert [hit.id for hit in found.hits] == brute(shop, keep, query, 5, rank=rank)
    [with_class] = shop.search(small.QUERIES[0], k=60, classes=[1], where=where)
    assert all(hit.label == 1 and keep(hit) for hit in with_class.hits)
    expected = [i.id for i in shop.items(limit=100) if keep(i)]
    assert [i.id for i in shop.items(limit=100, where=where)] == expected
    assert shop.info(where)["n_items"] == len(expected) == sum(shop.info(where)["classes"].values())
    [within] = shop.search(small.QUERIES[0], radius=8, where=where)
    assert sorted(hit.id for hit in within.hits) == sorted(expected)
    [near] = shop.search_ids(["sku-8"], k=60, where=where)
    assert sorted(hit.id for hit in near.hits) == sorted(set(expected) - {"sku-8"})


def test_filters_follow_changes(shop):
    def found():
        return sorted(hit.id for hit in shop.search(X[0], k=100, where="n < 4")[0].hits)

    assert found() == ["sku-0", "sku-1", "sku-2", "sku-3"]
    shop.remove(["sku-1"])
    assert found() == ["sku-0", "sku-2", "sku-3"]
    shop.add(small.rows(2, seed=1)[0], ids=["x", "y"], columns={"n": [1, 9], "other": ["a", "b"]})
    assert found() == ["sku-0", "sku-2", "sku-3", "x"]
    assert [i.id for i in shop.items(where="other = 'b'")] == ["y"]
    shop.update()
    assert found() == ["sku-0", "sku-2", "sku-3", "x"]
    shop.compact()
    assert found() == ["sku-0", "sku-2", "sku-3", "x"]
    assert shop.item("y").columns == {"n": 9, "other": "b"}


def test_a_column_that_came_by_mistake_goes_with_its_addition(shop):
    new = small.rows(1, seed=1)[0]
    shop.add(new, ids=["x"], columns={"other": [1]})
    unchanged(
        shop,
        lambda: shop.add(small.rows(1, seed=2)[0], ids=["y"], columns={"other": ["a"]}),
        DatabaseError,
        "Column 'other' holds numbers in the database and text in the source",
    )
    shop.undo()
    assert "other" not in shop.info()["columns"]
    shop.add(new, ids=["x"], columns={"other": ["a"]})
    assert shop.item("x").columns == {"other": "a"}


def test_a_filter_holds(folder):
    with Database.create(folder / "db", X, Y, ids=IDS, columns=COLUMNS, **small.PARAMS) as db:
        for where in ("price < 20", "price >= 3 and price < 9", "colour = 'red'"):
            expected = [item.id for item in db.items(limit=1000, where=where)]
            assert 0 < len(expected) < len(X)
            [found] = db.search(X[0], k=len(X), where=where)
            assert sorted(hit.id for hit in found.hits) == sorted(expected)
            assert sorted(item.id for item in db.sample(1000, where=where)) == sorted(expected)


@pytest.mark.parametrize("where", ["cost < 3", "price < 'a'", "price <", 3])
def test_a_wrong_filter_is_one_sentence(shop, where):
    for work in (
        lambda: shop.search(X[0], where=where),
        lambda: shop.search_ids(["sku-0"], where=where),
        lambda: shop.items(where=where),
        lambda: shop.info(where),
    ):
        with pytest.raises(DatabaseError, match=r"price|cost|where"):
            work()


# Limits.


@pytest.mark.parametrize("what", ["names", "labels", "ids"])
def test_texts_that_are_too_long_are_refused_with_the_limit(shop, what):
    given = {"ids": ["new"], "names": ["new"], "labels": ["new"]} | {what: ["x" * 1001]}
    new = small.rows(1, seed=1)[0]
    unchanged(
        shop, lambda: shop.add(new, **given), DatabaseError, "at most 1,000 characters; got one of 1,001"
    )
    shop.add(new, **{**given, what: ["x" * 1000]})


def test_a_value_past_the_limits_of_sqlite_is_no_damage(shop):
    from sihash.store.catalogue import Catalogue
    from sihash.store.errors import CorruptFile

    catalogue = Catalogue(shop.path)
    with pytest.raises(DatabaseError, match="cannot take this") as caught:
        catalogue.execute("SELECT zeroblob(2000000000)")
    assert not isinstance(caught.value, CorruptFile)
