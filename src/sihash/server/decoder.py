"""Decodes uploads in a sandboxed process: ``python -P -m sihash.server.decoder SOCKET LIMITS``.

The process listens on a Unix socket and forks a child for every image. The child may use a bounded amount
of memory, processor time and wall time, and answers with plain pixels; whatever a hostile file does to a
decoder, it does it to a child that is about to end anyway.

Request: how small a side may become while decoding (0: not at all; ``at_least`` of
`sihash.features.images.decode`), how many pixels may be decoded, whether they are wanted in the answer,
number of bytes (uint32 each), bytes. Answer: width, height, number of pixels before any reduction (uint32
each), and RGB if wanted. Where there is no image, width and height are zeros and a sentence follows; where
it has more pixels than may be decoded, that is seen by its header.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socketserver
import struct
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from sihash.features.images import BadImage, decode, n_pixels
from sihash.server.settings import Limits

# Fewer than from disk: TIFF and PPM do not come from browsers.
UPLOAD_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")
REQUEST = struct.Struct("<IIII")
ANSWER = struct.Struct("<III")


class _Handler(socketserver.StreamRequestHandler):
    """Runs in the child."""

    server: _Server

    def handle(self) -> None:
        limits = self.server.limits
        _limit_this_process(limits)
        at_least, left, wanted, size = REQUEST.unpack(self.rfile.read(REQUEST.size))
        n = 0
        try:
            data = self.rfile.read(min(size, limits.image_bytes))
            allowed: Any = {"formats": UPLOAD_FORMATS, "max_pixels": limits.image_pixels}
            n = n_pixels(data, **allowed)
            if n > left:
                raise BadImage(f"{n:,} pixels are more than the {left:,} that are left")
            image = decode(data, at_least=at_least or None, **allowed)
            self.wfile.write(ANSWER.pack(*image.size, n) + (image.tobytes() if wanted else b""))
        except BadImage as reason:
            self.wfile.write(ANSWER.pack(0, 0, n) + str(reason).encode())
        except MemoryError:
            self.wfile.write(ANSWER.pack(0, 0, n) + b"needs more memory than is allowed to decode")


def _limit_this_process(limits: Limits) -> None:
    """No core dumps, no writing of files; a deadline in processor time and by the clock.

    Memory is limited beyond what the process has when it forks.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    memory = pages * os.sysconf("SC_PAGE_SIZE") + limits.decode_bytes
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (limits.decode_seconds, limits.decode_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.alarm(limits.decode_seconds)


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    max_children = 16
    request_queue_size = 128

    def __init__(self, socket_path: str, limits: Limits) -> None:
        self.limits = limits
        super().__init__(socket_path, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A child that fails says nothing: the service sees that no answer came."""


def main(socket_path: str, limits: str) -> None:
    """Serve until standard input is closed, that is, until the service is gone."""
    Image.init()  # all decoders loaded here, not in every child
    with _Server(socket_path, Limits(**json.loads(limits))) as server:
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


if __name__ == "__main__":
    main(*sys.argv[1:])
