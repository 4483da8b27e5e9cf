"""`sihash serve`: the token is shown once, errors are sentences."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager

import httpx
from services import is_ready, wait_until
from typer.testing import CliRunner

from ports import free_port
from sihash.cli import app
from sihash.database import ImageDatabase
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
    with ImageDatabase(database) as opened:
        assert opened.verify() == []  # the file of the token is none of its business


def test_errors_are_sentences(tmp_path, template):
    for arguments in (["nowhere"], [str(template), "--token", "short"]):
        result = CliRunner().invoke(app, ["serve", *arguments], env={"SIHASH_TOKEN": None})
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
