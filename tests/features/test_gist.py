"""GIST against the original's steps written with a plain FFT, and on the images that break descriptors."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.features import extract, gist


def twin(image: np.ndarray) -> np.ndarray:
    """The steps of the authors' code on one image, by complex FFT of the mirrored image."""
    n = len(image)
    x = image.astype(np.float64) - image.min()
    x = np.log1p(255 * x / max(x.max(), 1e-30))
    f = np.fft.fftfreq(2 * n)  # cycles a pixel of the mirrored image, twice as large

    def filtered(values, gain):
        mirrored = np.block([[values, values[:, ::-1]], [values[::-1], values[::-1, ::-1]]])
        return np.fft.ifft2(np.fft.fft2(mirrored) * gain)[:n, :n]

    lowpass = np.exp(-((f[:, None] * n) ** 2 + (f * n) ** 2) / (4 / np.sqrt(np.log(2))) ** 2)
    x = x - filtered(x, lowpass).real
    x = x / (0.2 + np.sqrt(np.abs(filtered(x * x, lowpass).real)))

    radius, angle = np.hypot(f[:, None], f), np.arctan2(f[:, None], f[None, :])
    features = []
    for scale in range(4):
        for orientation in range(8):
            turned = angle + np.pi * orientation / 8
            turned = turned + 2 * np.pi * (turned < -np.pi) - 2 * np.pi * (turned > np.pi)
            gain = np.exp(-10 * 0.35 * (radius / (0.3 / 1.85**scale) - 1) ** 2 - 2 * np.pi * turned**2)
            gain[0, 0] = 0
            energy = np.abs(filtered(x, gain))
            features.append(energy.reshape(4, n // 4, 4, n // 4).mean(axis=(1, 3)).ravel())
    return np.concatenate(features)


@pytest.mark.parametrize("side", [4, 32, 48])
def test_equals_the_original_steps(side):
    images = np.random.default_rng(side).integers(0, 256, (5, side, side), dtype=np.uint8)
    images[1] = np.arange(side)[:, None] * 255 // side  # a ramp
    expected = np.stack([twin(image) for image in images])
    assert gist(images) == pytest.approx(expected, abs=2e-4)


def test_responds_to_the_direction_of_a_grating():
    """Stripes across x wake the filter of orientation 0, stripes across y that of orientation 4."""
    waves = np.cos(2 * np.pi * 0.3 / 1.85 * np.arange(32)) * 100 + 128
    vertical, horizontal = np.tile(waves, (32, 1)), np.tile(waves[:, None], (1, 32))
    energies = gist(np.stack([vertical, horizontal])).reshape(2, 4, 8, 16).sum(axis=3)
    assert energies[0].argmax() == np.ravel_multi_index((1, 0), (4, 8))
    assert energies[1].argmax() == np.ravel_multi_index((1, 4), (4, 8))


def test_brightness_and_contrast_do_not_matter():
    image = np.random.default_rng(0).integers(0, 256, (32, 32)).astype(np.float32)
    assert gist(0.3 * image[None] + 40) == pytest.approx(gist(image[None]), abs=1e-3)


def test_batches_do_not_matter():
    images = np.random.default_rng(0).integers(0, 256, (150, 32, 32), dtype=np.uint8)
    one_by_one = np.concatenate([gist(image[None]) for image in images])
    assert gist(images) == pytest.approx(one_by_one, abs=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (1, 1000), (7, 3), (2500, 4000), (32, 32, 3), (2, 500, 3)])
def test_any_size_is_finite(shape):
    rng = np.random.default_rng(0)
    flat, noise = np.full(shape, 200, np.uint8), rng.integers(0, 256, shape, dtype=np.uint8)
    features = extract([flat, noise], "gist")
    assert features.shape == (2, 512)
    assert np.isfinite(features).all()
    assert (features[0] == 0).all()


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"multiple of 4, got shape \(2, 30, 30\)"):
        gist(np.zeros((2, 30, 30)))
    with pytest.raises(ValueError, match="positive multiple of 4"):
        extract([], "gist", size=30)
    assert gist(np.zeros((0, 32, 32))).shape == (0, 512)
