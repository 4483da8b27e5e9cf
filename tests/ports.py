"""Ports for the servers that tests start."""

from __future__ import annotations

import random
import socket
from contextlib import closing

# The kernel takes ports from 32768 on for whoever connects to something. One of those may be gone before
# the server that it was meant for has started, the more so when other tests run beside.
PORTS = range(10_000, 32_768)

_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on, and that no other call in this process was given."""
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise OSError(f"No port from {PORTS.start} to {PORTS.stop - 1} of this machine is free.")


def _is_free(port: int) -> bool:
    """On no address of this machine, not only on the one for local use."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
