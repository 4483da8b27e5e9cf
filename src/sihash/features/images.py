"""Bytes that claim to be a picture → a picture in RGB, or one sentence that says why not."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from sihash._typing import Array

# The last two where Pillow can: AVIF is part of most builds, HEIC comes with the package pillow-heif.
DISK_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF", "HEIF")
MAX_PIXELS = 89_478_485  # Pillow's own warning level: a quarter of a gigabyte decoded


class BadImage(ValueError):
    """A file that is no readable picture; the message is the reason."""


def as_image(source: Any) -> Image.Image:
    """A picture from what callers hold: file bytes, a path, a uint8 array or a Pillow image.

    Files become RGB. Arrays of h × w stay grey, of h × w × 3 are RGB.
    """
    if isinstance(source, Image.Image):
        return to_rgb(source)
    if isinstance(source, np.ndarray):
        return _from_array(source)
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            source = file.read()
    return decode(source)


def decode(
    data: bytes,
    *,
    at_least: int | None = None,
    formats: tuple[str, ...] = DISK_FORMATS,
    max_pixels: int = MAX_PIXELS,
) -> Image.Image:
    """The picture in ``data`` as RGB, turned upright as its EXIF tag says; of an animation, the first frame.

    A JPEG may be decoded at a half, quarter or eighth of its size, as long as each side keeps twice
    ``at_least`` pixels: a descriptor of 32 × 32 pixels does not need ten million. Bytes from strangers may
    be held to fewer ``formats`` and pixels.
    """
    formats = _readable(formats)
    with _told(formats, max_pixels):
        image = _opened(data, formats, max_pixels)
        if at_least:
            image.draft(None, (2 * at_least, 2 * at_least))
        image.load()
        return to_rgb(ImageOps.exif_transpose(image))


def n_pixels(data: bytes, *, formats: tuple[str, ...] = DISK_FORMATS, max_pixels: int = MAX_PIXELS) -> int:
    """Pixels of the picture in ``data`` as its header says; nothing is decoded. Refuses as `decode` does."""
    formats = _readable(formats)
    with _told(formats, max_pixels):
        image = _opened(data, formats, max_pixels)
        return image.width * image.height


@cache
def _readable(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Those that Pillow reads here, with pillow-heif if it is installed."""
    if "HEIF" in formats:
        with suppress(ImportError):
            import pillow_heif

            pillow_heif.register_heif_opener()
    Image.init()
    return tuple(name for name in formats if name in Image.OPEN)


def _opened(data: bytes, formats: tuple[str, ...], max_pixels: int) -> Image.Image:
    """A picture of which only the header is read."""
    if not data:
        raise BadImage("the file is empty")
    image = Image.open(io.BytesIO(data), formats=formats)
    if image.width * image.height > max_pixels:
        raise BadImage(f"{image.width} × {image.height} pixels are more than the {max_pixels:,} allowed")
    return image


@contextmanager
def _told(formats: tuple[str, ...], max_pixels: int) -> Iterator[None]:
    """Pillow's decoders meet hostile bytes and fail in many ways; each is a property of this one file."""
    try:
        yield
    except BadImage:
        raise
    except UnidentifiedImageError:
        raise BadImage(f"not a picture of a known kind ({', '.join(formats)})") from None
    except Image.DecompressionBombError:
        raise BadImage(f"more than the {max_pixels:,} pixels allowed") from None
    except Exception as error:
        raise BadImage(f"cannot be decoded: {error}") from None


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode as RGB: 16 bits scaled to 8, other deep modes stretched, transparency laid on white."""
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) // 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):  # these have no agreed range
        return Image.fromarray(_stretch(np.asarray(image, dtype=np.float64))).convert("RGB")
    if image.has_transparency_data:
        opaque = Image.new("RGBA", image.size, "white")
        opaque.alpha_composite(image.convert("RGBA"))
        return opaque.convert("RGB")
    return image.convert("RGB")


def _stretch(values: Array) -> Array:
    values = np.nan_to_num(values - np.nanmin(values), posinf=0, neginf=0)
    return (values * (255 / max(values.max(), 1e-300))).astype(np.uint8)


def _from_array(values: Array) -> Image.Image:
    if values.dtype != np.uint8 or not (values.ndim == 2 or (values.ndim == 3 and values.shape[2] == 3)):
        raise BadImage(
            f"expected a uint8 array of h × w or h × w × 3, got {values.dtype} of shape {values.shape}"
        )
    if not values.size:
        raise BadImage(f"the image has no pixels (shape {values.shape})")
    return Image.fromarray(np.ascontiguousarray(values))
