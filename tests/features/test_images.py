"""Decoding: every mode of picture, upright and in RGB; every broken one refused with its reason."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from sihash.features.images import MAX_PIXELS, BadImage, as_image, decode, n_pixels


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def colours() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_files_come_back_exactly(colours, kind):
    assert np.array_equal(np.asarray(decode(encoded(colours, kind))), np.asarray(colours))


@pytest.mark.parametrize("kind", ["JPEG", "GIF", "WEBP"])
def test_lossy_files_come_back(colours, kind):
    image = decode(encoded(colours, kind))
    assert (image.mode, image.size) == ("RGB", (30, 20))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F"])
def test_every_mode_becomes_rgb(mode):
    ramp = Image.fromarray(np.tile(np.arange(256, dtype=np.uint8), (4, 1)))
    if mode in ("I;16", "I", "F"):
        dtype = {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
        image = Image.fromarray(np.asarray(ramp).astype(dtype) * dtype(257))
    else:
        image = ramp.convert(mode) if mode == "P" else ramp.convert("RGB").convert(mode)
    grey = np.asarray(decode(encoded(image, "TIFF" if mode != "P" else "PNG")).convert("L")).astype(int)
    expected = np.where(np.arange(256) > 127, 255, 0) if mode == "1" else np.arange(256)
    tolerance = 255 if mode == "1" else 3  # one bit is dithered
    assert np.abs(grey - expected).max() <= tolerance
    assert grey[0, 0] <= 3
    assert grey[0, -1] >= 252


@pytest.mark.parametrize(("kind", "plugin"), [("AVIF", "PIL.AvifImagePlugin"), ("HEIF", "pillow_heif")])
def test_photos_of_telephones(colours, kind, plugin, tmp_path):
    """Where Pillow reads them, or a plug-in of it that is installed."""
    pytest.importorskip(plugin)
    smooth = colours.resize((3, 2)).resize((64, 48), Image.Resampling.BICUBIC)
    with suppress(BadImage):
        decode(b"registers the plug-in")
    try:
        data = encoded(smooth, kind, quality=95)
    except (KeyError, OSError):
        pytest.skip(f"this Pillow writes no {kind}")
    decoded = decode(data, at_least=16)
    assert (decoded.mode, decoded.size) == ("RGB", (64, 48))
    assert np.abs(np.asarray(decoded).astype(int) - np.asarray(smooth)).mean() < 12
    assert n_pixels(data) == 64 * 48


def test_a_photo_of_forty_megapixels_is_not_decoded_whole():
    data = encoded(Image.new("RGB", (8000, 5000), "green"), "JPEG")
    assert n_pixels(data) == 40_000_000
    assert decode(data, at_least=160).size == (1000, 625)


def test_transparency_is_laid_on_white():
    image = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    assert decode(encoded(image, "PNG")).getpixel((0, 0)) == (255, 255, 255)


def test_exif_rotation_is_honoured(colours):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90° clockwise
    turned = decode(encoded(colours, "PNG", exif=exif))
    assert np.array_equal(np.asarray(turned), np.rot90(np.asarray(colours), -1))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_an_animation_the_first_frame_counts(kind):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    red, green, blue = decode(data).getpixel((0, 0))
    assert (red > 200, green < 50, blue < 50) == (True, True, True)


def test_a_large_jpeg_may_be_decoded_smaller():
    image = Image.new("RGB", (1600, 800), "green")
    assert decode(encoded(image, "JPEG"), at_least=32).size == (200, 100)
    assert decode(encoded(image, "JPEG")).size == (1600, 800)


def test_pixels_are_counted_by_the_header(colours):
    whole = encoded(colours, "PNG")
    assert n_pixels(whole) == n_pixels(whole[: len(whole) // 2]) == 600
    for data in (b"", b"no picture", bomb()):
        with pytest.raises(BadImage) as counted:
            n_pixels(data)
        with pytest.raises(BadImage) as decoded:
            decode(data)
        assert str(counted.value) == str(decoded.value)


def bomb() -> bytes:
    """A PNG that announces 30,000 × 30,000 pixels in a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"these are words, not pixels", "not a picture"),
        (bytes(1000), "not a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
        (bomb(), f"{MAX_PIXELS:,}"),
    ],
)
def test_what_is_no_picture_is_refused_with_its_reason(data, reason):
    with pytest.raises(BadImage, match=reason):
        decode(data)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"])
def test_truncated_files_are_refused(colours, kind):
    data = encoded(colours, kind)
    with pytest.raises(BadImage):
        decode(data[: len(data) * 2 // 3])


@pytest.mark.filterwarnings("ignore")
def test_damaged_bytes_are_decoded_or_refused_and_nothing_else(colours):
    rng = np.random.default_rng(0)
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "TIFF"):
        whole = np.frombuffer(encoded(colours, kind), dtype=np.uint8)
        for _ in range(200):
            data = whole.copy()
            where = rng.integers(0, len(data), 5)
            data[where] = rng.integers(0, 256, 5)
            with suppress(BadImage):
                assert decode(data.tobytes()).mode == "RGB"


def test_sources_of_every_kind(colours, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(encoded(colours, "PNG"))
    pixels = np.asarray(colours)
    for source in (path, str(path), path.read_bytes(), colours, pixels):
        assert np.array_equal(np.asarray(as_image(source)), pixels)
    assert as_image(pixels[:, :, 0]).mode == "L"


@pytest.mark.parametrize(
    "array", [np.zeros((3, 3)), np.zeros((3, 3, 4), np.uint8), np.zeros((0, 3), np.uint8)]
)
def test_arrays_that_are_no_image(array):
    with pytest.raises(BadImage):
        as_image(array)
