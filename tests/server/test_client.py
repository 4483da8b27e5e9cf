"""`Client` where there is no service: one kind of error, and a sentence."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ports import free_port
from sihash.client import Client, ServiceError


class Other(BaseHTTPRequestHandler):
    """Some other server, which has an answer to everything."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"data: welcome\n")

    def log_message(self, *_):
        pass


@pytest.fixture
def other():
    server = HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("ask", [Client.info, lambda client: list(client.follow_update())])
class TestErrors:
    def refused(self, address, ask):
        with pytest.raises(ServiceError) as caught, Client(address) as client:
            ask(client)
        assert caught.value.status == 0
        return str(caught.value)

    def test_nobody_listens(self, ask):
        address = f"http://127.0.0.1:{free_port()}"
        sentence = self.refused(address, ask)
        assert sentence.startswith(f"No answer from {address}: ")
        assert sentence.endswith("is `sihash serve` running there?")

    @pytest.mark.parametrize("address", ["127.0.0.1:8080", "localhost", "", "ftp://a.example", "http://[::1"])
    def test_what_is_no_address(self, ask, address):
        expected = f"Expected an address like http://127.0.0.1:8080, got {address!r}."
        assert self.refused(address, ask) == expected

    def test_somebody_else_answers(self, ask, other):
        assert "does not come from this version of `sihash serve`" in self.refused(other, ask)


def test_a_missing_package_is_told_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "sihash.client")
    with pytest.raises(ImportError, match=r"The client needs httpx: pip install 'sihash\[service\]'\."):
        from sihash import Client  # noqa: F401
