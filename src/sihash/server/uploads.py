"""From uploaded bytes to pixels, by way of the decoder process."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from PIL import Image

from sihash.features.images import BadImage
from sihash.server.decoder import HEAD, SECONDS
from sihash.server.settings import THREADS

AT_ONCE = 2  # images that one worker has decoded at a time; others wait
WAIT_SECONDS = 20.0


class Overloaded(Exception):
    """No decoder was free for too long."""


class Decoders:
    """The decoder process of one worker: started with it, started again should it ever die."""

    def __init__(self, folder: str) -> None:
        self._socket = str(Path(tempfile.mkdtemp(prefix="decoder-", dir=folder)) / "socket")
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._free = asyncio.Semaphore(AT_ONCE)

    async def start(self) -> None:
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            Path(self._socket).unlink(missing_ok=True)
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", str(Path(__file__).with_name("decoder_start.py")), self._socket),
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

    async def decode(self, data: bytes, at_least: int | None = None) -> Image.Image:
        """The picture in ``data`` as RGB; `BadImage` with the reason if it is none, or none we want."""
        if not data:
            raise BadImage("the file is empty")
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise Overloaded from None
        try:
            return await self._ask(data, at_least or 0)
        finally:
            self._free.release()

    async def _ask(self, data: bytes, at_least: int) -> Image.Image:
        await self.start()
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            async with asyncio.timeout(SECONDS + 2):
                writer.write(HEAD.pack(at_least, len(data)) + data)
                await writer.drain()
                width, height = HEAD.unpack(await reader.readexactly(HEAD.size))
                rest = await reader.read(-1)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            raise BadImage("takes more time or memory to decode than is allowed") from None
        finally:
            writer.close()
        if not width:
            raise BadImage(rest.decode(errors="replace"))
        if len(rest) != 3 * width * height:
            raise BadImage("takes more time or memory to decode than is allowed")
        return Image.frombytes("RGB", (width, height), rest)
