"""Several labels per item over HTTP: added, found, filtered, changed, removed; and what is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from services import TOKEN, application, running

from sihash.client import ServiceError
from sihash.database import Database

BEARER = {"authorization": f"Bearer {TOKEN}"}
KINDS = ("round", "square", "star")
RNG = np.random.default_rng(0)
CENTRES = 4 * RNG.standard_normal((len(KINDS), 8))


def rows(n, seed=0):
    """Vectors of three kinds; every second is big, too, every fifth has no label."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(n) % len(KINDS)
    X = (CENTRES[kinds] + rng.standard_normal((n, 8))).astype(np.float32)
    X[::2, 0] += 6
    labels = [[KINDS[kind], *(["big"] if k % 2 == 0 else [])] for k, kind in enumerate(kinds)]
    return X, [[] if k % 5 == 4 else own for k, own in enumerate(labels)]


X, LABELS = rows(90)
NEW, _ = rows(10, seed=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "shapes"
    columns = {"price": list(range(90))}
    Database.create(path, X, LABELS, columns=columns, n_bits=16, n_anchors=30).close()
    return path


@pytest.fixture
def http(made, tmp_path):
    with application(shutil.copytree(made, tmp_path / "shapes"), tmp_path) as client:
        client.headers.update(BEARER)
        yield client


@pytest.fixture(scope="module")
def client(made, tmp_path_factory):
    """Tests leave the collection as they found it."""
    copy = shutil.copytree(made, tmp_path_factory.mktemp("run") / "shapes")
    with running(copy) as service, service.client() as client:
        yield client


def only(labels):
    return labels[0] if len(labels) == 1 else None


def test_answers_carry_labels_and_the_only_one(client):
    items = client.items(limit=100).items
    assert [set(item.labels) for item in items] == [set(own) for own in LABELS]
    hits = client.search_item(0, k=20).hits
    assert {len(hit.labels) for hit in hits} >= {1, 2}
    for each in [*items, *hits]:
        assert each.label == only(each.labels)
    assert all(hit.labels == client.item(hit.id).labels for hit in hits[:5])


def test_counts(client):
    info = client.info()
    counts = {one.label: (one.n_items, one.n_only) for one in info.classes}
    assert counts["big"] == (sum("big" in own for own in LABELS), 0)
    for kind in KINDS:
        assert counts[kind] == (sum(kind in own for own in LABELS), LABELS.count([kind]))
    assert counts[None] == (LABELS.count([]), LABELS.count([]))
    assert info.n_several == sum(len(own) == 2 for own in LABELS)


def test_a_filter_keeps_what_has_one_of_its_labels(client, made):
    for classes in (["big"], ["round", "big"], ["round", "square", "star"]):
        expected = [k for k, own in enumerate(LABELS) if set(classes) & set(own)]
        assert [item.id for item in client.items(limit=100, classes=classes).items] == expected
        assert sorted(item.id for item in client.sample(100, classes).items) == expected
        assert sorted(hit.id for hit in client.search_vector(NEW[0], k=100, classes=classes).hits) == expected
    found = client.sample(100, ["big"], where="price < 10").items
    assert sorted(item.id for item in found) == [0, 2, 6, 8]


def test_classifying_answers_with_labels(client, made):
    with Database(made) as library:
        for row, expected in zip(NEW, library.classify(NEW), strict=True):
            found = client.classify_vector(row)
            assert (tuple(found.labels), found.label) == (expected.labels, expected.label)


def test_adding_and_changing(client):
    before = client.info()
    lists = [["round", "big"], ["new"], []]
    added = client.add_vectors(NEW[:3], lists).added
    assert [client.item(number).labels for number in added] == [("big", "round"), ("new",), ()]
    changed = client.relabel(added[1:], ["star", "new", "star"])
    assert (changed.relabelled, changed.labels, changed.label) == (added[1:], ("new", "star"), None)
    changed = client.relabel_classes(["new"], ["fresh", "unseen"])
    assert changed.relabelled == added[1:]
    assert client.item(added[1]).labels == ("fresh", "star", "unseen")  # what else it had, it keeps
    assert client.relabel(added[:2], "star").label == "star"
    assert client.relabel(added[:1], []).labels == ()
    assert client.item(added[0]).labels == ()
    for _ in range(5):
        client.undo()
    assert client.info() == before


@pytest.mark.parametrize("wrong", [True, "1.5", None, [1.0]])
def test_what_is_no_number_in_a_vector_is_refused(http, wrong):
    vector = [wrong, *NEW[0].tolist()[1:]]
    for path, body in (
        ("/v1/items/batch", {"items": [{"vector": vector, "label": None}]}),
        ("/v1/search/vector", {"vector": vector}),
        ("/v1/classify/vector", {"vector": vector}),
    ):
        assert http.post(path, json=body).status_code == 422
    whole = {"vector": [1, *NEW[0].tolist()[1:]]}  # JSON knows one kind of number
    assert http.post("/v1/search/vector", json=whole).status_code == 200


def test_one_id_or_class_is_a_list_of_one(client):
    """Not of its letters: "12" is neither 1 nor 2."""
    before = client.info()
    assert client.items(classes="star", limit=5) == client.items(classes=["star"], limit=5)
    found = client.search_vector(NEW[0].tolist(), classes="star")
    assert {"star" in hit.labels for hit in found.hits} == {True}
    assert client.relabel(12, "star").relabelled == [12]
    assert client.remove(12).removed == [12]
    with pytest.raises(ServiceError, match="No item has the id '12'"):
        client.remove("12")
    assert len(client.relabel_classes("star", "new").relabelled) > 20
    for _ in range(3):
        client.undo()
    assert client.info() == before


def test_an_image_with_labels(in_process, digits):
    headers = {**BEARER, "content-type": "image/png"}
    send = {"content": digits[410][0], "headers": headers}
    [number] = in_process.post("/v1/items?label=3&label=odd&label=3", **send).json()["added"]
    assert in_process.get(f"/v1/items/{number}").json()["labels"] == ["3", "odd"]
    again = in_process.post("/v1/items?label=even&name=again.png", **send).json()
    conflict = {"name": "again.png", "labels": ["even"], "kept": ["3", "odd"], "label": "even"}
    assert (again["added"], again["conflicts"], again["joined"]) == ([], [conflict], [])


def test_a_vector_twice_in_a_batch_is_two_items(http):
    items = [{"vector": NEW[3].tolist(), "label": [label]} for label in ("round", "dusty")]
    answer = http.post("/v1/items/batch", json={"items": items}).json()
    assert [(each["labels"], each["kept"]) for each in answer["conflicts"]] == [(["dusty"], ["round"])]
    first, second = answer["added"]
    assert answer["repeated"] == [second]
    assert [http.get(f"/v1/items/{id}").json()["label"] for id in (first, second)] == ["round", "dusty"]


def test_a_class_goes_and_its_items_stay_where_they_have_another_label(client):
    counts = {one.label: one for one in client.info().classes}
    report = client.remove_class("round")
    assert len(report.removed) == counts["round"].n_only
    assert len(report.relabelled) == counts["round"].n_items - counts["round"].n_only
    assert {tuple(client.item(number).labels) for number in report.relabelled} == {("big",)}
    client.undo()
    assert {one.label: one for one in client.info().classes} == counts


def test_the_doctor_tells_and_mends_labels(http):
    http.post("/v1/items/relabel", json={"ids": [0], "label": "star"})
    twin = {"vector": np.nextafter(X[2], 100).tolist(), "label": ["round"]}
    [number] = http.post("/v1/items/batch", json={"items": [twin]}).json()["added"]
    findings = {
        (each["kind"], each["items"][0]["id"]): each for each in http.get("/v1/doctor").json()["findings"]
    }
    wrong, conflict = findings["wrong label", 0], findings["conflict", number]
    assert wrong["items"][0]["labels"] == ["star"]
    assert wrong["labels"] == [wrong["label"]]
    assert wrong["label"] in ("round", "big"), "it was both"
    assert [item["labels"] for item in conflict["items"]] == [["round"], ["big", "star"]]
    assert (conflict["labels"], conflict["label"]) == (["big", "star"], None)
    assert conflict["mend"] == ["relabel", str(number), "big", "star"]
    order = {"ids": [number], "label": conflict["labels"]}
    assert http.post("/v1/items/relabel", json=order).json()["labels"] == ["big", "star"]


def test_quality_is_measured_by_a_label_in_common(http):
    first, *_ = http.get("/v1/evaluation").json()["rows"]
    assert first["p_at_1"] > 0.8


LONG = "x" * 1001
WRONG = [
    ("", "at least 1 character"),
    ([""], "at least 1 character"),
    (["round", ""], "at least 1 character"),
    (LONG, "at most 1000 characters"),
    ([LONG], "at most 1000 characters"),
    (["\ud800"], ""),
    (3, "valid string"),
    ([3], "valid string"),
    ([["round"]], "valid string"),
    ([None], "valid string"),
    ({"a": 1}, "valid string"),
    (["x"] * 1001, "at most 1000 items"),
]


@pytest.mark.parametrize(("label", "words"), WRONG, ids=lambda value: repr(value)[:20])
def test_what_is_no_label_is_refused_in_a_sentence(http, label, words):
    before = http.get("/v1/info").json()
    good = {"vector": NEW[0].tolist(), "label": ["round"]}
    for path, body in (
        ("/v1/items/batch", {"items": [good, {"vector": NEW[1].tolist(), "label": label}]}),
        ("/v1/items/relabel", {"ids": [0], "label": label}),
        ("/v1/classes/relabel", {"classes": ["round"], "label": label}),
    ):
        headers = {"content-type": "application/json"}
        answer = http.post(path, content=json.dumps(body), headers=headers)
        assert answer.status_code == 422
        detail = answer.json()["detail"]
        assert words in detail
        assert detail.endswith(".")
    assert http.get("/v1/info").json() == before


@pytest.mark.parametrize("other", [["round", "big"], []])
def test_a_list_beside_a_text_is_refused(http, other):
    before = http.get("/v1/info").json()
    items = [{"vector": NEW[k].tolist(), "label": label} for k, label in enumerate(["round", None, other])]
    answer = http.post("/v1/items/batch", json={"items": items})
    expected = "Expected items with one label each, or with a list of labels each."
    assert (answer.status_code, answer.json()["detail"]) == (422, expected)
    assert http.get("/v1/info").json() == before


def test_one_label_or_none_is_not_a_mixture(http):
    items = [{"vector": NEW[k].tolist(), "label": label} for k, label in enumerate(["round", None])]
    assert len(http.post("/v1/items/batch", json={"items": items}).json()["added"]) == 2


def test_labels_in_an_address_are_checked(in_process, digits):
    headers = {**BEARER, "content-type": "image/png"}
    for query in ("label=", "label=a&label=", f"label=a&label={LONG}"):
        answer = in_process.post(f"/v1/items?{query}", content=digits[410][0], headers=headers)
        assert answer.status_code == 422
    for query in ("class=", f"class={LONG}"):
        assert in_process.get(f"/v1/items?{query}").status_code == 422


def test_numbers_stay_numbers(vector_template, tmp_path):
    """The labels there are numbers: so are those in a list."""
    with application(shutil.copytree(vector_template, tmp_path / "vectors"), tmp_path) as http:
        http.headers.update(BEARER)
        order = {"ids": [0], "label": ["7", "12"]}
        assert http.post("/v1/items/relabel", json=order).json()["labels"] == [7, 12]
        assert [item["id"] for item in http.get("/v1/items?class=12").json()["items"]] == [0]
        answer = http.post("/v1/items/relabel", json={"ids": [0], "label": ["7", "-1"]})
        assert answer.status_code == 422
        assert "-1, which is no label" in answer.json()["detail"]


def test_a_label_as_long_as_the_library_allows(client):
    longest = "ß" * 1000
    client.relabel([1], [longest, "star"])
    assert [item.id for item in client.items(classes=[longest]).items] == [1]
    assert client.remove_class(longest).relabelled == [1]
    client.undo()
    client.undo()
    with pytest.raises(ServiceError) as caught:
        client.relabel([1], [longest + "s"])
    assert caught.value.status == 422
