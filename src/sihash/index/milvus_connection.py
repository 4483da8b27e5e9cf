"""How to reach a Milvus server: its URL, the credentials, and what is said when it does not answer."""

from __future__ import annotations

import os
import re
import socket
from urllib.parse import urlsplit

from pymilvus import MilvusClient, MilvusException

MILVUS_TOKEN = "SIHASH_MILVUS_TOKEN"  # the environment variable with "user:password" or an API key


class IndexServerError(RuntimeError):
    """The server of an index cannot be reached, refuses, or fails."""


def parsed(url: str) -> tuple[str, str]:
    """Address and name of ``milvus+http://host:port/name``."""
    parts = urlsplit(url)
    name = parts.path.strip("/")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            f"Credentials do not belong in a URL; set {MILVUS_TOKEN} in the environment to user:password."
        )
    if parts.scheme not in ("milvus+http", "milvus+https") or not parts.hostname:
        raise ValueError(f"Expected milvus+http://host:port/name, got {url!r}.")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(
            f"The name of an index on Milvus is of letters, digits and _, not {name!r}; "
            "the URL is milvus+http://host:port/name."
        )
    return f"{parts.scheme.removeprefix('milvus+')}://{parts.hostname}:{parts.port or 19530}", name


def connected(address: str, timeout: float) -> MilvusClient:
    """A client with the credentials of the environment."""
    refuse_silence(address)
    token = os.environ.get(MILVUS_TOKEN, "")
    try:
        return MilvusClient(address, token=token, timeout=timeout)
    except MilvusException as error:
        refused = (
            f"refuses the credentials in {MILVUS_TOKEN}"
            if token
            else f"asks for credentials; set {MILVUS_TOKEN}"
        )
        raise IndexServerError(f"Milvus at {address} {refused}, or is not ready yet.") from error


def refuse_silence(address: str) -> None:
    """Find out at once whether anything listens; Milvus' client would try for a long time."""
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=5).close()
    except OSError as error:
        raise IndexServerError(
            f"No Milvus server answers at {address} ({error}); start it, or check the address."
        ) from error
