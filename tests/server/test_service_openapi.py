"""The description of a service is that of its database, and refusals name what is there."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
from services import TOKEN, application

from sihash.database import Database
from sihash.server.app import create_app
from sihash.server.settings import ServerSettings

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def over_vectors(tmp_path_factory):
    """Sixty vectors of four numbers, with columns of every kind."""
    folder = tmp_path_factory.mktemp("openapi")
    X = np.random.default_rng(0).normal(size=(60, 4))
    columns = {"price": np.arange(60.0), 'a "b"': ["x", "y", "z"] * 20, "new": [True, False] * 30}
    Database.create(folder / "db", X, np.arange(60) % 3, columns=columns, n_bits=8, n_anchors=8).close()
    with application(folder / "db", folder) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client


def test_vectors_have_the_length_of_those_in_the_database(over_vectors):
    description = over_vectors.get("/openapi.json").json()
    schemas = description["components"]["schemas"]
    for name in ("VectorSearch", "VectorQuery", "BatchItem"):
        vector = schemas[name]["properties"]["vector"]
        assert (vector["minItems"], vector["maxItems"], vector["type"]) == (4, 4, "array")
    assert schemas["BatchItem"]["required"] == ["vector"]
    assert "image" not in schemas["BatchItem"]["properties"]
    assert "/v1/search/image" not in description["paths"]
    assert "post" not in description["paths"]["/v1/items"]


def test_conditions_are_described_by_the_columns(over_vectors):
    description = over_vectors.get("/openapi.json").json()
    where = description["components"]["schemas"]["VectorSearch"]["properties"]["where"]
    pattern = where["anyOf"][0]["pattern"]
    assert len(where["examples"]) == 3
    for text in [*where["examples"], " and ".join(where["examples"]), '"price" >= -2.5']:
        assert re.search(pattern, text)
        assert over_vectors.get("/v1/items", params={"where": text}).status_code == 200, text
    for text in ('"cost" = 1', "\"price\" = 'a'", '"new" < true', "nonsense"):
        assert not re.search(pattern, text)
        assert over_vectors.get("/v1/items", params={"where": text}).status_code == 422, text


def test_a_database_of_images_without_columns(in_process):
    description = in_process.get("/openapi.json").json()
    assert "/v1/search/vector" not in description["paths"]
    assert description["components"]["schemas"]["BatchItem"]["required"] == ["image"]
    names = [each["name"] for each in description["paths"]["/v1/search/image"]["post"]["parameters"]]
    assert names == ["k", "radius", "rank", "class", "before_update"]


def test_in_general_all_routes_are_described():
    paths = create_app(ServerSettings("nowhere", "nowhere", "none")).openapi()["paths"]
    assert {"/v1/search/image", "/v1/search/vector"} <= set(paths)


def test_what_the_database_cannot_hold_is_refused_by_what_it_holds(over_vectors, in_process, digits):
    send = {"content": digits[0][0], "headers": {"content-type": "image/png"}}
    for path in ("/v1/search/image", "/v1/classify/image", "/v1/items"):
        answer = over_vectors.post(path, **send)
        expected = "This database holds vectors of 4 numbers, so it takes no images."
        assert (answer.status_code, answer.json()["detail"]) == (422, expected)
    for path in ("/v1/search/vector", "/v1/classify/vector"):
        answer = in_process.post(path, json={"vector": [1.0]})
        expected = "This database holds images, so it takes no vectors."
        assert (answer.status_code, answer.json()["detail"]) == (422, expected)


def test_json_without_its_content_type_is_told_so(over_vectors):
    for headers in (
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ):
        answer = over_vectors.post("/v1/search/vector", content=b'{"vector": [1, 2, 3, 4]}', headers=headers)
        assert answer.status_code == 415
        assert answer.json()["detail"] == "Expected a JSON body, with a Content-Type of application/json."
    assert over_vectors.post("/v1/search/vector", json={"vector": [1, 2, 3, 4]}).status_code == 200


def test_a_wrong_method_is_told_all_right_ones(over_vectors):
    general = create_app(ServerSettings("nowhere", "nowhere", "none")).openapi()["paths"]
    for path, methods in general.items():
        answer = over_vectors.request("PATCH", path.replace("{id}", "1"))
        assert answer.status_code == 405
        assert set(answer.headers["allow"].split(", ")) >= {method.upper() for method in methods}, path
    assert over_vectors.request("PATCH", "/v1/items/1").headers["allow"] == "DELETE, GET"
    assert over_vectors.request("PATCH", "/v1/items/batch").headers["allow"] == "DELETE, GET, POST"
    assert over_vectors.request("PATCH", "/nothing").status_code == 404


def test_metrics_go_by_the_route_whoever_answers(template, tmp_path):
    """Also what the guard refuses, and ids with slashes; only paths that are no route count as none."""
    with application(shutil.copytree(template, tmp_path / "digits"), tmp_path) as client:
        client.post("/v1/undo")  # 401
        client.get("/v1/items/a%2Fb")  # 404
        client.get("/v1/info", headers={"host": "evil.example"})  # 421
        client.put("/v1/items/7", headers=BEARER)  # 405
        client.get("/nothing/like/it")
        lines = client.get("/metrics").text.splitlines()
    counted = {line.rpartition(" ")[0] for line in lines if line.startswith("sihash_requests_total")}
    for route, status in [
        ("/v1/undo", 401),
        ("/v1/items/{id}", 404),
        ("/v1/info", 421),
        ("/v1/items/{id}", 405),
        ("none", 404),
    ]:
        assert f'sihash_requests_total{{route="{route}",status="{status}"}}' in counted
    assert len(counted) == 5
