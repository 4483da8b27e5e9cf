"""The service over 100,000 items: what it adds to the library, what it bears, what an update does to it.

python -m benchmarks.service [--items 100000] [--seconds 10]

Everything is on one machine: two workers, the load, and the update. Ratios are of things measured in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from multiprocessing import Process
from pathlib import Path

import httpx
import numpy as np
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from sihash._typing import Array
from sihash.client import Client
from sihash.database import Database, DatabaseBusy
from sihash.server.run import Config, PunctualProtocol, listening

TOKEN = "a-token-for-the-benchmark"
WIDTH, N_CLASSES, N_BITS, TRAINING_ROWS = 64, 20, 32, 20_000
CONNECTIONS = 16  # of the load
WRITERS = 32  # clients that add
PACED = 100  # requests a second while an update runs
TURNS = 3

nothing = FastAPI()


@nothing.get("/v1/items/{id}/search")
async def do_nothing() -> dict[str, str]:
    return {}


def serve_nothing(port: int, workers: int) -> None:
    """As the service is served: with the default protocol every answer would wait 40 ms for the network."""
    config = Config(
        "benchmarks.service:nothing",
        workers=workers,
        http=PunctualProtocol,
        log_level="warning",
        access_log=False,
        timeout_worker_healthcheck=60,
    )
    Multiprocess(config, sockets=listening("127.0.0.1", port)).run()


def made_database(folder: Path, n_items: int) -> Path:
    """Vectors around centres, one for each class."""
    rng = np.random.default_rng(0)
    labels = rng.integers(N_CLASSES, size=n_items)
    centres = rng.standard_normal((N_CLASSES, WIDTH))
    X = (centres[labels] + 0.7 * rng.standard_normal((n_items, WIDTH))).astype(np.float32)
    path = folder / "database"
    Database.create(path, X, labels, n_bits=N_BITS, n_anchors=500, training_rows=TRAINING_ROWS).close()
    return path


@contextmanager
def server(*command: str, workers: int = 2) -> Iterator[str]:
    """A process that serves; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [sys.executable, "-m", *command, "--port", str(port), "--workers", str(workers)]
    process = subprocess.Popen(arguments, env={**os.environ, "SIHASH_TOKEN": TOKEN})
    try:
        address = f"http://127.0.0.1:{port}"
        while not _answers(f"{address}/v1/items/1/search"):
            time.sleep(0.2)
        time.sleep(5)  # the other worker
        yield address
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=30).status_code == 200
    except httpx.TransportError:
        return False


# Load, by the least that is HTTP: a client that does much would measure itself.


class Line:
    """One connection that asks and waits for the answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, address: str) -> Line:
        host, _, port = address.removeprefix("http://").partition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def get(self, route: str) -> bytes:
        return await self._send(f"GET {route} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    async def add(self, vector: Array) -> float:
        """Seconds until a vector is added."""
        start = time.perf_counter()
        body = json.dumps({"items": [{"vector": vector.tolist(), "label": "1"}]})
        head = f"POST /v1/items/batch HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        await self._send((head + body).encode())
        return time.perf_counter() - start

    async def _send(self, request: bytes) -> bytes:
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        return await self.reader.readexactly(int(length))

    async def ask(self, number: int) -> float:
        """Seconds until the whole answer to a search is there."""
        start = time.perf_counter()
        await self.get(f"/v1/items/{number}/search")
        return time.perf_counter() - start


async def one_after_the_other(address: str, ids: list[int]) -> list[float]:
    line = await Line.to(address)
    return [await line.ask(number) for number in ids]


async def as_fast_as_it_goes(address: str, n_items: int, seconds: float) -> float:
    """Requests a second over several connections."""
    lines = [await Line.to(address) for _ in range(CONNECTIONS)]
    stop = time.perf_counter() + seconds

    async def keep_asking(line: Line, number: int) -> int:
        n = 0
        while time.perf_counter() < stop:
            number = (number * 48271 + 1) % n_items
            await line.ask(number)
            n += 1
        return n

    counts = await asyncio.gather(*(keep_asking(line, k) for k, line in enumerate(lines)))
    return sum(counts) / seconds


async def paced(address: str, n_items: int, end: Coroutine[None, None, None]) -> list[float]:
    """Times of requests that come at a steady pace until ``end``, however long earlier ones take.

    Nothing else may hold up this loop: a request that it sends late counts as slow.
    """
    over = asyncio.create_task(end)
    lines = [await Line.to(address) for _ in range(CONNECTIONS)]
    rng = np.random.default_rng(0)
    waiting: list[asyncio.Task[float]] = []
    free: asyncio.Queue[Line] = asyncio.Queue()
    for line in lines:
        free.put_nowait(line)

    async def ask(due: float) -> float:
        line = await free.get()
        await line.ask(int(rng.integers(n_items)))
        free.put_nowait(line)
        return time.perf_counter() - due

    start = time.perf_counter()
    while not over.done():
        due = start + len(waiting) / PACED
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        waiting.append(asyncio.create_task(ask(due)))
    await over
    return list(await asyncio.gather(*waiting))


async def end_of_update(address: str) -> None:
    line = await Line.to(address)
    while json.loads(await line.get("/v1/updates"))["state"] == "running":
        await asyncio.sleep(0.5)
    await asyncio.sleep(1)  # in which the workers take up the new version


# What is measured.


def overhead(path: Path, address: str, n_items: int) -> None:
    """1: a search by id, in the library and by the service, in turns."""
    ids = np.random.default_rng(1).integers(n_items, size=300).tolist()
    library, service = [], []
    with Database(path) as database:
        database.search_ids([0])
        for _ in range(TURNS):
            for number in ids:
                start = time.perf_counter()
                database.search_ids([number])
                library.append(time.perf_counter() - start)
            service += asyncio.run(one_after_the_other(address, ids))
    p50, own = 1e3 * np.median(service), 1e3 * np.median(library)
    print(f"search by id, p50: library {own:.2f} ms, service {p50:.2f} ms, {p50 - own:.2f} ms above (bar 3)")


def throughput(address: str, empty: str, n_items: int, seconds: float) -> None:
    """1: requests a second, beside a route that does nothing, in turns."""
    ours, theirs = [], []
    for _ in range(TURNS):
        ours.append(asyncio.run(as_fast_as_it_goes(address, n_items, seconds)))
        theirs.append(asyncio.run(as_fast_as_it_goes(empty, n_items, seconds)))
    own, other = float(np.median(ours)), float(np.median(theirs))
    print(
        f"two workers, {CONNECTIONS} connections: {own:.0f} requests/s, of a route that does nothing "
        f"{other:.0f}; share {own / other:.2f} (bar: 1,000 or 0.60, whichever is lower)"
    )


async def adding(address: str, clients: int, seconds: float) -> list[float]:
    """Times of additions of one vector each, by clients that each wait for their answers."""
    lines = [await Line.to(address) for _ in range(clients)]
    stop = time.perf_counter() + seconds

    async def keep_adding(line: Line, seed: int) -> list[float]:
        rng, times = np.random.default_rng(seed), []
        while time.perf_counter() < stop:
            times.append(await line.add(rng.standard_normal(WIDTH)))
        return times

    times = await asyncio.gather(*(keep_adding(line, k) for k, line in enumerate(lines)))
    return [each for some in times for each in some]


def additions(path: Path, seconds: float) -> None:
    """3: single items added by one client, by many, and by many beside two local writers; and by the
    library alone.
    """
    rng = np.random.default_rng(2)
    with server("sihash", "serve", str(path), workers=1) as address, Database(path) as database:
        for _ in range(TURNS):
            own = []
            stop = time.perf_counter() + seconds
            while time.perf_counter() < stop:
                start = time.perf_counter()
                database.add(rng.standard_normal((1, WIDTH)), [1])
                own.append(time.perf_counter() - start)
            one = asyncio.run(adding(address, 1, seconds))
            many = asyncio.run(adding(address, WRITERS, seconds))
            print(
                f"additions of one item: library {1e3 * np.median(own):.1f} ms; one client "
                f"{np.median(one) / np.median(own):.2f} times that; {WRITERS} clients "
                f"{len(many) / len(one):.1f} times as many as one, {len(many) / seconds:.0f}/s (bar 200), "
                f"p99 {np.quantile(many, 0.99):.2f} s (bar 0.5)"
            )
        local = [Process(target=add_alone, args=(path, seed, seconds)) for seed in (3, 4)]
        for process in local:
            process.start()
        beside = asyncio.run(adding(address, WRITERS, seconds))
        for process in local:
            process.join()
        print(
            f"beside two local writers: {len(beside) / seconds:.0f}/s, p99 {np.quantile(beside, 0.99):.2f} s"
        )


def add_alone(path: Path, seed: int, seconds: float) -> None:
    """A local writer: how often it added, and was told that the database is busy."""
    rng, n, n_busy = np.random.default_rng(seed), 0, 0
    stop = time.perf_counter() + seconds
    with Database(path) as database:
        while time.perf_counter() < stop:
            try:
                database.add(rng.standard_normal((1, WIDTH)), [1])
                n += 1
            except DatabaseBusy:
                n_busy += 1
    print(f"a local writer: {n} additions, {n_busy} times told busy")


def during_an_update(address: str, n_items: int, seconds: float) -> None:
    """2: searches without and with an update beside them, in turns."""
    without, beside = [], []
    with Client(address, token=TOKEN) as client:
        for _ in range(TURNS):
            without.append(asyncio.run(paced(address, n_items, asyncio.sleep(seconds))))
            client.start_update("relearn")
            beside.append(asyncio.run(paced(address, n_items, end_of_update(address))))
            state = next(client.follow_update())
            before, after = (1e3 * np.quantile(times[-1], 0.99) for times in (without, beside))
            print(
                f"{PACED} searches/s, p99: {before:.2f} ms alone, {after:.2f} ms beside an update of "
                f"{state.seconds:.1f} s ({state.state})"
            )
    p99, p50 = ([np.quantile(np.concatenate(t), q) for t in (without, beside)] for q in (0.99, 0.5))
    print(
        f"{PACED} searches/s beside an update: p99 {p99[1] / p99[0]:.1f} times that alone (bar 5), "
        f"p50 {p50[1] / p50[0]:.2f} times"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--nothing", action="store_true", help="only serve the route that does nothing")
    parser.add_argument("--port", type=int)
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    if arguments.nothing:
        serve_nothing(arguments.port, arguments.workers)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = made_database(Path(folder), arguments.items)
        with (
            server("sihash", "serve", str(path)) as address,
            server("benchmarks.service", "--nothing") as empty,
        ):
            overhead(path, address, arguments.items)
            throughput(address, empty, arguments.items, arguments.seconds)
            during_an_update(address, arguments.items, arguments.seconds)
        additions(path, arguments.seconds)


if __name__ == "__main__":
    main()
