"""Who is let in: every route against missing and wrong tokens, foreign hosts and foreign pages."""

from __future__ import annotations

import shutil
from itertools import product

import pytest
from services import TOKEN, application

from sihash.database import Database
from sihash.server import tokens
from sihash.server.guard import PUBLIC
from sihash.server.settings import Limits, ServerSettings, is_loopback

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def local(template, tmp_path_factory):
    """Bound to the loopback. No test here writes."""
    with application(template, tmp_path_factory.mktemp("run")) as client:
        yield client


@pytest.fixture(scope="module")
def public(template, tmp_path_factory):
    """Bound elsewhere, known by a name."""
    run_folder = tmp_path_factory.mktemp("run")
    with application(template, run_folder, host="0.0.0.0", host_names=("images.example",)) as client:
        yield client


def routes(client):
    """Every method and path of the description, with something for its parameters."""
    description = client.get("/openapi.json", headers=BEARER).json()
    for path, methods in description["paths"].items():
        for method in methods:
            yield method.upper(), path.replace("{id}", "1")


READING = {  # said again here: a changing route that is put among the reading ones is noticed
    ("POST", "/v1/search/image"),
    ("POST", "/v1/search/vector"),
    ("POST", "/v1/classify/image"),
    ("POST", "/v1/classify/vector"),
    ("POST", "/v1/items/by-id"),
}


def writes(client):
    found = [route for route in routes(client) if route[0] != "GET" and route not in READING]
    assert len(found) >= 8
    return found


def test_what_reads_without_the_token_changes_nothing(template, tmp_path):
    """Whatever is sent, with bodies that the changing routes take."""
    copy = shutil.copytree(template, tmp_path / "digits")
    bodies = [{"ids": [1]}, {"classes": ["1"], "label": "2"}, {"ids": [1], "label": "2"}, {}]
    with Database(copy) as database, application(copy, tmp_path) as client:
        before = database.info()["operation"]
        for method, path in sorted(routes(client)):
            for body in bodies if method != "GET" else []:
                client.request(method, path, json=body)
        assert database.info()["operation"] == before
        assert client.get("/v1/updates").json()["state"] == "idle"


def test_no_write_without_the_token(local):
    for method, path in writes(local):
        for headers in (
            {},
            {"authorization": "Bearer "},
            {"authorization": f"Bearer {TOKEN}x"},
            {"authorization": f"Bearer {TOKEN[:-1]}"},
            {"authorization": f"Basic {TOKEN}"},
            {"authorization": TOKEN},
            {"cookie": f"token={TOKEN}"},
        ):
            answer = local.request(method, path, headers=headers)
            assert answer.status_code == 401, (method, path, headers)
            assert answer.headers["www-authenticate"] == "Bearer"


def test_the_token_in_an_address_or_a_body_does_not_count(local):
    assert local.post(f"/v1/undo?token={TOKEN}").status_code == 401
    assert local.post("/v1/undo", json={"token": TOKEN}).status_code == 401


def test_reading_is_free_on_the_loopback_only(local, public):
    for path in ("/v1/info", "/v1/items", "/v1/items/1/search", "/metrics", "/openapi.json", "/v1/versions"):
        assert local.get(path).status_code == 200, path
        assert public.get(path).status_code == 401, path
        assert public.get(path, headers=BEARER).status_code == 200, path
    for _, path in sorted(READING):
        assert local.post(path).status_code in (415, 422)
        assert public.post(path).status_code == 401
    for path in PUBLIC:
        assert public.get(path).status_code == 200, path
    assert public.get("/page/style.css").status_code == 200


READ = ("/v1/info", "/v1/items/1/search", "/metrics")


def test_behind_a_proxy_reading_needs_the_token(template, tmp_path, local):
    """By the name that the proxy is reached by, or by what it adds; the service is on the loopback."""
    with application(template, tmp_path, host_names=("images.example",)) as proxied:
        for path, host in product(READ, ("images.example", "127.0.0.1")):
            assert proxied.get(path, headers={"host": host}).status_code == 401
            assert proxied.get(path, headers={**BEARER, "host": host}).status_code == 200
    for path, name in product(READ, ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Host")):
        assert local.get(path, headers={name: "10.1.2.3"}).status_code == 401
        assert local.get(path, headers={**BEARER, name: "10.1.2.3"}).status_code == 200
        assert local.get("/v1/health", headers={name: "10.1.2.3"}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "169.254.169.254", "x:y:z"],
)
def test_foreign_hosts_are_refused_on_every_route(local, host):
    for method, path in [*routes(local), ("GET", "/"), ("GET", "/page/main.js")]:
        answer = local.request(method, path, headers={**BEARER, "host": host})
        assert answer.status_code == 421, (method, path)


def test_our_hosts(local, public):
    for host in ("127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:80"):
        assert local.get("/v1/health", headers={"host": host}).status_code == 200
        assert public.get("/v1/health", headers={"host": host}).status_code == 200
    # An address cannot be rebound; a name can.
    assert public.get("/v1/health", headers={"host": "10.1.2.3:8080"}).status_code == 200
    assert public.get("/v1/health", headers={"host": "images.example"}).status_code == 200
    assert public.get("/v1/health", headers={"host": "other.example"}).status_code == 421


@pytest.mark.parametrize(
    ("host", "called", "not_called"),
    [
        ("127.0.0.2", "127.0.0.2:8080", "127.0.0.3"),
        ("Images.Local", "images.local:8080", "other.local"),
        ("::1", "[::1]:8080", "[::2]"),
    ],
)
def test_a_service_answers_where_it_was_bound(template, tmp_path, host, called, not_called):
    with application(template, tmp_path, host=host) as client:
        assert client.get("/v1/health", headers={"host": called}).status_code == 200
        assert client.get("/v1/health", headers={"host": not_called}).status_code == 421


def test_pages_of_other_sites_are_refused_on_every_route(local):
    for method, path in routes(local):
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "http://127.0.0.1:9999"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
        ):
            answer = local.request(method, path, headers={**BEARER, **headers})
            assert answer.status_code == 403, (method, path, headers)


def test_a_link_from_another_site_may_be_followed_but_posts_nothing(local):
    follow = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert local.get("/", headers=follow).status_code == 200
    assert local.post("/v1/undo", headers={**BEARER, **follow}).status_code == 403


def test_our_own_page_may_write(local):
    own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
    assert local.post("/v1/token", headers={**BEARER, **own}).status_code == 200


def test_nothing_is_shared_across_origins(local):
    answer = local.options(
        "/v1/undo", headers={"origin": "http://127.0.0.1", "access-control-request-method": "POST"}
    )
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_security_headers_on_answers_of_every_kind(local):
    for answer in (
        local.get("/"),
        local.get("/v1/info"),
        local.get("/nothing"),
        local.post("/v1/undo"),
        local.get("/", headers={"host": "evil.example"}),
        local.get("/v1/items/1/thumbnail"),
    ):
        headers = answer.headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "cache-control" in headers
        assert "set-cookie" not in headers
        assert "server" not in headers


def test_the_page_asks_for_nothing_from_outside(local):
    names = ["/"] + [f"/page/{name}" for name in ("main.js", "api.js", "search.js", "style.css", "icon.svg")]
    for name in names:
        text = local.get(name).text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text
        assert "https:" not in text
        assert "innerHTML" not in text


def test_a_file_name_is_looked_up_and_never_opened(local):
    for name in ("..%2fapp.py", "%2e%2e/app.py", "....//app.py", "/etc/passwd", "app.py", "main.js%00"):
        assert local.get(f"/page/{name}").status_code == 404


# Tokens.


def test_the_token_is_made_once_and_kept_as_a_hash(tmp_path):
    token_hash, shown = tokens.first_token(tmp_path)
    assert shown is not None
    assert tokens.is_token(shown, token_hash)
    assert tokens.first_token(tmp_path) == (token_hash, None)
    file = tmp_path / tokens.PLACE
    assert file.stat().st_mode & 0o777 == 0o600
    assert shown not in file.read_text()


def test_a_new_token_ends_the_one_before(tmp_path):
    _, first = tokens.first_token(tmp_path)
    token_hash, second = tokens.new_token(tmp_path)
    assert second != first
    assert not tokens.is_token(first, token_hash)
    assert tokens.first_token(tmp_path) == (token_hash, None)


def test_a_damaged_or_short_token_is_an_error(tmp_path):
    tokens.first_token(tmp_path)
    (tmp_path / tokens.PLACE).write_text("")
    with pytest.raises(ValueError, match="damaged"):
        tokens.first_token(tmp_path)
    with pytest.raises(ValueError, match="at least 16"):
        tokens.chosen_token("short")


@pytest.mark.parametrize(
    "token", ["schlüssel-für-den-dienst", "sixteen letters ", "\tsixteen letters", "a\nb" * 9]
)
def test_a_token_that_no_header_carries_is_refused(token):
    with pytest.raises(ValueError, match="Expected a token of ASCII letters"):
        tokens.chosen_token(token)


def test_limits_are_given_by_name():
    assert Limits.given(["image_bytes=5", "body_seconds=3"]) == Limits(image_bytes=5, body_seconds=3)
    for wrong in ("images=3", "image_bytes", "image_bytes=", "image_bytes=-1", "image_bytes=0", "decoders=²"):
        with pytest.raises(ValueError, match="limit"):
            Limits.given([wrong])


def test_settings_survive_the_environment(monkeypatch):
    monkeypatch.setenv("SIHASH_SERVICE", "")
    settings = ServerSettings("/db", "/run", "ab", "::1", ("a.example",), limits=Limits(decoders=7))
    settings.store()
    assert ServerSettings.stored() == settings
    assert settings.is_local
    assert not is_loopback("192.168.0.1")


def test_every_digit_of_the_hash_of_a_token_counts():
    own = tokens.hash_of(TOKEN)
    assert tokens.is_token(TOKEN, own)
    for k, digit in enumerate(own):
        other = own[:k] + ("0" if digit != "0" else "1") + own[k + 1 :]
        assert not tokens.is_token(TOKEN, other)
