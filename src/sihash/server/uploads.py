"""From uploaded bytes to pixels, by way of the decoder process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from PIL import Image

from sihash.features.images import BadImage
from sihash.server.decoder import ANSWER, REQUEST
from sihash.server.settings import THREADS, Limits

TOO_MUCH = "takes more time or memory to decode than is allowed"


class Overloaded(Exception):
    """No decoder was free for too long."""


class TooManyPixels(Exception):
    """The images of a request have more pixels together than are allowed."""


class Allowance:
    """Pixels that the images of one request may still have. What is no image costs what its header claims."""

    def __init__(self, pixels: int) -> None:
        self.left = pixels

    def spend(self, pixels: int) -> None:
        if pixels > self.left:
            raise TooManyPixels
        self.left -= pixels


class Decoders:
    """The decoder process of one worker: started with it, started again should it ever die."""

    def __init__(self, folder: str, limits: Limits) -> None:
        self._limits = limits
        self._socket = str(Path(tempfile.mkdtemp(prefix="decoder-", dir=folder)) / "socket")
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._free = asyncio.Semaphore(limits.decoders)

    async def start(self) -> None:
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            Path(self._socket).unlink(missing_ok=True)
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "sihash.server.decoder", self._socket),
                json.dumps(asdict(self._limits)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, THREADS: "1"},  # it forks, so it must have no threads
            )
            assert self._process.stdout is not None
            await self._process.stdout.readline()

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()  # which it takes as the end
            await self._process.wait()

    async def decode(
        self, data: bytes, at_least: int | None = None, allowance: Allowance | None = None
    ) -> Image.Image:
        """The picture in ``data`` as RGB; `BadImage` with the reason if it is none, or none we want.

        `TooManyPixels`, before it is decoded, if the ``allowance`` of the request is spent.
        """
        allowance = allowance or Allowance(self._limits.image_pixels)
        size, rest = await self._ask_in_turn(data, at_least, allowance, wanted=True)
        if len(rest) != 3 * size[0] * size[1]:
            raise BadImage(TOO_MUCH)
        return Image.frombytes("RGB", size, rest)

    async def check(self, data: bytes, at_least: int | None, allowance: Allowance) -> None:
        """As `decode`, of a picture that is not wanted here: its pixels stay where they are."""
        await self._ask_in_turn(data, at_least, allowance, wanted=False)

    async def _ask_in_turn(
        self, data: bytes, at_least: int | None, allowance: Allowance, wanted: bool
    ) -> tuple[tuple[int, int], bytes]:
        if not data:
            raise BadImage("the file is empty")
        try:
            async with asyncio.timeout(self._limits.decoder_wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise Overloaded from None
        try:
            return await self._ask(data, at_least or 0, allowance, wanted)
        finally:
            self._free.release()

    async def _ask(
        self, data: bytes, at_least: int, allowance: Allowance, wanted: bool
    ) -> tuple[tuple[int, int], bytes]:
        await self.start()
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            async with asyncio.timeout(self._limits.decode_seconds + 2):
                left = min(allowance.left, self._limits.image_pixels)
                writer.write(REQUEST.pack(at_least, left, wanted, len(data)) + data)
                await writer.drain()
                width, height, n_pixels = ANSWER.unpack(await reader.readexactly(ANSWER.size))
                rest = await reader.read(-1)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            # Nobody knows how many pixels it has, and it took as long as any.
            allowance.spend(self._limits.image_pixels)
            raise BadImage(TOO_MUCH) from None
        finally:
            writer.close()
        allowance.spend(n_pixels)
        if not width:
            raise BadImage(rest.decode(errors="replace"))
        return (width, height), rest
