"""Decoding of uploads, out of the service's reach.

A process that listens on a Unix socket and forks a child for every image. The child may use a bounded amount
of memory, processor time and wall time, and answers with plain pixels; whatever a hostile file does to a
decoder, it does it to a child that is about to end anyway.

Request: how small a side may become while decoding (0: not at all; ``at_least`` of
`sihash.features.images.decode`), how many pixels may be decoded, whether they are wanted in the answer,
number of bytes (uint32 each), bytes. Answer: width, height, number of pixels before any reduction (uint32
each), and RGB if wanted. Where there is no image, width and height are zeros and a sentence follows; where
it has more pixels than may be decoded, that is seen by its header.
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

from sihash.features.images import BadImage, decode, n_pixels
from sihash.server.bodies import MAX_IMAGE

SECONDS = 8  # for one image, processor or wall
MEMORY = 768 << 20  # beyond what the process has when it forks
UPLOAD_PIXELS = 25_000_000
UPLOAD_FORMATS = (
    "JPEG",
    "PNG",
    "GIF",
    "WEBP",
    "BMP",
)  # fewer than from disk: TIFF and PPM do not come from browsers
REQUEST = struct.Struct("<IIII")
ANSWER = struct.Struct("<III")


class _Handler(socketserver.StreamRequestHandler):
    """Runs in the child."""

    def handle(self) -> None:
        _limit_this_process()
        at_least, left, wanted, size = REQUEST.unpack(self.rfile.read(REQUEST.size))
        n = 0
        try:
            data = self.rfile.read(min(size, MAX_IMAGE))
            n = n_pixels(data, formats=UPLOAD_FORMATS, max_pixels=UPLOAD_PIXELS)
            if n > left:
                raise BadImage(f"{n:,} pixels are more than the {left:,} that are left")
            image = decode(data, at_least=at_least or None, formats=UPLOAD_FORMATS, max_pixels=UPLOAD_PIXELS)
            self.wfile.write(ANSWER.pack(*image.size, n) + (image.tobytes() if wanted else b""))
        except BadImage as reason:
            self.wfile.write(ANSWER.pack(0, 0, n) + str(reason).encode())
        except MemoryError:
            self.wfile.write(ANSWER.pack(0, 0, n) + b"needs more memory than is allowed to decode")


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
