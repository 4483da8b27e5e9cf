"""The sockets of a service: there before anybody is told where it is."""

from __future__ import annotations

import errno
import socket
from typing import Any

from sihash.server.settings import in_address

ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # no such address, no such kind of address


def listening(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that ``host`` stands for, as localhost does for 127.0.0.1 and ::1.

    Where this machine has only some of them, those will do.
    """
    sockets: list[socket.socket] = []
    refusal: OSError | None = None
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                sockets.append(_listening(family, address))
            except OSError as error:
                if error.errno not in ABSENT:
                    raise
                refusal = error
        if refusal and not sockets:
            raise refusal
    except OSError as error:
        for each in sockets:
            each.close()
        raise OSError(
            f"The service cannot listen on {in_address(host)}:{port}: {error.strerror}; "
            "choose another --port or --host."
        ) from None
    return sockets


def _listening(family: int, address: tuple[Any, ...]) -> socket.socket:
    """Bound is not enough: as long as nobody listens, others may bind to the same port."""
    made = socket.socket(family)
    try:
        made.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # a service that ended just now is no obstacle
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen()
    except OSError:
        made.close()
        raise
    return made
