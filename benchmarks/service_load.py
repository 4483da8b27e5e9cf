"""The service under load, behind TLS: ``python -m benchmarks.service_load [--minutes 10] [--clients 64]``.

Clients search while items come, go and are learned. A small proxy with a certificate of its own stands in
front, under another name and port; everything stays on 127.0.0.1. Told in the end: requests, failures,
answers that mix versions, p50 and p99, memory of the workers.

What an answer must keep:

- its version, on one connection, never goes back;
- by one version a query has one code and an item has one, whoever answers; distances are those of the codes;
- no item is found whose removal was acknowledged before the question; what was added is there at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.service import N_CLASSES, TOKEN, WIDTH, made_database

NAME = "sihash.test"  # of the proxy; a reserved name, which no resolver knows
PAUSE = 0.2  # seconds between an answer and the next question of a client
BATCH = 20  # items that come and go
LEARN_EVERY = 20.0  # seconds from the end of an update to the next
LOOK_EVERY = 5.0  # seconds between looks at the memory


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# The proxy: ends TLS and hands bytes on.


def certificate(folder: Path) -> Path:
    """A self-signed certificate with its key, in one file."""
    path = folder / "proxy.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    path.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return path


async def proxy(port: int, target: int, pem: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind, to_behind = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(pump(reader, to_behind), pump(behind, writer))
        except ConnectionRefusedError:  # not started yet
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)
    await server.serve_forever()


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", *arguments], env={**os.environ, "SIHASH_TOKEN": TOKEN})
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


# Clients.


class Line:
    """One TLS connection to the proxy."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self.port, self.context = port, context

    async def open(self) -> Line:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname=NAME
        )
        return self

    async def ask(self, method: str, route: str, body: Any = None) -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        head = [
            f"{method} {route} HTTP/1.1",
            f"Host: {NAME}",
            f"Authorization: Bearer {TOKEN}",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
        ]
        self.writer.write("\r\n".join([*head, "", ""]).encode() + data)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = answer.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        text = await self.reader.readexactly(int(length))
        return int(answer.split(b" ", 2)[1]), json.loads(text)


class Load:
    """What is asked, and what was found to be wrong."""

    def __init__(self, n_items: int, seconds: float, pids: list[int]) -> None:
        self.n_items, self.until, self.pids = n_items, time.monotonic() + seconds, pids
        self.times: list[float] = []
        self.problems: Counter[str] = Counter()
        self.codes: dict[tuple[int, str, int], str] = {}  # by version, of queries and of items
        self.removed: set[int] = set()
        self.n_changes = self.n_updates = 0
        self.memory: list[float] = []

    @property
    def is_on(self) -> bool:
        return time.monotonic() < self.until

    def wrong(self, what: str) -> None:
        self.problems[what] += 1
        if self.problems[what] <= 3:
            print(what, flush=True)

    def check(self, query: int, answer: Any, gone: frozenset[int], last: int) -> None:
        version = answer["version"]
        if version < last:
            self.wrong("a version went back on one connection")
        asked = int(answer["query_code"], 16)
        named = [("query", query, answer["query_code"])]
        for hit in answer["hits"]:
            named.append(("item", hit["id"], hit["code"]))
            if (int(hit["code"], 16) ^ asked).bit_count() != hit["distance"]:
                self.wrong("a distance is not that of the codes")
            if hit["id"] in gone:
                self.wrong("an item was found after it was removed")
        for kind, number, code in named:
            if self.codes.setdefault((version, kind, number), code) != code:
                self.wrong(f"a version has two codes of one {kind}")

    async def search(self, line: Line, seed: int) -> None:
        rng, last = np.random.default_rng(seed), 0
        while self.is_on:
            query, gone = int(rng.integers(self.n_items)), frozenset(self.removed)
            start = time.perf_counter()
            status, answer = await line.ask("GET", f"/v1/items/{query}/search")
            self.times.append(time.perf_counter() - start)
            if status == 200:
                self.check(query, answer, gone, last)
                last = max(last, answer["version"])
            else:
                self.wrong(f"a search got {status}: {answer}")
            await asyncio.sleep(PAUSE * rng.uniform(0.5, 1.5))

    async def change(self, line: Line, other: Line) -> None:
        """Items come, are looked for by another connection, and go."""
        rng = np.random.default_rng(1)
        there: list[list[int]] = []
        while self.is_on:
            vectors = rng.standard_normal((BATCH, WIDTH))
            items = [{"vector": v.tolist(), "label": str(rng.integers(N_CLASSES))} for v in vectors]
            status, answer = await line.ask("POST", "/v1/items/batch", {"items": items})
            if status != 200 or len(answer["added"]) != BATCH:
                self.wrong(f"an addition got {status}: {answer}")
                continue
            there.append(answer["added"])
            status, answer = await other.ask("GET", f"/v1/items/{there[-1][0]}/search")
            if status != 200:
                self.wrong(f"an item that was added is not there: {status}")
            if len(there) > 5:
                gone = there.pop(0)
                status, answer = await line.ask("POST", "/v1/items/remove", {"ids": gone})
                if status != 200:
                    self.wrong(f"a removal got {status}: {answer}")
                self.removed |= set(gone)
            self.n_changes += 1
            await asyncio.sleep(1)

    async def learn(self, line: Line) -> None:
        while self.is_on:
            await line.open()  # the service closes one that is silent for long
            status, answer = await line.ask("POST", "/v1/updates", {})
            if status not in (200, 202):
                self.wrong(f"an update got {status}: {answer}")
            while (state := (await line.ask("GET", "/v1/updates"))[1]["state"]) == "running":
                await asyncio.sleep(0.5)
            if state != "done":
                self.wrong(f"an update ended as {state}")
            self.n_updates += 1
            await asyncio.sleep(LEARN_EVERY)

    async def look(self) -> None:
        while self.is_on:
            self.memory.append(sum(map(megabytes, self.pids)))
            await asyncio.sleep(LOOK_EVERY)


def megabytes(pid: int) -> float:
    """Memory that a process holds itself, mapped files left out."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 2**10


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def wait_for(line_of: Any, n: int) -> list[Line]:
    """``n`` connections, once the service answers."""
    for _ in range(240):
        with suppress(OSError, asyncio.IncompleteReadError):
            if (await (await line_of().open()).ask("GET", "/v1/items/1/search"))[0] == 200:
                await asyncio.sleep(10)  # the other workers
                return [await line_of().open() for _ in range(n)]
        await asyncio.sleep(0.5)
    raise RuntimeError("The service does not answer.")


async def run(n_items: int, n_clients: int, workers: int, minutes: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        path, pem = made_database(Path(name), n_items), certificate(Path(name))
        port, front = free_port(), free_port()
        context = ssl.create_default_context(cafile=str(Path(name) / "cert.pem"))
        serve = ("sihash", "serve", str(path), "--port", str(port), "--workers", str(workers))
        ends = ("benchmarks.service_load", "--proxy", str(front), str(port), str(pem))
        with running(*serve, "--allow-host", NAME) as service, running(*ends):
            lines = await wait_for(lambda: Line(front, context), n_clients + 3)
            load = Load(n_items, 60 * minutes, children(service.pid))
            clients = [load.search(line, k) for k, line in enumerate(lines[3:])]
            await asyncio.gather(load.look(), load.change(lines[0], lines[1]), load.learn(lines[2]), *clients)
    tell(load, minutes)


def tell(load: Load, minutes: float) -> None:
    taken, n = 1e3 * np.array(load.times), len(load.memory)
    parts = np.array_split(load.memory, min(5, n))
    print(
        f"{len(taken):,} searches ({len(taken) / 60 / minutes:.0f}/s), {load.n_changes} batches of items, "
        f"{load.n_updates} updates; {sum(load.problems.values())} problems\n"
        f"p50 {np.quantile(taken, 0.5):.1f} ms, p99 {np.quantile(taken, 0.99):.1f} ms, "
        f"longest {taken.max():.0f} ms\n"
        f"memory of the workers, median of each fifth: {', '.join(f'{np.median(p):.0f}' for p in parts)} MB"
    )
    for what, n_times in load.problems.items():
        print(f"{n_times} times: {what}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--proxy", nargs=3, metavar=("PORT", "TARGET", "PEM"), help="only run the proxy")
    given = parser.parse_args()
    if given.proxy:
        port, target, pem = given.proxy
        asyncio.run(proxy(int(port), int(target), Path(pem)))
    else:
        asyncio.run(run(given.items, given.clients, given.workers, given.minutes))


if __name__ == "__main__":
    main()
