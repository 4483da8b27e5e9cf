"""GIST of all of CIFAR-10: seconds, memory, and what the descriptor is worth. Needs SIHASH_DATA.

python -m benchmarks.gist [--quality]
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import scipy.fft

from sihash.features import gist
from sihash.research.data import load


def plain(images: np.ndarray) -> np.ndarray:
    """The prototype beside which we measure: complex FFTs of padded images, one filter after the other."""
    x = images.astype(np.float32)
    x -= x.min(axis=(1, 2), keepdims=True)
    x = np.log1p(255 * x / np.maximum(x.max(axis=(1, 2), keepdims=True), 1e-6))
    n = images.shape[1] + 10
    f = np.fft.fftfreq(n, 1 / n)
    lowpass = np.exp(-(f[:, None] ** 2 + f**2) * np.log(2) / 16).astype(np.float32)

    def smooth(values: np.ndarray) -> np.ndarray:
        return scipy.fft.ifft2(scipy.fft.fft2(values, workers=2) * lowpass, workers=2).real

    x = np.pad(x, ((0, 0), (5, 5), (5, 5)), mode="symmetric")
    x = x - smooth(x)
    x = (x / (0.2 + np.sqrt(np.abs(smooth(x * x)))))[:, 5:-5, 5:-5]
    side, margin = x.shape[1], 16
    x = np.pad(x, ((0, 0), (margin, margin), (margin, margin)), mode="symmetric")
    f = np.fft.fftfreq(x.shape[1])
    radius, angle = np.hypot(f[:, None], f), np.arctan2(f[:, None], f[None, :])
    spectrum, features = scipy.fft.fft2(x, workers=2), []
    for scale in range(4):
        for orientation in range(8):
            turned = (angle + np.pi * orientation / 8 + np.pi) % (2 * np.pi) - np.pi
            gain = np.exp(-3.5 * (radius / (0.3 / 1.85**scale) - 1) ** 2 - 2 * np.pi * turned**2)
            energy = np.abs(scipy.fft.ifft2(spectrum * gain.astype(np.float32), workers=2))
            energy = energy[:, margin:-margin, margin:-margin].reshape(-1, 4, side // 4, 4, side // 4)
            features.append(energy.mean(axis=(2, 4)).reshape(-1, 16))
    return np.concatenate(features, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quality", action="store_true", help="mAP of the descriptor, too")
    args = parser.parse_args()
    start = time.perf_counter()
    data = load("cifar10", "gist", cache=False)
    seconds = time.perf_counter() - start
    n = len(data.X_train) + len(data.X_test)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{n:,} images, reading and decoding included: {seconds:.1f} s, peak memory {memory:.0f} MiB")

    images = np.random.default_rng(0).integers(0, 256, (2048, 32, 32), dtype=np.uint8)
    times = {plain: [], gist: []}
    for _ in range(3):
        for function, taken in times.items():
            start = time.perf_counter()
            function(images)
            taken.append(time.perf_counter() - start)
    slow, fast = (min(taken) / len(images) * 1e6 for taken in times.values())
    print(f"an image: plain {slow:.0f} µs, gist {fast:.0f} µs, ratio {slow / fast:.1f}")

    if args.quality:
        quality(data)


def quality(data) -> None:
    """Test mAP of CCA-ITQ and SDH at 32 bits, leave-one-out over the test part."""
    from sihash.evaluation import leave_one_out
    from sihash.research.baselines import CCAITQ, SDH

    for hasher, wanted in ((CCAITQ(n_bits=32, random_state=0), 0.31), (SDH(n_bits=32, random_state=0), 0.39)):
        hasher.fit(data.X_train, data.y_train)
        mAP = leave_one_out(hasher.transform(data.X_test), data.y_test).mAP
        print(f"{type(hasher).__name__}: mAP {mAP:.3f} (wanted: {wanted} or more)")


if __name__ == "__main__":
    main()
