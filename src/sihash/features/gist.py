"""GIST, the descriptor of Oliva and Torralba (2001): oriented energy on a coarse grid of a grey image.

The steps and constants are those of the authors' code (LMgist): stretch to 0…255, whiten and normalise
local contrast (``prefilt``), filter with 4 scales × 8 orientations of Gabor transfer functions, average
the magnitudes over 4 × 4 blocks. Two things differ. The mean, which has no direction, has no gain. And
their code mirrors the image at its border by a fixed number of pixels and lets the rest wrap around;
here the mirroring goes on for ever. The
discrete cosine transform is the Fourier transform of exactly that, so an image of n × n pixels needs
n × n real numbers instead of a padded complex spectrum, and every step is a product of small matrices
with a batch of images.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from sihash._typing import Array
from sihash.checks import check_count
from sihash.threads import map_threads

N_SCALES, N_ORIENTATIONS, N_BLOCKS = 4, 8, 4
N_FEATURES = N_SCALES * N_ORIENTATIONS * N_BLOCKS**2
BATCH_IMAGES = 64  # images: the work of one batch stays in the processor's cache

_NEGLIGIBLE = 1e-5  # gains below this are treated as zero: they are beyond float32 in the sum
_CUTOFF = 4 / np.sqrt(np.log(2))  # of the prefilter's Gaussian, in cycles an image: half gain at 4


def gist(images: Array) -> Array:
    """Descriptors of grey images of one size (n × side × side, any real dtype), float32 n × 512.

    ``side`` must be a multiple of 4. The features are ordered (scale, orientation, row, column), finest
    scale first. A flat image has the descriptor 0.
    """
    images = np.asarray(images)
    if images.ndim != 3 or images.shape[1] != images.shape[2] or images.shape[1] % N_BLOCKS:
        raise ValueError(
            f"GIST expects grey images as an array (n, side, side) with side a multiple of {N_BLOCKS}, "
            f"got shape {images.shape}; resize them first, as sihash.features.extract does."
        )
    describe = _bank(images.shape[1]).describe
    starts = range(0, len(images), BATCH_IMAGES)
    parts = map_threads(lambda start: describe(images[start : start + BATCH_IMAGES]), starts)
    return np.concatenate([np.empty((0, N_FEATURES), dtype=np.float32), *parts])


@dataclass(frozen=True)
class Gist:
    """`gist` of images of any kind: made grey, cropped to the centre square, resized to ``size``.

    The frequencies of the filters are tied to the pixel, so one ``size`` must serve a whole collection. 32
    is the size of CIFAR-10; photographs may gain from 64 or 128, at about 8 and 60 times the cost.
    """

    size: int = 32
    batch = BATCH_IMAGES

    def __post_init__(self) -> None:
        check_count("size", self.size)
        if self.size % N_BLOCKS:
            raise ValueError(f"The size of GIST must be a positive multiple of {N_BLOCKS}, got {self.size}.")

    @property
    def settings(self) -> dict[str, Any]:
        return {"features": "gist", **asdict(self)}

    @property
    def at_least(self) -> int:
        return self.size

    def prepare(self, image: Image.Image) -> Array:
        grey = image.convert("L")
        return np.asarray(ImageOps.fit(grey, (self.size, self.size), Image.Resampling.BILINEAR))

    def describe(self, batch: Array) -> Array:
        return _bank(self.size).describe(batch)


@dataclass(frozen=True)
class _Filter:
    """The Gabor pair of orientations θ and −θ at one scale, as gains on the K lowest cosines each way.

    Their transfer functions mirror each other, so four filtered images serve both: ``gains`` (4 × K × K × 1)
    belong to cos·cos, sin·sin, sin·cos and cos·sin in (y, x). ``places`` are the numbers of the two in the
    descriptor; just one if θ is its own mirror image.
    """

    gains: Array
    places: tuple[int, ...]


@dataclass(frozen=True)
class _Bank:
    """Everything about an image size that does not depend on the image.

    ``analysis`` (n × n) takes a column to its cosine coefficients, ``cosines`` and ``sines`` (n × n) take
    coefficients back, ``lowpass`` (n × n) is the prefilter's Gaussian along one axis.
    """

    analysis: Array
    cosines: Array
    sines: Array
    lowpass: Array
    filters: tuple[_Filter, ...]

    def describe(self, images: Array) -> Array:
        """Descriptors of one batch, (n, side, side) to (n, 512)."""
        # The batch is the last axis all the way, so that every product below is one large matrix.
        X = np.ascontiguousarray(images.transpose(1, 2, 0), dtype=np.float32)
        D = _both_axes(self.analysis, self._prefilter(X))
        pooled = np.empty((N_SCALES * N_ORIENTATIONS, N_BLOCKS, N_BLOCKS, X.shape[2]), dtype=np.float32)
        for f in self.filters:
            for place, energy in zip(f.places, self._energies(D, f), strict=True):
                pooled[place] = _block_means(energy)
        return pooled.reshape(N_FEATURES, -1).T

    def _prefilter(self, X: Array) -> Array:
        """Log intensity less its low frequencies, over its local standard deviation."""
        X = X - X.min(axis=(0, 1))
        ranges = X.max(axis=(0, 1))
        X /= np.where(ranges > 0, ranges, 1)
        X *= 255
        np.log1p(X, out=X)
        X -= _both_axes(self.lowpass, X)
        deviation = np.sqrt(np.abs(_both_axes(self.lowpass, X * X)))
        X /= 0.2 + deviation
        return X

    def _energies(self, D: Array, f: _Filter) -> list[Array]:
        """Magnitudes of the filtered images, (side, side, batch) for each of the filter's places."""
        k = f.gains.shape[1]
        cosines, sines = self.cosines[:, :k], self.sines[:, :k]
        cc, ss, sc, cs = f.gains * D[:k, :k]
        even, odd = _synthesis(cosines, cosines, cc), _synthesis(cosines, sines, cs)
        slant, skew = _synthesis(sines, sines, ss), _synthesis(sines, cosines, sc)
        energies = [_magnitude(even + slant, odd + skew)]
        if len(f.places) == 2:
            energies.append(_magnitude(even - slant, skew - odd))
        return energies


def _both_axes(M: Array, X: Array) -> Array:
    """``M X Mᵀ`` for every image of ``X`` (side, side, batch)."""
    return _synthesis(M, M, X)


def _synthesis(rows: Array, columns: Array, D: Array) -> Array:
    k_rows, k_columns, batch = D.shape
    half = (rows @ D.reshape(k_rows, -1)).reshape(len(rows), k_columns, batch)
    return columns @ half


def _magnitude(real: Array, imaginary: Array) -> Array:
    real *= real
    imaginary *= imaginary
    real += imaginary
    return np.sqrt(real, out=real)


def _block_means(energy: Array) -> Array:
    side, _, batch = energy.shape
    step = side // N_BLOCKS
    return energy.reshape(N_BLOCKS, step, N_BLOCKS, step, batch).mean(axis=(1, 3))


@lru_cache(maxsize=4)
def _bank(side: int) -> _Bank:
    n = np.arange(side)
    phase = np.pi * np.outer(n + 0.5, n) / side
    cosines, sines = np.cos(phase), np.sin(phase)
    analysis = 2 / side * cosines.T
    analysis[0] /= 2
    # Cosine k makes k / 2 cycles over the image.
    lowpass = cosines @ (np.exp(-((n / 2 / _CUTOFF) ** 2))[:, None] * analysis)
    return _Bank(_single(analysis), _single(cosines), _single(sines), _single(lowpass), _filters(side))


def _single(M: Array) -> Array:
    return np.ascontiguousarray(M, dtype=np.float32)


def _filters(side: int) -> tuple[_Filter, ...]:
    filters = []
    for scale in range(N_SCALES):
        for orientation in range(N_ORIENTATIONS // 2 + 1):
            mirrored = -orientation % N_ORIENTATIONS
            places = sorted({orientation, mirrored})
            gains = _gains(side, scale, orientation)
            filters.append(_Filter(gains, tuple(scale * N_ORIENTATIONS + o for o in places)))
    return tuple(filters)


def _gains(side: int, scale: int, orientation: int) -> Array:
    """Gains on products of cosines and sines that stand for the transfer function at (±k_y, ±k_x)."""
    k = np.arange(side)
    (pp, pm), (mp, mm) = [[_transfer(y, x, side, scale, orientation) for x in (k, -k)] for y in (k, -k)]
    # cos a · cos b is a quarter of the sum of e^{i(±a±b)}; each of the four is weighted by its gain.
    gains = np.stack([pp + pm + mp + mm, pm + mp - pp - mm, pp + pm - mp - mm, pp - pm + mp - mm]) / 4
    _, y, x, *_ = np.nonzero(np.abs(gains) > _NEGLIGIBLE)
    n_used = max(y.max(initial=0), x.max(initial=0)) + 1
    return _single(gains[:, :n_used, :n_used, None])


def _transfer(k_y: Array, k_x: Array, side: int, scale: int, orientation: int) -> Array:
    """Gabor transfer function of the original code at the frequencies of cosines k_y and k_x."""
    f_y, f_x = k_y[:, None] / (2 * side), k_x[None, :] / (2 * side)  # cycles a pixel
    radius = np.hypot(f_y, f_x) / (0.3 / 1.85**scale)
    angle = np.arctan2(f_y, f_x) + np.pi * orientation / N_ORIENTATIONS
    angle = (angle + np.pi) % (2 * np.pi) - np.pi
    gains = np.exp(-3.5 * (radius - 1) ** 2 - 2 * np.pi * angle**2)
    # The original gives the mean the angle 0, and so a small gain in some orientations.
    gains[radius == 0] = 0
    return gains
