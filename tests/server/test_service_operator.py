"""For who runs it at night: the log, ids of requests, a service that changes nothing, /docs."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys

import pytest
from services import TOKEN, Served, application, is_ready, wait_until

from ports import free_port
from sihash.database import Database
from sihash.server import logs

BEARER = {"authorization": f"Bearer {TOKEN}"}
WRITES = [
    ("POST", "/v1/undo"),
    ("POST", "/v1/updates"),
    ("POST", "/v1/items/remove"),
    ("DELETE", "/v1/items/1"),
]


def test_a_line_of_json_per_request_and_per_update(vector_template, tmp_path):
    """Settings come from the environment here; the token and what a query asks for are in no line."""
    copy = shutil.copytree(vector_template, tmp_path / "vectors")
    port = free_port()
    environment = {"SIHASH_TOKEN": TOKEN, "SIHASH_PORT": str(port), "SIHASH_LOG_LEVEL": "info"}
    environment |= {"SIHASH_LOG_FORMAT": "json", "SIHASH_WORKERS": "1"}
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sihash", "serve", str(copy)], env=os.environ | environment, stderr=log
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(address), process)
        with Served(address, copy, process).client() as client:
            assert client.update("relearn").state == "done"
            client._http.get("/v1/items?where=secret", headers={"x-request-id": "from-a-proxy.7"})
    finally:
        process.terminate()
        process.wait()
    text = (tmp_path / "log").read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    [request] = [line for line in lines if line["request_id"] == "from-a-proxy.7"]
    assert (request["method"], request["path"], request["route"]) == ("GET", "/v1/items", "/v1/items")
    assert (request["status"], request["level"], request["client"]) == (422, "info", "127.0.0.1")
    assert request["milliseconds"] > 0
    [update] = [line for line in lines if line.get("event") == "update"]
    with Database(copy) as database:
        assert update["version"] == database.version
    assert update["strategy"] == "relearn"
    assert f"made version {update['version']}" in update["message"]
    assert TOKEN not in text
    assert "secret" not in text


def test_every_answer_has_the_id_of_its_request(template, tmp_path):
    with application(template, tmp_path) as client:
        given = client.get("/v1/info", headers={"x-request-id": "abc-1"}).headers["x-request-id"]
        made = [client.get("/v1/info").headers["x-request-id"] for _ in range(2)]
        forged = client.get("/v1/info", headers={"x-request-id": "a b<i>"}).headers["x-request-id"]
        refused = client.post("/v1/undo").headers["x-request-id"]
    assert given == "abc-1"
    assert len({*made, forged, refused}) == 4
    assert all(re.fullmatch("[0-9a-f]{32}", id) for id in (*made, forged, refused))


@pytest.mark.parametrize("format", [logs.TextLines(), logs.JsonLines()])
def test_no_message_begins_a_line_of_its_own_in_json(format):
    record = logging.LogRecord("sihash", logging.ERROR, "", 0, "bad %s", ("\n{}",), None)
    try:
        raise ValueError("why")
    except ValueError:
        record.exc_info = sys.exc_info()
    line = format.format(record)
    assert "ValueError: why" in line
    if isinstance(format, logs.JsonLines):
        assert "\n" not in line
        assert json.loads(line)["message"] == "bad \n{}"


def test_a_read_only_service_changes_nothing(template, tmp_path):
    with application(template, tmp_path, read_only=True) as client:
        for method, path in WRITES:
            answer = client.request(method, path, headers=BEARER)
            assert (answer.status_code, answer.json()["detail"]) == (403, "This service is read-only.")
        assert client.post("/v1/token", headers=BEARER).status_code == 200  # where reading needs it
        assert client.get("/v1/items/1/search").status_code == 200
        assert client.get("/v1/info").json()["read_only"]
        described = client.get("/openapi.json").json()["paths"]
    methods = {(method, path) for path, routes in described.items() for method in routes}
    assert {path for method, path in methods if method != "get"} == {
        "/v1/search/image",
        "/v1/classify/image",
        "/v1/items/by-id",
        "/v1/token",
    }


def test_a_read_only_service_on_this_machine_needs_no_token(template, tmp_path):
    copy = shutil.copytree(template, tmp_path / "digits")
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "SIHASH_TOKEN"}
    command = [sys.executable, "-m", "sihash", "serve", str(copy), "--read-only", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: is_ready(f"http://127.0.0.1:{port}"), process)
    finally:
        process.terminate()
        _, told = process.communicate()
    assert "token" not in told
    assert not (copy / "service").exists()


def test_the_description_for_people_is_whole_and_asks_for_nothing_from_outside(template, tmp_path):
    with application(template, tmp_path) as client:
        answer = client.get("/docs")
        described = client.get("/openapi.json").json()["paths"]
        for path in re.findall(r'(?:src|href)="([^"#]+)"', answer.text):
            assert client.get(path).status_code == 200, path
    assert answer.headers["content-type"].startswith("text/html")
    for path, routes in described.items():
        for method in routes:
            assert f"<code>{method.upper()} {path}</code>" in answer.text
    assert "http:" not in answer.text
    assert "https:" not in answer.text
    assert "<script" not in answer.text
    assert "style=" not in answer.text
