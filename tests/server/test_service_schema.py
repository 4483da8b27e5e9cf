"""Whatever the description allows is taken, and much that it does not is refused; never a 5xx."""

from __future__ import annotations

import shutil
from urllib.parse import urlencode

import httpx
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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS_OF_A_TEST)]
BEARER = {"authorization": f"Bearer {TOKEN}"}
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
# These may refuse what is described: not all bytes are an image, items of a batch are alike, and each once.
PARTICULAR = {
    "/v1/search/image",
    "/v1/classify/image",
    "/v1/items",
    "/v1/items/batch",
    "/v1/items/relabel/each",
}


@pytest.fixture(scope="module", params=["template", "vector_template"])
def service(request, tmp_path_factory):
    """Over images, and over vectors."""
    copy = tmp_path_factory.mktemp("schema") / "digits"
    shutil.copytree(request.getfixturevalue(request.param), copy)
    with running(copy) as service:
        yield service


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda part: part)
def test_every_route_keeps_to_its_description(service, method, path):
    description = httpx.get(f"{service.address}/openapi.json").json()
    if method.lower() not in description["paths"].get(path, {}):
        answer = httpx.request(method, service.address + path, headers=BEARER, json={"vector": [1.0]})
        assert answer.status_code == 422
        assert "This database holds" in answer.json()["detail"]
        return
    operation = schemathesis.openapi.from_dict(description)[path][method]
    modes = _modes(operation)

    @given(case=st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes]))
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
        answer = case.call(base_url=service.address, headers=BEARER, timeout=60)
        case.validate_response(answer, checks=CHECKS)
        if case.meta.generation.mode == GenerationMode.POSITIVE and path not in PARTICULAR:
            assert answer.status_code not in (415, 422), answer.text

    check()


def _modes(operation):
    """Requests as described and, where there is anything to get wrong, others."""
    takes_something = len(operation.path_parameters) or len(operation.query) or len(operation.body)
    return list(GenerationMode) if takes_something else [GenerationMode.POSITIVE]
