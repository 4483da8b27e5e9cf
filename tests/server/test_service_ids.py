"""Ids of the user, columns and conditions over HTTP."""

from __future__ import annotations

import shutil
from urllib.parse import quote

import numpy as np
import pytest
from services import TOKEN, application, running
from sklearn.datasets import load_digits

from sihash.client import ServiceError
from sihash.database import Database

BEARER = {"authorization": f"Bearer {TOKEN}"}
ODD = ["a/b.png", "../../etc/passwd", "x?y=1#z", "50%", "%2F", "a b", "é", "search", "0/search", "...", "7"]
X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Vectors under ids that are hard on addresses, with columns."""
    path = tmp_path_factory.mktemp("ids") / "vectors"
    ids = [*ODD, *(f"item {k}" for k in range(len(ODD), 200))]
    columns = {"price": list(range(200)), "colour": ["red", None] * 100}
    Database.create(path, X[:200], Y[:200], ids=ids, columns=columns, n_bits=16, n_anchors=60).close()
    return path


@pytest.fixture
def http(made, tmp_path):
    with application(shutil.copytree(made, tmp_path / "vectors"), tmp_path) as client:
        client.headers.update(BEARER)
        yield client


@pytest.fixture(scope="module")
def client(made, tmp_path_factory):
    copy = shutil.copytree(made, tmp_path_factory.mktemp("run") / "vectors")
    with running(copy) as service, service.client() as client:
        yield client


@pytest.mark.parametrize("own", ODD)
def test_every_id_has_an_address(client, made, own):
    with Database(made) as library:
        item, [expected] = library.item(own), library.search_ids([own], k=5)
    found = client.item(own)
    assert (found.id, found.columns, found.sha256) == (own, item.columns, item.sha256)
    answer = client.search_item(own, k=5)
    assert [(hit.id, hit.columns) for hit in answer.hits] == [(hit.id, hit.columns) for hit in expected.hits]
    assert client.thumbnail(own) is None
    assert client.remove([own]).removed == [own]
    client.undo()


def test_an_item_is_removed_by_its_address(http):
    assert http.delete("/v1/items/a%2Fb.png").json()["removed"] == ["a/b.png"]
    assert http.get("/v1/items/a%2Fb.png").status_code == 404
    assert http.get("/v1/items/a/b.png").status_code == 404


def test_conditions(client, made):
    where = "price < 20 and colour = 'red'"
    with Database(made) as library:
        [expected] = library.search(X[300], k=30, where=where)
        items = [item.id for item in library.items(where=where)]
    assert len(items) == 10
    found = client.search_vector(X[300], k=30, where=where)
    assert [hit.id for hit in found.hits] == [hit.id for hit in expected.hits]
    assert sorted(hit.id for hit in client.search_item("50%", k=30, where=where).hits) == sorted(
        set(items) - {"50%"}
    )
    assert [item.id for item in client.items(where=where).items] == items
    assert client.info().columns == {"price": "number", "colour": "text"}
    for wrong in ("cost < 3", "price <", "price = 'x'"):
        for ask in (
            lambda wrong=wrong: client.items(where=wrong),
            lambda wrong=wrong: client.search_item("50%", where=wrong),
            lambda wrong=wrong: client.search_vector(X[300], where=wrong),
        ):
            with pytest.raises(ServiceError, match=r"cost|price") as caught:
                ask()
            assert caught.value.status == 422


def test_adding_and_replacing(client):
    before = client.info().n_items
    columns = {"price": [7, None], "note": ["x", "y"]}
    report = client.add_vectors(X[300:302], ["3", None], ids=["new", 12], columns=columns)
    assert (report.added, report.replaced) == (["new", 12], [])
    assert client.item("new").columns == {"price": 7, "note": "x"}
    with pytest.raises(ServiceError, match="id 'new' is there already") as caught:
        client.add_vectors(X[302:303], ["3"], ids=["new"])
    assert caught.value.status == 409
    report = client.add_vectors(X[302:303], ["3"], ids=["new"], replace=True)
    assert (report.added, report.replaced) == (["new"], ["new"])
    assert client.info().n_items == before + 2
    assert client.item("new").columns == {}
    assert client.add_vectors(X[303:304], [None]).added[0] > 12
    for _ in range(3):
        client.undo()
    assert client.info().n_items == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"ids": [True]}, 422),
        ({"ids": [1.5]}, 422),
        ({"ids": [1.0]}, 404),  # JSON knows one kind of number
        ({"ids": [None]}, 422),
        ({"ids": [""]}, 422),
        ({"ids": ["x" * 1001]}, 422),
        ({"ids": [2**63]}, 422),
        ({"ids": ["1_0"]}, 404),
        ({"ids": [0]}, 404),
        ({"ids": [7]}, 404),  # the id is the text "7"
        ({"ids": ["A/B.png"]}, 404),
        ({"ids": ["\ud800"]}, 422),
    ],
)
def test_ids_in_a_body_are_exact(http, body, status):
    import json

    answer = http.post(
        "/v1/items/remove", content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert answer.status_code == status
    assert isinstance(answer.json()["detail"], str)
    assert http.get("/v1/info").json()["n_items"] == 200


@pytest.mark.parametrize("number", ["1_0", "007", " 7", "+7", "7.0", "\u0667"])
def test_numbers_in_an_address_are_exact(vector_template, tmp_path, number):
    with application(shutil.copytree(vector_template, tmp_path / "vectors"), tmp_path) as http:
        assert http.get("/v1/items/7").json()["id"] == 7
        assert http.get(f"/v1/items/{number}").status_code == 404


def test_numbers_in_a_body_are_numbers(vector_template, tmp_path):
    with application(shutil.copytree(vector_template, tmp_path / "vectors"), tmp_path) as http:
        for wrong, status in ((["0"], 404), ([True], 422), ([0, "1"], 404)):
            answer = http.post("/v1/items/remove", json={"ids": wrong}, headers=BEARER)
            assert answer.status_code == status
        assert http.get("/v1/info").json()["n_items"] == 300


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{"id": "a"}, {}], "an id each, or all without"),
        ([{"id": "a"}, {"id": "A"}], "differ only in case"),
        ([{"id": "a", "columns": {"price": "x"}}], "'price' holds numbers in the database"),
        ([{"id": "a", "columns": {"new": 1}}, {"id": "b", "columns": {"new": "x"}}], "mixes number"),
        ([{"id": "a", "columns": {"price": 10**30}}], "64 bits"),
        ([{"id": "a", "columns": {"price": [1]}}], "columns.price"),
    ],
)
def test_what_cannot_be_added_is_said(http, items, message):
    body = {"items": [{"vector": X[k].tolist(), **item} for k, item in enumerate(items, 300)]}
    answer = http.post("/v1/items/batch", json=body)
    assert answer.status_code == 422
    assert message in answer.json()["detail"]
    assert http.get("/v1/info").json()["n_items"] == 200


def test_an_image_under_an_id(in_process, digits):
    data = digits[410][0]
    params = {"id": "photos/1.png", "label": "3"}
    headers = {**BEARER, "content-type": "image/png"}
    assert in_process.post("/v1/items", params=params, content=data, headers=headers).json()["added"] == [
        "photos/1.png"
    ]
    assert in_process.get("/v1/items/photos%2F1.png/thumbnail").content[:3] == b"\xff\xd8\xff"
    other = digits[411][0]
    answer = in_process.post("/v1/items", params=params, content=other, headers=headers)
    assert (answer.status_code, "photos/1.png" in answer.json()["detail"]) == (409, True)
    answer = in_process.post("/v1/items", params={**params, "replace": True}, content=other, headers=headers)
    assert answer.json()["replaced"] == ["photos/1.png"]


@pytest.mark.parametrize("id", ["photos/2.png", "123456"])
def test_a_replaced_picture_is_not_shown_from_a_cache(in_process, digits, id):
    """Under an id of the user, text or a number, another picture may come at any moment."""
    url = f"/v1/items/{quote(id, safe='')}/thumbnail"

    def post(k):
        params = {"id": id, "label": "3", "replace": True}
        headers = {**BEARER, "content-type": "image/png"}
        return in_process.post("/v1/items", params=params, content=digits[k][0], headers=headers)

    post(420)
    first = in_process.get(url)
    assert first.headers["cache-control"] == "private, no-cache"
    kept = {"if-none-match": first.headers["etag"]}
    again = in_process.get(url, headers=kept)
    assert (again.status_code, again.content) == (304, b"")
    post(421)
    other = in_process.get(url, headers=kept)
    assert other.status_code == 200
    assert other.content != first.content
    assert "max-age" not in other.headers["cache-control"]
