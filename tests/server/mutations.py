"""Images that were images once, and files made to hurt a decoder."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "ICO")


def mutated(n: int, seed: int = 0, with_bombs: bool = True) -> Iterator[bytes]:
    """``n`` files: cut short, bits flipped, bytes overwritten, pieces moved, headers swapped; and bombs."""
    rng = np.random.default_rng(seed)
    seeds = [encoded(kind, rng) for kind in FORMATS for _ in range(4)]
    hostile = bombs() if with_bombs else []
    for number in range(n):
        if number < len(hostile):
            yield hostile[number]
        else:
            yield _mutate(seeds[rng.integers(len(seeds))], seeds, rng)


def encoded(kind: str, rng: np.random.Generator) -> bytes:
    pixels = rng.integers(0, 255, (int(rng.integers(1, 60)), int(rng.integers(1, 60)), 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def _mutate(data: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    content = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        how, place = rng.integers(6), int(rng.integers(max(1, len(content))))
        if how == 0:
            del content[place:]
        elif how == 1 and content:
            content[place % len(content)] ^= 1 << int(rng.integers(8))
        elif how == 2:  # sizes live near the beginning
            head = int(rng.integers(min(40, len(content)) or 1))
            content[head : head + 4] = rng.bytes(4)
        elif how == 3:
            content[place : place + 16] = b""
        elif how == 4:
            other = others[rng.integers(len(others))]
            content[place:] = other[int(rng.integers(len(other))) :]
        else:
            content[place:place] = rng.bytes(int(rng.integers(64)))
    return bytes(content)


def bombs() -> list[bytes]:
    """Little to send, much to decode; and what is no image at all."""
    wide = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(wide, "PNG")
    at_limit = io.BytesIO()
    Image.new("RGB", (5000, 5000)).save(at_limit, "PNG")
    return [
        wide.getvalue(),
        at_limit.getvalue(),
        _png_claiming(2**31 - 1, 2**31 - 1),
        _png_claiming(65_535, 65_535),
        _png_claiming(0, 0),
        _gif_with_many_frames(),
        _png_with_inflating_text(),
        b"",
        b"\0" * 1000,
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(/etc/passwd) (r) file\n",
        b"PK\x03\x04" + b"\0" * 100,
        b"GIF89a" + b"\xff" * 500,
        b"RIFF\xff\xff\xff\xffWEBPVP8L",
        b"MZ" + bytes(range(256)),
    ]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png_claiming(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(bytes(100)))


def _png_with_inflating_text() -> bytes:
    """A comment of a few kilobytes that unpacks to hundreds of megabytes."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    text = b"k\0\0" + zlib.compress(bytes(200 << 20), 9)
    body = _chunk(b"zTXt", text) + _chunk(b"IDAT", zlib.compress(b"\0\0\0\0")) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + body


def _gif_with_many_frames() -> bytes:
    frames = [Image.new("P", (2, 2), k % 256) for k in range(300)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    return file.getvalue()
