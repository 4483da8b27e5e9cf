"""Where the named data sets are: in ``SIHASH_DATA``, in the user's cache, or to be had from the network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from sihash._typing import Progress
from sihash.datasets.files import is_archive
from sihash.research.data.download import Remote, fetch_all


@dataclass(frozen=True)
class Named:
    """A data set known by name.

    ``paths`` are tried below each data directory, in order. ``remotes`` are its official files, empty if it
    cannot be downloaded without asking somebody; ``advice`` then says how to come by it.
    """

    name: str
    title: str
    paths: tuple[str, ...]
    remotes: tuple[Remote, ...] = ()
    advice: str = ""


_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_LECUN = "http://yann.lecun.com/exdb/mnist/"
_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"  # the official place often refuses

_MNIST_FILES = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}

NAMED = {
    entry.name: entry
    for entry in (
        Named(
            "cifar10",
            "60,000 colour images of 32 × 32 in 10 classes (Krizhevsky, 2009)",
            paths=(
                "cifar10",
                "cifar-10",
                "cifar-10-batches-bin",
                "cifar-10-batches-py",
                "cifar-10-binary.tar.gz",
                "cifar-10-python.tar.gz",
                "cifar-10-images.zip",
            ),
            remotes=(
                Remote(
                    "cifar-10-binary.tar.gz",
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                    (f"{_TORONTO}cifar-10-binary.tar.gz",),
                ),
            ),
        ),
        Named(
            "mnist",
            "70,000 handwritten digits of 28 × 28 (LeCun, Cortes and Burges)",
            paths=("mnist", "MNIST"),
            remotes=tuple(
                Remote(f"mnist/{file}", sha256, (f"{_LECUN}{file}", f"{_MIRROR}{file}"))
                for file, sha256 in _MNIST_FILES.items()
            ),
        ),
        Named(
            "nuswide",
            "500-d bags of words of images with one of the ten most frequent tags (Chua et al., 2009)",
            paths=("nuswide", "nus-wide", "NUS-WIDE"),
            advice="Ask for it at https://lms.comp.nus.edu.sg/research/NUS-WIDE.htm; the files "
            "BoW_Train_int.dat, BoW_Test_int.dat and the folder TrainTestLabels are needed.",
        ),
        Named("digits", "1,797 handwritten digits of 8 × 8, part of scikit-learn", paths=()),
    )
}


def data_folders() -> list[Path]:
    """Where data sets are looked for, in order."""
    given = os.environ.get("SIHASH_DATA")
    return [*([Path(given).expanduser()] if given else []), download_folder()]


def download_folder() -> Path:
    return platformdirs.user_cache_path("sihash") / "data"


def find(entry: Named) -> Path | None:
    """The first place that holds the data set, or None; an archive within a folder of its name goes first."""
    folders = [folder for folder in data_folders() if not _half_downloaded(entry, folder)]
    return next((path for folder in folders for path in _candidates(entry, folder)), None)


def _half_downloaded(entry: Named, folder: Path) -> bool:
    there = [(folder / remote.file).exists() for remote in entry.remotes]
    return any(there) and not all(there)


def _candidates(entry: Named, folder: Path) -> Iterator[Path]:
    for relative in entry.paths:
        path = folder / relative
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if not p.name.startswith("."))
            yield from (p for p in inside if p.is_file() and is_archive(p))
            if inside:
                yield path
        elif path.is_file():
            yield path


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """The place of a named data set; downloaded there if it is nowhere yet."""
    entry = entry_of(name)
    found = find(entry)
    if found:
        return found
    target = download_folder()
    if not entry.remotes:
        raise FileNotFoundError(
            f"{name} was found neither {_places()} and cannot be downloaded freely. {entry.advice}"
        )
    try:
        fetch_all(entry.remotes, target, progress)
    except OSError as error:
        files = " and ".join(remote.file for remote in entry.remotes)
        raise FileNotFoundError(
            f"{name} was found neither {_places()} and could not be downloaded ({error}); get "
            f"{entry.remotes[0].urls[0]} on a machine with a network and put {files} into {target}, or set "
            "SIHASH_DATA to the folder that holds it."
        ) from None
    path = find(entry)
    assert path is not None
    return path


def entry_of(name: str) -> Named:
    if name not in NAMED:
        raise ValueError(f"No data set is named {name!r}; there are {', '.join(NAMED)}.")
    return NAMED[name]


def _places() -> str:
    given = os.environ.get("SIHASH_DATA")
    sihash_data = f"in SIHASH_DATA ({given})" if given else "in SIHASH_DATA (which is not set)"
    return f"{sihash_data} nor in {download_folder()}"
