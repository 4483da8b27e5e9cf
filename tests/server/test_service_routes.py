"""The routes give what the library gives, and change what they say; by the typed client of a real service."""

from __future__ import annotations

import base64
import io
import shutil
import threading
import time
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from PIL import Image
from pydantic import TypeAdapter
from services import N_KNOWN, TOKEN, application, running
from sklearn.datasets import load_digits

import sihash.client
from sihash.client import Client, ServiceError
from sihash.database import Database
from sihash.database.answers import Answer

PATH_LIKE = [
    "../../etc/passwd",
    "/etc/passwd",
    "..\\..\\windows\\win.ini",
    "C:\\windows",
    "\\\\host\\share",
    "a\0b",
    "%2e%2e%2f",
    "file:///etc/passwd",
    "http://127.0.0.1:1/x.png",
    ".",
    "~",
    "' OR 1=1; --",
    "<img src=x onerror=alert(1)>",
    "ünïcode/日本",
    "x" * 199,
]


@pytest.fixture(scope="module")
def client(served):
    with served.client() as client:
        yield client


@pytest.fixture(scope="module")
def library(served):
    with Database(served.database) as database:
        yield database


def plain(answer):
    """An answer of either side: the same words."""
    hits = [(hit.id, hit.label, hit.name, hit.distance, pytest.approx(hit.score)) for hit in answer.hits]
    return answer.version, answer.rank, hits


@pytest.mark.parametrize(
    "options", [{}, {"k": 3}, {"k": 50, "classes": ["2", "5"]}, {"rank": "hamming", "k": 7}]
)
def test_search_by_item_is_that_of_the_library(client, library, options):
    for number in (0, 17, 101):
        [expected] = library.search_ids([number], **options)
        found = client.search_item(number, **options)
        assert plain(found) == plain(expected)
        assert found.query_code == expected.query_code
        assert [hit.code for hit in found.hits] == [hit.code for hit in expected.hits]
        assert number not in [hit.id for hit in found.hits]


def test_search_by_image_is_that_of_the_library(client, library, digits):
    for data, _ in digits[N_KNOWN : N_KNOWN + 5]:
        [expected] = library.search([data], k=12)
        assert plain(client.search(data, k=12)) == plain(expected)


def test_a_large_photo_is_decoded_as_the_library_decodes_it(client, library):
    """JPEGs are shrunk while they are decoded; the code must come out the same."""
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)).resize((1600, 1200))
    file = io.BytesIO()
    noise.save(file, "JPEG")
    [expected] = library.search([file.getvalue()], k=5)
    assert client.search(file.getvalue(), k=5).query_code == expected.query_code


def test_radius_leaves_out_what_is_further(client, digits):
    data, _ = digits[N_KNOWN]
    everything = client.search(data, k=1000, rank="hamming").hits
    for radius in (0, 3, 9, 32):
        within = client.search(data, k=1000, radius=radius, rank="hamming").hits
        assert within == [hit for hit in everything if hit.distance <= radius]


def test_classify_is_that_of_the_library(client, library, digits):
    data, _ = digits[N_KNOWN + 1]
    [expected] = library.classify([data])
    found = client.classify(data)
    assert found == expected
    assert sum(found.probabilities.values()) == pytest.approx(1)


def test_items_info_and_bits(client, library):
    info, items = client.info(), client.items(limit=1000).items
    assert info.n_items == len(items) == len(library)
    assert info.name == "digits"
    counts = {one.label: one.n_items for one in info.classes}
    assert counts == library.info()["classes"]
    assert [item.id for item in client.items(offset=10, limit=5).items] == [item.id for item in items[10:15]]
    assert {item.label for item in client.items(classes=["3"]).items} == {"3"}
    assert client.item(5) == items[5]
    assert not hasattr(info, "path")
    bits = client.bits()
    assert len(bits.balance) == info.n_bits
    assert bits.classes == library.bits().classes
    assert bits.margins == pytest.approx(library.bits().margins)


def test_evaluation_is_kept_until_the_database_changes(in_process):
    first = in_process.get("/v1/evaluation").json()
    assert [row["name"] for row in first["rows"]][:2] == ["sihash", "cosine"]
    assert first["advice"].endswith(".")
    assert "asked a collection without them" in first["note"]
    assert in_process.get("/v1/evaluation").json() == first  # times and all
    in_process.delete("/v1/classes", params={"label": "3"}, headers={"authorization": f"Bearer {TOKEN}"})
    second = in_process.get("/v1/evaluation").json()
    assert second["n_items"] < first["n_items"]
    in_process.app.state.service.database.remove_classes(in_process.app.state.service.database.labels())
    refused = in_process.get("/v1/evaluation")
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "Nothing to evaluate: no item has a label.",
    )


def test_the_client_gets_the_evaluation(client, library):
    found = client.evaluation()
    assert found.version == library.version
    assert (
        found.rows[0].bytes_per_item == 4 + (8 + 4 + library.info()["n_features"] // 2) + 4
    )  # code, sketch, label


def test_the_doctor_is_kept_until_a_label_is_mended(in_process):
    database = in_process.app.state.service.database
    right = database.item(7).label
    database.relabel([7], "5")
    first = in_process.get("/v1/doctor").json()
    assert in_process.get("/v1/doctor").json() == first
    (finding,) = [each for each in first["findings"] if each["items"][0]["id"] == 7]
    assert (finding["kind"], finding["label"], finding["mend"]) == (
        "wrong label",
        right,
        ["relabel", "7", right],
    )
    assert first["found"] == database.doctor().found
    order = {"ids": [7], "label": finding["label"]}
    mended = in_process.post("/v1/items/relabel", json=order, headers={"authorization": f"Bearer {TOKEN}"})
    assert mended.json() == {"version": 1, "relabelled": [7], "label": right, "labels": [right]}
    second = in_process.get("/v1/doctor").json()
    assert 7 not in [each["items"][0]["id"] for each in second["findings"]]


def test_the_client_relabels_and_undoes(client, library):
    before = library.info()["classes"]
    assert client.relabel([3, 4], "new").relabelled == [3, 4]
    assert {item.id for item in client.items(classes=["new"]).items} == {3, 4}
    assert {hit.label for hit in client.search_item(3, k=5, classes=["new"]).hits} == {"new"}
    assert client.relabel_classes(["new"], None).relabelled == [3, 4]
    assert client.item(4).label is None
    assert [client.undo().undone for _ in range(2)] == ["relabel", "relabel"]
    assert library.info()["classes"] == before
    assert client.doctor().version == library.version


def test_thumbnails(client):
    with Image.open(io.BytesIO(client.thumbnail(3))) as image:
        assert image.format == "JPEG"
    assert client.thumbnail(10**9) is None


def test_originals(folder_template, tmp_path, client):
    with (
        application(folder_template, tmp_path) as http,
        Database(folder_template) as library,
    ):
        for item in library.sample(5):
            answer = http.get(f"/v1/items/{quote(item.id, safe='')}/image")
            assert answer.content == Path(item.path).read_bytes()
            assert answer.headers["content-type"] == "image/png"
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert http.get("/v1/items/no%20such/image").status_code == 404
    assert client.original(3) is None  # it came from memory
    with pytest.raises(ServiceError) as caught:
        client.original(10**9)
    assert caught.value.status == 404


def test_no_picture_of_a_vector_is_no_error(of_vectors):
    http, _ = of_vectors
    for kind in ("thumbnail", "image"):
        answer = http.get(f"/v1/items/1/{kind}")
        assert (answer.status_code, answer.content) == (204, b"")
    info = http.get("/v1/info").json()
    assert (info["thumbnails"], info["about_features"]) == (False, "the vectors are the user's")


def test_a_sample_is_what_the_library_draws(client, library):
    found = client.sample(20, seed=3)
    assert [item.id for item in found.items] == [item.id for item in library.sample(20, seed=3)]
    assert len({item.label for item in found.items}) == 7
    assert {item.label for item in client.sample(20, classes=["2"]).items} == {"2"}


def test_hits_say_why(client, library):
    for mine, theirs in zip(
        client.search_item(5, k=4).hits, library.search_ids([5], k=4)[0].hits, strict=True
    ):
        assert vars(mine.why) == pytest.approx(vars(theirs.why), abs=1e-4)


def test_what_is_not_there_is_404(client):
    for ask in (
        lambda: client.item(10**12),
        lambda: client.search_item(10**12),
        lambda: client.items(classes=["no such class"]),
        lambda: client.search_item(1, classes=["no such class"]),
        lambda: client.remove_class("no such class"),
        lambda: client.remove([10**12]),
        lambda: client.relabel([10**12], "1"),
        lambda: client.relabel_classes(["no such class"], "1"),
    ):
        with pytest.raises(ServiceError) as caught:
            ask()
        assert caught.value.status == 404


def test_add_find_remove_undo(client, digits):
    data, label = digits[N_KNOWN + 20]
    before = client.info().n_items
    [number] = client.add(data, label=label, name="twenty.png").added
    assert client.item(number).name == "twenty.png"
    assert client.item(number).label == label
    nearest = client.search(data, k=1000, rank="hamming").hits
    assert number in [hit.id for hit in nearest if hit.distance == 0]

    assert client.add(data, label=label).skipped  # the same content
    assert client.info().n_items == before + 1

    assert client.remove([number]).removed == [number]
    assert number not in [hit.id for hit in client.search(data, k=1000).hits]
    assert client.thumbnail(number) is None
    assert client.undo().undone == "remove"
    assert client.item(number).id == number
    assert client.undo().undone == "add"
    assert client.info().n_items == before


def test_add_a_batch_and_remove_its_class(client, digits):
    images = {f"{k}.png": digits[k][0] for k in range(N_KNOWN + 30, N_KNOWN + 34)} | {
        "broken.png": b"no image"
    }
    before = {one.label: one.n_items for one in client.info().classes}
    report = client.add_batch(images, label="a new class")
    assert len(report.added) == 4
    assert [(one.name, "not a picture" in one.reason) for one in report.rejected] == [("broken.png", True)]
    assert client.items(classes=["a new class"]).items[0].name == f"{N_KNOWN + 30}.png"
    assert client.remove_class("a new class").removed == report.added
    assert {one.label: one.n_items for one in client.info().classes} == before


@pytest.mark.parametrize("name", PATH_LIKE)
def test_names_that_look_like_paths_are_just_names(client, served, digits, name):
    """In every field that takes text, and in none does a file come or go."""
    data, _ = digits[N_KNOWN + 40]
    around = sorted(served.database.parent.rglob("*"))
    [number] = client.add(data, label=name, name=name).added
    item = client.item(number)
    assert (item.name, item.label) == (name, name)
    assert client.search_item(0, classes=[name], k=1).hits[0].id == number
    assert client.items(classes=[name]).items == [item]
    assert client.remove_class(name).removed == [number]
    new = set(served.database.parent.rglob("*")) - set(around)
    assert all(path.parent.name in ("segments", "models", "digits") for path in new)
    for ask in (lambda: client.remove_class(name), lambda: client.search_item(0, classes=[name])):
        with pytest.raises(ServiceError) as caught:
            ask()
        assert caught.value.status in (404, 422)


def test_ids_that_are_no_numbers_are_refused(served):
    with httpx.Client(base_url=served.address) as http:
        for name in ("..%2f..%2fetc%2fpasswd", "-1", "1.5", "9" * 30, "NaN", "%00"):
            for tail in ("", "/thumbnail", "/search"):
                assert http.get(f"/v1/items/{name}{tail}").status_code in (404, 422)


def test_errors_tell_no_paths_and_no_traces(served, digits):
    """Whatever is wrong, the answer is one sentence that does not say where the database lies."""
    bearer = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=served.address, headers=bearer) as http:
        answers = [
            http.get("/v1/items/x"),
            http.get("/v1/nothing"),
            http.post("/v1/items", content=b"GIF89a", headers={"content-type": "image/gif"}),
            http.post("/v1/items", content=b"x", headers={"content-type": "text/plain"}),
            http.post("/v1/items/batch", content=b"{", headers={"content-type": "application/json"}),
            http.post("/v1/search/vector", json={"vector": [1.0]}),
            http.post("/v1/items/remove", json={"ids": [10**15]}),
            http.get("/v1/items", params={"limit": 0}),
            http.request("BREW", "/v1/items"),
        ]
    for answer in answers:
        assert 400 <= answer.status_code < 500
        sentence = answer.json()["detail"]
        assert isinstance(sentence, str)
        assert str(served.database) not in answer.text
        assert "Traceback" not in answer.text


def test_a_batch_is_checked(served):
    bearer = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=served.address, headers=bearer) as http:
        for items in (
            [],
            [{}],
            [{"image": "AAAA", "vector": [1.0]}],
            [{"image": "AAAA"}, {"vector": [1.0]}],
            [{"vector": [1.0]}, {"vector": [1.0, 2.0]}],
            [{"vector": [1.0], "other": 1}],
        ):
            assert http.post("/v1/items/batch", json={"items": items}).status_code == 422
        answer = http.post("/v1/items/batch", json={"items": [{"image": "no Base64 at all"}]})
        assert answer.status_code == 200
        assert answer.json()["rejected"][0]["reason"] == "is not Base64"
        big = base64.b64encode(bytes(17 << 20)).decode()
        answer = http.post("/v1/items/batch", json={"items": [{"image": big}]})
        assert "larger than" in answer.json()["rejected"][0]["reason"]


def test_metrics_count_by_route(client, served):
    client.search_item(1)
    text = httpx.get(f"{served.address}/metrics").text
    assert 'sihash_requests_total{route="/v1/items/{id}/search",status="200"}' in text
    assert f"sihash_items {float(client.info().n_items)}" in text


def test_the_client_says_what_the_service_said(served):
    with Client(served.address) as stranger, pytest.raises(ServiceError, match="token") as caught:
        stranger.undo()
    assert caught.value.status == 401
    assert sihash.client.Client is Client


# A database of vectors.


@pytest.fixture
def of_vectors(vector_template, tmp_path):
    copy = shutil.copytree(vector_template, tmp_path / "vectors")
    with application(copy, tmp_path) as http, Database(copy) as library:
        http.headers["authorization"] = f"Bearer {TOKEN}"
        yield http, library


def test_vectors(of_vectors):
    http, library = of_vectors
    X, y = load_digits(return_X_y=True)
    [expected] = library.search(X[400:401].astype(np.float32), k=5, classes=[3, 4])
    query = {"vector": X[400].tolist(), "k": 5, "classes": ["3", "4"]}
    found = TypeAdapter(Answer).validate_json(http.post("/v1/search/vector", json=query).content)
    assert plain(found) == plain(expected)
    [expected] = library.classify(X[400:401].astype(np.float32))
    assert (
        http.post("/v1/classify/vector", json={"vector": X[400].tolist()}).json()["label"] == expected.label
    )
    items = [{"vector": X[k].tolist(), "label": str(y[k])} for k in (400, 401)]
    number, _ = http.post("/v1/items/batch", json={"items": items}).json()["added"]
    assert library.item(number).label == int(y[400])  # a number, as the labels there are
    [number] = http.post(
        "/v1/items/batch", json={"items": [{"vector": X[402].tolist(), "label": "-2"}]}
    ).json()["added"]
    assert library.item(number).label == -2
    assert http.request("DELETE", "/v1/classes", params={"label": "-2"}).json()["removed"] == [number]
    assert http.get(f"/v1/items/{number}/thumbnail").status_code == 404
    for wrong in ([1.0], [1e300] * 64):
        assert http.post("/v1/search/vector", json={"vector": wrong}).status_code == 422


def test_a_number_stays_one_when_words_join(of_vectors):
    """The class 3 gets no twin "3", whatever came between."""
    http, library = of_vectors

    def add(value, label):
        items = [{"vector": [value] * 64, "label": label}]
        [number] = http.post("/v1/items/batch", json={"items": items}).json()["added"]
        return number

    first, _, second = add(3.1, "3"), add(3.2, "zebra"), add(3.3, "3")
    assert library.item(first).label == library.item(second).label == 3
    assert "3" not in library.labels()
    threes = [item.id for item in library.items(limit=1000, classes=[3])]
    listed = http.get("/v1/items", params={"class": "3", "limit": 1000}).json()["items"]
    assert [item["id"] for item in listed] == threes
    assert http.request("DELETE", "/v1/classes", params={"label": "3"}).json()["removed"] == threes


def test_labels_are_read_when_it_is_their_turn(of_vectors):
    """While one waits to write, "12" may become a word: what came first decides for what waits."""
    http, library = of_vectors
    answers, asking = [], threading.Event()

    def ask():
        items = [{"vector": [7.0] * 64, "label": "12"}]
        asking.set()
        answers.append(http.post("/v1/items/batch", json={"items": items}).json()["added"])

    def while_it_writes(step, done):
        if not asking.is_set():
            other.start()
            asking.wait()
            time.sleep(0.5)  # in which it gets as far as the lock

    other = threading.Thread(target=ask)
    library.add(np.outer([5.0, 6.0], np.ones(64)), ["zebra", "12"], progress=while_it_writes)
    other.join()
    [[number]] = answers
    assert library.item(number).label == "12"
    assert 12 not in library.labels()


def test_vectors_through_the_client(vector_template, tmp_path):
    X, y = load_digits(return_X_y=True)
    with running(shutil.copytree(vector_template, tmp_path / "vectors")) as service:
        client = service.client()
        assert client.search_vector(X[0], k=3, classes=[int(y[0])]).hits[0].label == y[0]
        assert client.classify_vector(X[0]).label == y[0]
        report = client.add_vectors(X[300:303], y[300:303].tolist())
        assert [client.item(number).label for number in report.added] == y[300:303].tolist()


def test_images_are_refused_where_vectors_are(of_vectors, digits):
    http, _ = of_vectors
    for path in ("/v1/search/image", "/v1/classify/image", "/v1/items"):
        answer = http.post(path, content=digits[0][0], headers={"content-type": "image/png"})
        assert answer.status_code == 422


def test_the_description_has_examples_and_the_token(served):
    description = httpx.get(f"{served.address}/openapi.json").json()
    assert description["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert description["paths"]["/v1/undo"]["post"]["security"] == [{"token": []}]
    for route in ("/v1/items/{id}/search", "/v1/search/image"):
        [search] = description["paths"][route].values()
        example = search["responses"]["200"]["content"]["application/json"]["example"]
        [hit] = TypeAdapter(Answer).validate_python(example).hits
        assert hit.label == "cat"


def test_answers_are_those_of_the_library(client, library):
    """The same classes, equal field by field."""
    assert client.search_item(7, k=5) == library.search_ids([7], k=5)[0]
    assert client.versions().versions == library.versions()
    assert client.items(limit=5).items == library.items(limit=5)


def test_where_files_lie_is_nobodys_business(folder_template, tmp_path):
    with application(folder_template, tmp_path) as http, Database(folder_template) as library:
        item = library.items()[0]
        assert item.path
        id = quote(str(item.id), safe="")
        for place in (
            "/info",
            "/items?limit=9",
            f"/items/{id}",
            f"/items/{id}/search",
            "/doctor",
            "/versions",
        ):
            body = http.get(f"/v1{place}").text
            assert str(Path(item.path).parent) not in body
            assert '"path"' not in body
