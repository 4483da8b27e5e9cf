"""What a running service has to know, handed to its worker processes by one environment variable."""

from __future__ import annotations

import ipaddress
import json
import os
from dataclasses import asdict, dataclass

ENVIRONMENT = "SIHASH_SERVICE"
THREADS = "OPENBLAS_NUM_THREADS"
MAX_PIXELS = 250_000_000  # 64 MiB of JPEG files, and seconds of work, whatever the format
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class ServerSettings:
    """``run_folder`` is a private temporary folder that all workers share; ``host_names`` are allowed beside
    those of the loopback; of the token only its hash is known; ``update_threads`` is what an update may take
    of the cores; ``max_pixels`` is what the images of one request may have together."""

    database: str
    run_folder: str
    token_hash: str
    host: str = "127.0.0.1"
    host_names: tuple[str, ...] = ()
    update_threads: str = "1"
    max_pixels: int = MAX_PIXELS

    @property
    def is_local(self) -> bool:
        """Bound to the loopback, so that nobody but this machine, or a proxy on it, can ask."""
        return is_loopback(self.host)

    @property
    def reads_freely(self) -> bool:
        """Whether reading needs no token: only this machine can ask, and no proxy was announced by a name."""
        return self.is_local and not self.host_names

    @property
    def own_names(self) -> frozenset[str]:
        """What requests may call this service: the loopback, where it was bound, what it was told."""
        return frozenset(name.lower() for name in (*LOOPBACK_NAMES, in_address(self.host), *self.host_names))

    def store(self) -> None:
        """Leave the settings where worker processes find them."""
        os.environ[ENVIRONMENT] = json.dumps(asdict(self))

    @classmethod
    def stored(cls) -> ServerSettings:
        values = json.loads(os.environ[ENVIRONMENT])
        return cls(**{**values, "host_names": tuple(values["host_names"])})


def is_loopback(host: str) -> bool:
    """Whether an address to bind to is reached from this machine only.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    address = as_address(host)
    return host == "localhost" if address is None else address.is_loopback


def in_address(host: str) -> str:
    """A host as it stands in a URL: ``::1`` → ``[::1]``."""
    return f"[{host}]" if ":" in host else host


def as_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """A host that is an address, brackets or not; None if it is a name."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
