"""What a running service has to know, handed to its worker processes by one environment variable."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields

from sihash.server.logs import Format, Level

ENVIRONMENT = "SIHASH_SERVICE"
THREADS = "OPENBLAS_NUM_THREADS"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Limits:
    """What one request, one client or one worker may cost. `sihash serve --limit NAME=VALUE` changes one."""

    image_bytes: int = 16 << 20  # an image file, as large as those of good cameras
    batch_bytes: int = 64 << 20  # of POST /v1/items/batch
    json_bytes: int = 1 << 20  # any other body
    held_bytes: int = 160 << 20  # all bodies of one worker at once
    body_seconds: float = 30  # for a whole body, however slowly it drips
    image_pixels: int = 25_000_000  # of one image; 75 MB decoded
    request_pixels: int = 250_000_000  # of all images of a request: seconds of work, whatever the format
    decoders: int = 2  # images that one worker has decoded at a time; others wait
    decoder_wait_seconds: float = 20  # before a request is told to come back later
    decode_seconds: int = 8  # for one image, of the processor and by the clock
    decode_bytes: int = 768 << 20  # memory to decode one image
    connections: int = 1000  # of one worker; more get a 503
    followers: int = 100  # of updates, in one worker, which looks for each of them five times a second
    keep_alive_seconds: int = 15  # a connection may stay silent between two requests
    header_seconds: float = 10  # for the headers of a request; uvicorn would wait for ever
    busy_seconds: float = 5  # to wait for other writers, whose changes take milliseconds
    writers: int = 64  # changes that wait for their turn in one worker, so additions that may share a commit
    stop_seconds: int = 3  # for requests under way when the service is stopped
    start_seconds: int = 120  # for a worker to answer: imports on a busy machine

    @classmethod
    def given(cls, texts: Iterable[str]) -> Limits:
        """From texts like ``image_bytes=1000000``, with the defaults for all others."""
        names = [each.name for each in fields(cls)]
        values = {}
        for text in texts:
            name, _, value = text.partition("=")
            if name not in names:
                raise ValueError(f"There is no limit {name!r}; choose from {', '.join(names)}.")
            if not (value.isascii() and value.isdecimal() and 0 < int(value) < 2**53):
                raise ValueError(f"Expected a positive whole number for the limit {name}, got {value!r}.")
            values[name] = int(value)
        return cls(**values)


@dataclass(frozen=True)
class ServerSettings:
    """``run_folder`` is a private temporary folder that all workers share; ``host_names`` are allowed beside
    those of the loopback; of the token only its hash is known; ``update_threads`` is what an update may take
    of the cores; ``title`` is the column whose texts the page shows as titles, if not the guessed one."""

    database: str
    run_folder: str  # "" until the service runs
    token_hash: str
    host: str = "127.0.0.1"
    host_names: tuple[str, ...] = ()
    update_threads: str = "1"
    read_only: bool = False
    title: str | None = None
    log_level: Level = "warning"
    log_format: Format = "text"
    limits: Limits = field(default_factory=Limits)

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
        values |= {"host_names": tuple(values["host_names"]), "limits": Limits(**values["limits"])}
        return cls(**values)


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
