"""The way to a Dask cluster, with errors that say what is missing."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

PROBE_SECONDS = 3.0
_clients: dict[str, Any] = {}  # by address of the scheduler


def connect(name: str) -> Any:
    """A client of our own for "dask" (the cluster of the current client) or the address of a scheduler.

    It speaks to the workers directly, not by way of the scheduler, and leaves the current client as it is.
    """
    distributed = _import_distributed()
    address, security = name, None
    if name == "dask":
        try:
            current = distributed.get_client()
        except ValueError:
            raise ValueError(
                'engine="dask" found no Dask client; make one (dask.distributed.Client(...)), or give the '
                'address of a scheduler, as in engine="tcp://host:8786".'
            ) from None
        address, security = current.scheduler.address, current.security
    client = _clients.get(address)
    if client is None or client.status != "running":
        _probe(address)
        client = distributed.Client(
            address, security=security, timeout=PROBE_SECONDS, direct_to_workers=True, set_as_default=False
        )
        _clients[address] = client
    if not client.nthreads():
        raise ConnectionError(
            f"The Dask scheduler at {address} has no workers; start some with `dask worker {address}`."
        )
    return client


def current_client() -> Any:
    """The Dask client of this program, or None."""
    try:
        return _import_distributed().get_client()
    except (ImportError, ValueError):
        return None


def _probe(address: str) -> None:
    """Fail at once where nobody listens; a client would go on trying."""
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.hostname or not parts.port:
        return
    try:
        socket.create_connection((parts.hostname, parts.port), PROBE_SECONDS).close()
    except OSError as error:
        raise ConnectionError(
            f"No Dask scheduler answers at {address} ({error}); start one with `dask scheduler`, or check "
            "the address."
        ) from None


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ImportError("Training on a cluster needs Dask: pip install 'sihash[dask]'.") from None
    return distributed
