"""`sihash serve`: the token is shown once, errors are sentences."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import closing, contextmanager

import httpx
import pytest
from services import is_ready, wait_until
from typer.testing import CliRunner

from ports import free_port
from sihash.cli import app
from sihash.database import Database
from sihash.server.tokens import PLACE


@contextmanager
def serving(database):
    """The command as a user starts it; yields its address and what it said so far."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "SIHASH_TOKEN"}
    command = [sys.executable, "-m", "sihash", "serve", str(database), "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(address), process)
        yield address, said
    finally:
        process.terminate()
        said.append(process.communicate(timeout=30)[1])


def may_write(address, token):
    answer = httpx.post(f"{address}/v1/token", headers={"authorization": f"Bearer {token}"})
    return answer.status_code == 200


def test_the_token_is_shown_on_the_first_start_only(template, tmp_path):
    database = shutil.copytree(template, tmp_path / "digits")
    with serving(database) as (address, first):
        assert not may_write(address, "x" * 43)
    token = re.search(r"shown this once: (\S+)", first[0])[1]
    assert f"#token={token}" in first[0]
    assert (database / PLACE).stat().st_mode & 0o777 == 0o600
    with serving(database) as (address, second):
        assert may_write(address, token)
    assert "#token" not in second[0]
    assert token not in second[0]
    with Database(database) as opened:
        assert opened.verify() == []  # the file of the token is none of its business


def test_errors_are_sentences(tmp_path, template):
    for arguments in (["nowhere"], [str(template), "--token", "short"]):
        result = CliRunner().invoke(app, ["serve", *arguments], env={"SIHASH_TOKEN": None})
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("127.0.0.1", "Address already in use"),
        ("1.2.3.4", ""),  # of these systems speak differently
        ("nosuch.invalid", ""),
    ],
)
def test_where_it_cannot_listen_nothing_is_promised(template, tmp_path, host, reason, workers):
    database = shutil.copytree(template, tmp_path / "digits")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        arguments = ["serve", str(database), "--host", host, "--port", port, "--workers", workers]
        result = CliRunner().invoke(app, arguments, env={"SIHASH_TOKEN": None})
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: The service cannot listen on {host}:{port}: {reason}")
    assert "choose another --port or --host" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (database / PLACE).exists()  # the token that is shown once is not spent


def test_a_service_that_does_not_start_is_an_error(template, tmp_path, monkeypatch):
    """The server under it would end with 3, which says that files were rejected."""
    monkeypatch.setattr("uvicorn.Server.run", lambda *_: sys.exit(3))
    database = shutil.copytree(template, tmp_path / "digits")
    arguments = ["serve", str(database), "--port", str(free_port())]
    result = CliRunner().invoke(app, arguments, env={"SIHASH_TOKEN": "a-token-of-its-own"})
    assert result.exit_code == 1
    assert "Error: The service did not start" in result.stderr


@pytest.mark.parametrize("options", [["--host", ""], ["--token", "x" * 20, "--new-token"]])
def test_wrong_command_lines(template, options):
    assert CliRunner().invoke(app, ["serve", str(template), *options]).exit_code == 2


@pytest.mark.parametrize("package", ["uvicorn", "fastapi"])
def test_a_missing_package_is_told_with_its_extra(template, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "sihash.server.run", raising=False)
    result = CliRunner().invoke(app, ["serve", str(template)])
    assert result.exit_code == 1
    assert result.stderr == f"Error: The service needs {package}: pip install 'sihash[service]'.\n"
