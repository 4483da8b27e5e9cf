"""The container's files, as far as they can be checked where there is no Docker."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sihash.cli import app

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def instructions():
    """Pairs of instruction and arguments, lines joined, comments gone."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines()]


def last(instructions, name):
    return [arguments for instruction, arguments in instructions if instruction == name][-1]


def test_instructions_are_known(instructions):
    known = "FROM RUN COPY ENV USER WORKDIR VOLUME EXPOSE HEALTHCHECK ENTRYPOINT CMD"
    assert {instruction for instruction, _ in instructions} <= set(known.split())
    assert instructions[0][0] == "FROM"


def test_base_images_have_a_version(instructions):
    for instruction, arguments in instructions:
        if instruction == "FROM":
            assert re.match(r"[\w/]+:[\w.-]*\d", arguments)
            assert ":latest" not in arguments


def test_it_does_not_run_as_root(instructions):
    user = last(instructions, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    order = [instruction for instruction, _ in instructions]
    after = order[len(order) - order[::-1].index("USER") :]
    assert "RUN" not in after


def test_nothing_is_written_but_to_data_and_tmp(instructions):
    environment = last(instructions, "ENV")
    for name in ("NUMBA_CACHE_DIR", "HOME"):
        assert re.search(rf"{name}=/tmp", environment)


def test_the_health_check_asks_whether_the_service_is_ready(instructions):
    arguments = last(instructions, "HEALTHCHECK")
    command = json.loads(arguments.partition("CMD")[2])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "health check", "exec")
    assert "/v1/ready" in command[2]


def test_what_is_copied_is_there_and_not_ignored(instructions):
    ignored = [
        line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] not in ("#", "")
    ]
    kept = [line[1:] for line in ignored if line.startswith("!")]
    assert ignored[0] == "*"
    for instruction, arguments in instructions:
        if instruction == "COPY" and "--from" not in arguments:
            for name in arguments.split()[:-1]:
                assert (ROOT / name).exists()
                assert any(fnmatch.fnmatch(name, pattern) for pattern in kept)


def test_the_commands_are_those_of_sihash(instructions):
    assert json.loads(last(instructions, "ENTRYPOINT")) == ["sihash"]
    options = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).stdout
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["sihash"]
    for command in (json.loads(last(instructions, "CMD")), compose["command"]):
        assert command[0] == "serve"
        assert all(word in options for word in command if word.startswith("--"))


def test_the_compose_file_gives_away_no_more_than_it_must():
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["sihash"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert any(place.startswith("/tmp") for place in service["tmpfs"])
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "SIHASH_TOKEN" in service["environment"]
    assert "privileged" not in service
