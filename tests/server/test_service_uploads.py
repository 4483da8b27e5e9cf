"""What comes in: hostile images, bodies that are too large or too slow, connections that say nothing."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import uvicorn
from mutations import encoded, mutated
from PIL import Image
from services import IS_SOAK, SECONDS_OF_A_TEST, TOKEN, application, is_ready, memory_of, running, wait_until

from ports import free_port
from sihash.features import BadImage
from sihash.features.images import decode
from sihash.server.decoder import UPLOAD_FORMATS
from sihash.server.requests import Bodies
from sihash.server.run import Config, PunctualProtocol
from sihash.server.settings import Limits
from sihash.server.uploads import Allowance, Decoders, TooManyPixels

N_MUTATED = 20_000 if IS_SOAK else 160
HELD_SECONDS = 30  # an answer that takes longer counts as none
LIMITS = Limits()
BEARER = {"authorization": f"Bearer {TOKEN}"}


# Images.


@pytest.mark.timeout(SECONDS_OF_A_TEST)
def test_mutated_images_do_no_harm(served):
    """No crash, no hang, no 5xx, bounded memory; and the next search works."""
    with httpx.Client(base_url=served.address, timeout=HELD_SECONDS) as http:

        def send(data: bytes) -> int:
            return http.post(
                "/v1/search/image", content=data, headers={"content-type": "image/png"}
            ).status_code

        before = memory_of(served.process.pid)
        with ThreadPoolExecutor(2) as pool:
            statuses = list(pool.map(send, mutated(N_MUTATED)))
        assert set(statuses) <= {200, 422}
        assert 0.05 < statuses.count(200) / len(statuses) < 0.95  # some survive, most do not
        assert memory_of(served.process.pid) - before < 200 << 20
        assert http.get("/v1/items/1/search").status_code == 200
    assert served.process.poll() is None


def test_the_decoder_agrees_with_the_library(tmp_path):
    """The same pixels, or a refusal by both: it is the same code, in another process with narrower limits."""

    async def run() -> int:
        decoders = Decoders(str(tmp_path), LIMITS)
        await decoders.start()
        agreed = 0
        rng = np.random.default_rng(0)
        whole = [encoded(kind, rng) for kind in UPLOAD_FORMATS]
        for data in [*whole, *mutated(25, seed=1, with_bombs=False)]:
            with contextlib.suppress(BadImage):
                found = await decoders.decode(data)
                assert (
                    found.tobytes()
                    == decode(data, formats=UPLOAD_FORMATS, max_pixels=LIMITS.image_pixels).tobytes()
                )
                agreed += 1
        await decoders.stop()
        return agreed

    assert asyncio.run(run()) >= len(UPLOAD_FORMATS)


def test_the_decoder_loads_little():
    """It forks for every image, and the cost of a fork is that of copying the page tables."""
    code = (
        "import sys, sihash.server.decoder\n"
        "print({'numba', 'scipy', 'sklearn', 'fastapi', 'onnxruntime'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_a_decoder_that_dies_is_replaced(tmp_path, digits):
    async def run() -> None:
        decoders = Decoders(str(tmp_path), LIMITS)
        await decoders.start()
        os.kill(decoders._process.pid, signal.SIGKILL)
        await decoders._process.wait()
        assert (await decoders.decode(digits[0][0])).size == (48, 48)
        await decoders.stop()

    asyncio.run(run())


def test_what_takes_too_long_is_cut_off(tmp_path, digits):
    """A child that does not answer is given up, and the next image is decoded."""

    async def run() -> None:
        decoders = Decoders(str(tmp_path), Limits(decode_seconds=1))
        await decoders.start()
        os.kill(decoders._process.pid, signal.SIGSTOP)
        with pytest.raises(BadImage, match="more time"):
            await decoders.decode(digits[0][0])
        os.kill(decoders._process.pid, signal.SIGCONT)
        assert (await decoders.decode(digits[0][0])).size == (48, 48)
        await decoders.stop()

    asyncio.run(run())


def test_too_many_images_at_once_are_told_to_wait(template, tmp_path, digits):
    """On every route that takes one."""
    data, image = digits[0][0], {**BEARER, "content-type": "image/png"}
    batch = {"items": [{"image": base64.b64encode(data).decode()}]}
    limits = Limits(decoders=0, decoder_wait_seconds=0.01)
    with application(template, tmp_path, limits=limits) as http:
        answers = [http.post("/v1/items/batch", json=batch, headers=BEARER)]
        for path in ("/v1/search/image", "/v1/classify/image", "/v1/items"):
            answers.append(http.post(path, content=data, headers=image))
    assert {(one.status_code, one.headers["retry-after"]) for one in answers} == {(503, "1")}
    assert {one.json()["detail"] for one in answers} == {"Too many images at once; try again in a moment."}


def _as_batch(images):
    return {"items": [{"image": base64.b64encode(data).decode()} for data in images]}


def test_a_batch_of_huge_images_is_refused_by_their_headers(in_process):
    """40 of 25 megapixels: what is little to send must not be much to decode."""
    file = io.BytesIO()
    Image.new("L", (5000, 5000)).save(file, "PNG")
    n_items = in_process.get("/v1/info").json()["n_items"]
    answer = in_process.post("/v1/items/batch", json=_as_batch([file.getvalue()] * 40), headers=BEARER)
    assert answer.status_code == 413
    assert answer.json()["detail"] == (
        "The images of one request may have 250,000,000 pixels together; send fewer at a time."
    )
    assert in_process.get("/v1/info").json()["n_items"] == n_items


def test_pixels_of_a_request_are_counted_together(template, tmp_path, digits):
    """Of images that cannot be used, too; and of every route that takes one."""
    pixels = 48 * 48
    images = [data for data, _ in digits[:4]]
    cut = [data[: len(data) // 2] for data in images]
    copy = shutil.copytree(template, tmp_path / "digits")
    with application(copy, tmp_path, limits=Limits(request_pixels=3 * pixels)) as client:

        def status(batch):
            return client.post("/v1/items/batch", json=_as_batch(batch), headers=BEARER).status_code

        assert [status(images[:3]), status(images[:4])] == [200, 413]
        assert [status(cut[:3]), status([*cut[:3], images[0]])] == [200, 413]
        assert status([*images[:3], b"no image", b""]) == 200
    with application(copy, tmp_path, limits=Limits(request_pixels=pixels - 1)) as client:
        image = {**BEARER, "content-type": "image/png"}
        for path in ("/v1/search/image", "/v1/classify/image", "/v1/items"):
            answer = client.post(path, content=images[0], headers=image)
            assert (answer.status_code, "2,303 pixels" in answer.json()["detail"]) == (413, True)


def test_images_that_cost_their_decoder_its_life_are_few(tmp_path, digits):
    """Each counts as one of the largest, so a batch of them ends soon."""

    async def run() -> None:
        decoders = Decoders(str(tmp_path), Limits(decode_seconds=1))
        await decoders.start()
        os.kill(decoders._process.pid, signal.SIGSTOP)
        allowance = Allowance(2 * LIMITS.image_pixels)
        for _ in range(2):
            with pytest.raises(BadImage, match="more time"):
                await decoders.check(digits[0][0], None, allowance)
        with pytest.raises(TooManyPixels):
            await decoders.check(digits[0][0], None, allowance)
        os.kill(decoders._process.pid, signal.SIGCONT)
        await decoders.stop()

    asyncio.run(run())


def test_wrong_types_are_refused(served, digits):
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""):
        answer = httpx.post(
            f"{served.address}/v1/search/image", content=digits[0][0], headers={"content-type": kind}
        )
        assert answer.status_code == 415


# Bodies.


def test_a_huge_body_is_refused_before_it_is_sent(served):
    """By its announcement, and, without one, as soon as it is too long."""
    where = urlsplit(served.address)
    head = "POST /v1/search/image HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\n"
    with socket.create_connection((where.hostname, where.port), timeout=HELD_SECONDS) as line:
        line.sendall(f"{head}Content-Length: {10 << 30}\r\n\r\n".encode())
        assert b" 413 " in line.recv(200)

    def endless():
        for _ in range(LIMITS.image_bytes // (1 << 20) + 200):
            yield bytes(1 << 20)

    before = memory_of(served.process.pid)
    with contextlib.suppress(httpx.TransportError):  # it may hang up on us
        answer = httpx.post(
            f"{served.address}/v1/search/image", content=endless(), headers={"content-type": "image/png"}
        )
        assert answer.status_code == 413
    assert memory_of(served.process.pid) - before < 60 << 20
    assert is_ready(served.address)


@pytest.mark.parametrize("path", ["/v1/search/vector", "/v1/classes/relabel", "/v1/updates", "/v1/undo"])
def test_small_bodies_have_a_small_limit(served, path):
    headers = {**BEARER, "content-type": "application/json"}
    answer = httpx.post(f"{served.address}{path}", content=b" " * (2 << 20), headers=headers)
    assert answer.status_code == 413


async def _answer(app, path, messages):
    """What a bare ASGI application says to these messages; the last one never ends."""
    sent = []
    waiting = list(messages)

    async def receive():
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(3600)

    async def send(message):
        sent.append(message)

    await app({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
    return sent[0]["status"]


async def _echo(scope, receive, send):
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [], "body": message["body"]})


def _part(size, more=True):
    return {"type": "http.request", "body": bytes(size), "more_body": more}


def test_a_dripping_body_times_out_and_holds_up_nobody():
    async def run():
        app = Bodies(_echo, Limits(body_seconds=1))
        slow = [asyncio.create_task(_answer(app, "/v1/items", [_part(1)])) for _ in range(50)]
        assert await _answer(app, "/v1/items", [_part(10, False)]) == 200
        assert not any(task.done() for task in slow)
        assert set(await asyncio.gather(*slow)) == {408}
        assert app.n_held == 0

    asyncio.run(run())


def test_all_bodies_together_are_bounded():
    async def run():
        app = Bodies(_echo, Limits(body_seconds=1, held_bytes=1000))
        held = asyncio.create_task(_answer(app, "/v1/items", [_part(900)]))
        await asyncio.sleep(0.05)
        assert await _answer(app, "/v1/items", [_part(200, False)]) == 503
        assert await _answer(app, "/v1/items", [_part(50, False)]) == 200
        assert await held == 408
        assert await _answer(app, "/v1/items", [_part(200, False)]) == 200
        assert await _answer(app, "/v1/items", [_part(1), {"type": "http.disconnect"}]) == 400

    asyncio.run(run())


# Connections.


def test_silent_and_dripping_connections_are_closed():
    """Headers have to be complete in time; meanwhile others are served."""
    port = free_port()
    config = Config(_hello, port=port, http=PunctualProtocol, lifespan="off", log_level="error")
    config.header_seconds = 1.5
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        lines = [socket.create_connection(("127.0.0.1", port), timeout=HELD_SECONDS) for _ in range(20)]
        for line in lines[10:]:
            line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        assert httpx.get(f"http://127.0.0.1:{port}/").text == "hello"
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}"
        ) as kept:  # a kept connection outlives the deadline
            kept.get("/")
            time.sleep(2)
            assert kept.get("/").text == "hello"
        for line in lines:
            assert line.recv(1) == b""  # closed
            line.close()
    finally:
        server.should_exit = True
        thread.join()


async def _hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def test_nothing_is_left_behind(served):
    """The service keeps no file of an upload."""
    folders = [path for path in Path(served.database).iterdir() if path.is_dir()]
    assert {folder.name for folder in folders} == {"segments", "models"}


@pytest.mark.slow
def test_six_large_batches_at_once_take_little_memory(template, tmp_path):
    """Each is 54 MB of images in JSON. Some may be told to come back; those taken are whole."""

    def noise(seed):
        file = io.BytesIO()
        pixels = np.random.default_rng(seed).integers(0, 256, (1200, 1200, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file, "PNG", compress_level=1)
        return base64.b64encode(file.getvalue()).decode()

    bodies = [
        json.dumps({"items": [{"image": noise(10 * k + j), "label": "noise"} for j in range(10)]}).encode()
        for k in range(6)
    ]
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    with running(shutil.copytree(template, tmp_path / "digits")) as served:
        peak, is_over = 0, threading.Event()

        def watch():
            nonlocal peak
            while not is_over.wait(0.01):
                peak = max(peak, memory_of(served.process.pid))

        def send(body):
            address = f"{served.address}/v1/items/batch"
            return httpx.post(address, content=body, headers=headers, timeout=300, trust_env=False)

        watcher = threading.Thread(target=watch)
        watcher.start()
        with ThreadPoolExecutor(len(bodies)) as pool:
            answers = list(pool.map(send, bodies))
        is_over.set()
        watcher.join()
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 2
    assert all(len(answer.json()["added"]) == 10 for answer in answers if answer.status_code == 200)
    assert peak < 500 << 20, f"{peak >> 20} MiB"
