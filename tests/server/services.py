"""Services to test against: in this process, or as a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from fastapi.testclient import TestClient
from PIL import Image

from ports import free_port
from sihash.client import Client
from sihash.server.app import create_app
from sihash.server.settings import ServerSettings
from sihash.server.tokens import hash_of

TOKEN = "a-token-for-the-tests-of-sihash"
IS_SOAK = os.environ.get("SIHASH_SOAK") == "1"
SECONDS_OF_A_TEST = 7200 if IS_SOAK else 600
N_KNOWN, FIRST_CLASSES = 400, 7  # images in the database, of the digits 0 … 6


@dataclass(frozen=True)
class Served:
    """A running service: where it is, what it serves, its process."""

    address: str
    database: Path
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def client(self) -> Client:
        return Client(self.address, token=TOKEN)


def png(values: np.ndarray) -> bytes:
    """A digit (8 × 8, 0…16) as a PNG of 48 × 48, dark on white with a margin."""
    small = Image.fromarray((255 - values * 255 / 16).astype(np.uint8))
    page = Image.new("L", (48, 48), 255)
    page.paste(small.resize((40, 40), Image.Resampling.BICUBIC), (4, 4))
    file = io.BytesIO()
    page.save(file, "PNG")
    return file.getvalue()


@contextmanager
def application(database: Path, run_folder: Path, **options: object) -> Iterator[TestClient]:
    settings = ServerSettings(str(database), str(run_folder), hash_of(TOKEN), **options)  # type: ignore[arg-type]
    with TestClient(
        create_app(settings), base_url="http://127.0.0.1", raise_server_exceptions=False
    ) as client:
        yield client


@contextmanager
def running(database: Path, *options: str, port: int | None = None) -> Iterator[Served]:
    """``sihash serve`` as a process."""
    port = port or free_port()
    command = [sys.executable, "-m", "sihash", "serve", str(database), "--port", str(port), *options]
    process = subprocess.Popen(command, env={**os.environ, "SIHASH_TOKEN": TOKEN})
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(address), process)
        yield Served(address, database, process)
    finally:
        process.terminate()
        process.wait(timeout=30)


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/v1/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for something to come true; a process that dies meanwhile is an error."""
    for _ in range(1200):
        if condition():
            return
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"The service ended with {process.returncode}.")
        time.sleep(0.1)
    raise TimeoutError


def memory_of(pid: int) -> int:
    """Bytes of a process in memory."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
