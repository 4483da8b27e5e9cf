"""What describes photos: GIST, the network of the extra photos, and others in ONNX files.

python -m benchmarks.networks [NETWORK.onnx …]

On files of CIFAR-10, 500 a class, and 100 of each class as queries: P@1, P@10, P@1 by the vectors alone, and
photos described in a second of as many cores as there are threads (by processor time), also of files of two
megapixels; and the memory that `sihash create` takes.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from sihash import Database
from sihash.database.describing import Features, describe
from sihash.research import data as research_data
from sihash.threads import n_threads

# What a process inherits counts in ru_maxrss, but not here.
CREATE = """import sys; from sihash import Database
Database.create(sys.argv[1], sys.argv[2], features=sys.argv[3])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))"""


def save(X: np.ndarray, y: np.ndarray, chosen: np.ndarray, folder: Path) -> Path:
    for k in chosen:
        own = folder / str(y[k])
        own.mkdir(parents=True, exist_ok=True)
        Image.fromarray(X[k]).save(own / f"{k}.png")
    return folder


def some_of_each(y: np.ndarray, n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.choice(np.flatnonzero(y == c), n, replace=False) for c in np.unique(y)])


def two_megapixels(n: int) -> list[bytes]:
    """Photos as large as those of an old telephone: test pictures enlarged, with some grain."""
    rng, out = np.random.default_rng(0), []
    X = research_data.load("cifar10").X_test
    for k in range(n):
        large = Image.fromarray(X[k]).resize((1600, 1200), Image.Resampling.BICUBIC)
        grain = rng.normal(0, 6, (1200, 1600, 3))
        file = io.BytesIO()
        Image.fromarray(np.clip(np.asarray(large) + grain, 0, 255).astype(np.uint8)).save(
            file, "JPEG", quality=85
        )
        out.append(file.getvalue())
    return out


def rate(images: list[bytes], features: Features) -> float:
    chosen = features.extractor()
    describe(images[:32], chosen, True)
    start = time.process_time()
    describe(images, chosen, True)
    return n_threads() * len(images) / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help="ONNX files, each with its .json beside it")
    parser.add_argument("--items", type=int, default=500, help="a class")
    parser.add_argument("--queries", type=int, default=100, help="a class")
    args = parser.parse_args()
    data = research_data.load("cifar10")
    large = two_megapixels(120)
    print(f"{n_threads()} threads")
    print("| features | P@1 | P@10 | vectors alone, P@1 | photos/s | of 2 megapixels | create, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        photos = save(data.X_train, data.y_train, some_of_each(data.y_train, args.items), root / "photos")
        queries = save(data.X_test, data.y_test, some_of_each(data.y_test, args.queries), root / "queries")
        files = [path.read_bytes() for path in sorted(photos.rglob("*.png"))[:1000]]
        for k, name in enumerate(["gist", "efficientnet-lite2", *(f"onnx:{file}" for file in args.networks)]):
            command = [sys.executable, "-c", CREATE, str(root / f"{k}"), str(photos), name]
            kilobytes = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            with Database(root / f"{k}") as db:
                ours, nearest = db.evaluate(str(queries)), db.evaluate(str(queries), rank="vector")
            features = Features.named(name)
            print(
                f"| {name} | {ours.p_at_1:.3f} | {ours.p_at_10:.3f} | {nearest.p_at_1:.3f} "
                f"| {rate(files, features):.0f} | {rate(large, features):.0f} | {int(kilobytes) / 1024:.0f} |"
            )


if __name__ == "__main__":
    main()
