"""Decoding of uploads, out of the service's reach.

A process that listens on a Unix socket and forks a child for every image. The child may use a bounded amount
of memory, processor time and wall time, and answers with plain pixels; whatever a hostile file does to a
decoder, it does it to a child that is about to end anyway.

Request: how small a side may become while decoding (uint32, 0: not at all; ``at_least`` of
`sihash.features.images.decode`), number of bytes (uint32), bytes. Answer: width and height (uint32 each) and
RGB, or two zeros and a sentence.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socketserver
import struct
import sys
from pathlib import Path

from PIL import Image

from sihash.features.images import BadImage, decode
from sihash.server.bodies import MAX_IMAGE

SECONDS = 8  # for one image, processor or wall
MEMORY = 768 << 20  # beyond what the process has when it forks
MAX_PIXELS = 25_000_000
FORMATS = (
    "JPEG",
    "PNG",
    "GIF",
    "WEBP",
    "BMP",
)  # fewer than from disk: TIFF and PPM do not come from browsers
HEAD = struct.Struct("<II")


class _Handler(socketserver.StreamRequestHandler):
    """Runs in the child."""

    def handle(self) -> None:
        _limit_this_process()
        at_least, size = HEAD.unpack(self.rfile.read(HEAD.size))
        try:
            image = decode_upload(self.rfile.read(min(size, MAX_IMAGE)), at_least or None)
            self.wfile.write(HEAD.pack(*image.size) + image.tobytes())
        except BadImage as reason:
            self.wfile.write(HEAD.pack(0, 0) + str(reason).encode())
        except MemoryError:
            self.wfile.write(HEAD.pack(0, 0) + b"needs more memory than is allowed to decode")


def decode_upload(data: bytes, at_least: int | None) -> Image.Image:
    """As `sihash.features.images.decode`, with fewer formats and pixels."""
    return decode(data, at_least=at_least, formats=FORMATS, max_pixels=MAX_PIXELS)


def _limit_this_process() -> None:
    """No core dumps, no writing of files; a deadline in processor time and by the clock."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    memory = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.alarm(SECONDS)


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    max_children = 16
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A child that fails says nothing: the service sees that no answer came."""


def main(socket_path: str) -> None:
    """Serve until standard input is closed, that is, until the service is gone."""
    Image.init()  # all decoders loaded here, not in every child
    with _Server(socket_path, _Handler) as server:
        os.chmod(socket_path, 0o600)
        print("ready", flush=True)
        _serve_while_wanted(server)


def _serve_while_wanted(server: _Server) -> None:
    while True:
        ready, _, _ = select.select([server, sys.stdin], [], [], 5.0)
        if sys.stdin in ready:
            return
        if server in ready:
            server.handle_request()
        server.service_actions()  # collects children that have ended
