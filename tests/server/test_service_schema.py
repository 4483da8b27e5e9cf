"""Whatever the description allows, and much that it does not: never a 5xx, and answers as described."""

from __future__ import annotations

import shutil
from urllib.parse import urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from services import IS_SOAK, SECONDS_OF_A_TEST, TOKEN, running

from sihash.server.app import create_app
from sihash.server.settings import ServerSettings

N_EXAMPLES = 1000 if IS_SOAK else 200
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
DESCRIPTION = create_app(ServerSettings("nowhere", "nowhere", "none")).openapi()
# A stream of events never ends; the tests of updates read it.
ROUTES = [
    (method.upper(), path)
    for path, methods in DESCRIPTION["paths"].items()
    for method in methods
    if path != "/v1/updates/events"
]


@pytest.fixture(scope="module")
def address(template, tmp_path_factory):
    copy = shutil.copytree(template, tmp_path_factory.mktemp("schema") / "digits")
    with running(copy) as service:
        yield service.address


@pytest.mark.timeout(SECONDS_OF_A_TEST)
@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda part: part)
def test_no_server_error(address, method, path):
    operation = schemathesis.openapi.from_dict(DESCRIPTION)[path][method]
    cases = [operation.as_strategy(generation_mode=mode) for mode in _modes(operation)]

    @given(case=st.one_of(cases))
    @settings(
        max_examples=N_EXAMPLES,
        deadline=None,
        database=None,
        derandomize=not IS_SOAK,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case):
        # Of a longer line the server reads 64 KiB, answers with 400 and hangs up; who still writes sees that.
        assume(len(urlencode(case.query or {}, doseq=True)) < 60_000)
        answer = case.call(base_url=address, headers={"authorization": f"Bearer {TOKEN}"}, timeout=60)
        case.validate_response(answer, checks=CHECKS)

    check()


def _modes(operation):
    """Requests as described and, where there is anything to get wrong, others."""
    takes_something = len(operation.path_parameters) or len(operation.query) or len(operation.body)
    return list(GenerationMode) if takes_something else [GenerationMode.POSITIVE]
