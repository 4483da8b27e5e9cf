"""Pages of other sites in the same browser: they can neither read the service nor change anything."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import test_service_page as pages

from sihash.database import Database

pytestmark = pages.pytestmark
service = pages.service

# Each returns what it could read; what is refused throws or gives nothing.
ATTEMPTS = """async at => {
  const told = {};
  const attempt = async (name, work) => { try { told[name] = (await work()) ?? null; } catch { told[name] = null; } };
  const body = JSON.stringify({ids: [0, 1, 2]});
  const relabelling = JSON.stringify({ids: [0], label: 'stolen'});
  const json = {'content-type': 'application/json'};
  for (const path of ['/v1/info', '/v1/items', '/v1/ids', '/v1/map', '/v1/items/0', '/v1/items/0/thumbnail', '/metrics', '/openapi.json']) {
    await attempt(`get ${path}`, async () => (await fetch(at + path)).text());
    await attempt(`get ${path} with cookies`, async () => (await fetch(at + path, {credentials: 'include'})).text());
    await attempt(`get ${path} unseen`, async () => (await fetch(at + path, {mode: 'no-cors'})).text());
  }
  for (const [path, sent] of [['/v1/items/remove', body], ['/v1/items/relabel', relabelling], ['/v1/undo', '{}'], ['/v1/updates', '{}'], ['/v1/items/by-id', body]]) {
    await attempt(`post ${path}`, async () => (await fetch(at + path, {method: 'POST', body: sent, headers: json})).text());
    await attempt(`post ${path} as text`, async () => (await fetch(at + path, {method: 'POST', body: sent, mode: 'no-cors'})).text());
    await attempt(`post ${path} as a beacon`, async () => { navigator.sendBeacon(at + path, new Blob([sent], {type: 'text/plain'})); });
    await attempt(`post ${path} with a token`, async () => (await fetch(at + path, {method: 'POST', body: sent, headers: {...json, authorization: 'Bearer x'}})).text());
  }
  await attempt('delete', async () => (await fetch(at + '/v1/items/0', {method: 'DELETE'})).text());
  await attempt('delete of a class', async () => (await fetch(at + '/v1/classes?label=0', {method: 'DELETE', mode: 'no-cors'})).text());
  await attempt('events', () => new Promise((done, fail) => { const source = new EventSource(at + '/v1/updates/events'); source.onmessage = event => done(event.data); source.onerror = () => { source.close(); fail(); }; }));
  const loaded = (tag, properties) => new Promise((done, fail) => { const one = Object.assign(document.createElement(tag), properties); one.onload = () => done(tag); one.onerror = fail; document.body.append(one); });
  await attempt('picture', () => loaded('img', {src: at + '/v1/items/0/thumbnail'}));
  await attempt('script', () => loaded('script', {src: at + '/v1/info'}));
  await attempt('form', async () => {
    const frame = Object.assign(document.createElement('iframe'), {name: 'hidden'});
    const form = Object.assign(document.createElement('form'), {method: 'post', enctype: 'text/plain', action: at + '/v1/items/remove', target: 'hidden'});
    form.append(Object.assign(document.createElement('input'), {name: '{"ids": [3], "x": "', value: '"}'}));
    document.body.append(frame, form);
    const end = new Promise(done => { frame.onload = done; });
    form.submit();
    await end;
    return frame.contentDocument?.body.textContent || null;
  });
  await attempt('frame', async () => {
    const frame = Object.assign(document.createElement('iframe'), {src: at + '/'});
    const end = new Promise(done => { frame.onload = done; });
    document.body.append(frame);
    await end;
    return frame.contentDocument?.body.textContent || null;
  });
  return told;
}"""  # noqa: E501
NAMES = ["127.0.0.1", "localhost", "evil.example"]


@pytest.fixture(scope="module")
def browser():
    """One that finds evil.example on this machine, as after DNS rebinding."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=pages.CHROMIUM, args=["--no-sandbox", rules])
        yield browser
        browser.close()


class Other(BaseHTTPRequestHandler):
    """A page without any protection."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>other</title><body>")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def other_port():
    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def state_of(service):
    with Database(service.database) as database:
        return database.operation, len(database), database.labels(), database.version


@pytest.mark.parametrize("name", NAMES)
def test_a_page_of_another_origin_reads_nothing_and_changes_nothing(browser, service, other_port, name):
    before = state_of(service)
    context = browser.new_context()
    ours = context.new_page()  # unlocked, beside it, in the same browser
    ours.goto(f"{service.address}/#token={pages.TOKEN}")
    ours.wait_for_selector("#results .item img")
    page = context.new_page()
    page.goto(f"http://{name}:{other_port}/")
    told = page.evaluate(ATTEMPTS, service.address)
    # What is sent without a look at the answer gives an empty text; nothing else may give anything.
    assert {what: said for what, said in told.items() if said} == {}
    assert len(told) > 40
    opened = page.evaluate(
        """async at => {
          const other = open(at);
          await new Promise(done => setTimeout(done, 500));
          try { return other.document.body.textContent; } catch { return null; }
        }""",
        service.address,
    )
    assert not opened
    context.close()
    assert state_of(service) == before


def test_a_page_whose_name_was_bound_to_this_machine_reads_nothing(browser, service):
    """The page has the origin of the service then: only the name gives it away."""
    before = state_of(service)
    context = browser.new_context(bypass_csp=True)  # a page of theirs would have none
    page = context.new_page()
    address = f"http://evil.example:{service.port}"
    page.goto(address)
    assert page.evaluate("fetch('/v1/info').then(answer => answer.status)") == 421
    told = page.evaluate(ATTEMPTS, address)
    refused = "The Host of this request is not one of this service"
    assert {what: said for what, said in told.items() if said and refused not in str(said)} == {}
    assert refused in told["get /v1/info"]
    assert refused in told["post /v1/items/remove"]
    context.close()
    assert state_of(service) == before


def test_the_attempts_would_succeed_without_protection(browser, service):
    """From the page itself, with its token: the attempts above are real ones."""
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.goto(service.address)
    page.wait_for_selector("#results .item img")
    read = page.evaluate(
        "async at => (await fetch(at + '/v1/items/by-id', {method: 'POST', body: '{\"ids\": [0]}', "
        "headers: {'content-type': 'application/json'}})).status",
        service.address,
    )
    assert read == 200
    context.close()
