"""Learning in the background of searches and additions, then one switch to the new version."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash._typing import Array
from sihash.database import files, learning, segments
from sihash.database.answers import UpdateReport
from sihash.database.catalogue import Catalogue
from sihash.database.encoding import Encoder
from sihash.database.errors import DatabaseError
from sihash.database.learning import Training
from sihash.database.lock import locked
from sihash.database.progress import Progress
from sihash.database.ranking import learn_weights, rows_left_out
from sihash.database.segments import Segment
from sihash.database.snapshot import Snapshot
from sihash.database.writer import UPDATER, disk_errors_told, write_models, writing
from sihash.evaluation import leave_one_out
from sihash.ranking import Weights

if TYPE_CHECKING:
    from sihash.hashing import SIH

COMPARED_ITEMS = 2000


@dataclass
class _Version:
    """A version in the making: its files are on the disk, and not in the catalogue yet."""

    number: int
    encoder: Encoder
    models: dict[str, files.Written]
    codes: dict[int, files.Written] = field(default_factory=dict)  # by segment
    n_bits_changed: int = 0
    n_encoded: int = 0
    weights: Weights = field(default_factory=Weights)
    n_training: int = 0

    def encode(self, root: Path, segment: Segment) -> None:
        """Write new codes for a segment, unless all of it is dead or it has them."""
        if segment.number in self.codes or not segment.alive.any():
            return
        codes = self.encoder.codes(segment)
        self.codes[segment.number] = segments.write_codes(root, segment.number, self.number, codes)
        changed = np.bitwise_count(codes ^ segment.codes)[segment.alive]
        self.n_bits_changed += int(changed.sum())
        self.n_encoded += int(segment.alive.sum())
        segment.codes = codes


def update(root: Path, strategy: str, compare: bool, progress: Progress) -> UpdateReport:
    """Learn from the labelled items of now, encode the collection, switch.

    Only the switch takes the lock of writers: meanwhile items may come and go. Those that came are
    encoded before the switch, and learned from by the next update.
    """
    if strategy not in ("incremental", "scratch"):
        raise DatabaseError(f"strategy must be 'incremental' or 'scratch', got {strategy!r}.")
    with (
        disk_errors_told(root),
        locked(root / UPDATER, "is updating it"),
        closing(Catalogue(root)) as catalogue,
    ):
        try:
            snapshot = Snapshot(root, catalogue)
            seconds: dict[str, float] = {}
            with _timed(seconds, "learning"), learning.told(progress):
                hasher, report = _learn(root, catalogue, snapshot, strategy)
            if not report.changed:
                return report
            version = _Version(snapshot.log.next_version, Encoder.after_learning(hasher), {})
            version.n_training = len(hasher.ids_)
            with _timed(seconds, "encoding"):
                left_out = rows_left_out(hasher)
                version.models = write_models(root, hasher, version.number, left_out)
                for k, segment in enumerate(snapshot.places.segments):
                    progress("encoding", k / len(snapshot.places.segments))
                    version.encode(root, segment)
            with _timed(seconds, "ranking"):
                version.weights = learn_weights(
                    hasher, snapshot.sketcher, snapshot.places, snapshot.classes, left_out
                )
            with _timed(seconds, "comparing"):
                compared = _compare(snapshot, hasher, strategy, compare, progress)
            report = replace(report, version=version.number, seconds=seconds, compared=compared)
            report = replace(report, text=str(hasher.report_))
            report = _switch(root, catalogue, snapshot, version, report)
            progress("encoding", 1.0)
            return report
        except BaseException:
            with suppress(DatabaseError, OSError), writing(root, updating=True, of=catalogue):
                pass  # sweeps
            raise


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - start


def to_learn_from(snapshot: Snapshot, keep: Any) -> tuple[Array, Array]:
    """Ids and class numbers of the labelled items, or of a sample that holds on to those in ``keep``."""
    ids = snapshot.places.live_ids()
    numbers = snapshot.places.live_classes()
    ids, numbers = ids[numbers >= 0], numbers[numbers >= 0]
    chosen = learning.sample(ids, numbers, snapshot.meta["train_per_class"], np.asarray(keep, dtype=np.int64))
    return ids[chosen], numbers[chosen]


def _training(snapshot: Snapshot, keep: Any) -> Training:
    ids, numbers = to_learn_from(snapshot, keep)
    return Training(ids, [snapshot.classes[number] for number in numbers.tolist()])


def training_ids(root: Path, catalogue: Catalogue, version: int) -> Array:
    """The items that a version was learned from."""
    return files.load_array(root, catalogue.file_of_version("training", version))


def _learn(root: Path, catalogue: Catalogue, snapshot: Snapshot, strategy: str) -> tuple[SIH, UpdateReport]:
    places, width = snapshot.places, snapshot.width
    if strategy == "scratch":
        training = _training(snapshot, [])
        file = catalogue.file_of_version("hash", snapshot.version)
        hasher = learning.fit(learning.load(root, file), places, width, training)
        return hasher, UpdateReport(snapshot.version, strategy, True, len(training.ids))
    file = catalogue.file_of_version("learner", snapshot.version)
    hasher = learning.load_learner(root, file, places, width)
    hasher, n_learned, n_forgotten = learning.update(hasher, places, width, _training(snapshot, hasher.ids_))
    changed = bool(n_learned or n_forgotten)
    return hasher, UpdateReport(snapshot.version, strategy, changed, n_learned, n_forgotten)


def _compare(
    snapshot: Snapshot, hasher: SIH, strategy: str, scratch: bool, progress: Progress
) -> dict[str, float]:
    """mAP, among a sample of the items to learn from, of the hash functions of before and of now.

    With ``scratch`` also of hash functions learned from scratch, at the price of learning them.
    """
    training = _training(snapshot, [])
    rng = np.random.RandomState(0)
    chosen = np.sort(rng.permutation(len(training.ids))[:COMPARED_ITEMS])
    X = snapshot.vectors(training.ids[chosen])
    labels = [str(training.labels[k]) for k in chosen]
    hashers = {"passive": snapshot.hasher, strategy: hasher}
    if scratch and strategy != "scratch":
        progress("comparing", 0.0)
        hashers["scratch"] = learning.fit(hasher, snapshot.places, snapshot.width, training)
    return {name: leave_one_out(h.transform(X), labels).mAP for name, h in hashers.items()}


def _switch(
    root: Path, catalogue: Catalogue, snapshot: Snapshot, version: _Version, report: UpdateReport
) -> UpdateReport:
    """Encode what came meanwhile and commit the new version."""
    with writing(root, updating=True, of=catalogue, keep=_paths(version)) as writer:
        if not snapshot.advance(catalogue):
            snapshot = Snapshot(root, catalogue)
        for segment in snapshot.places.segments:
            version.encode(root, segment)
        for kind, file in version.models.items():
            writer.adopt(kind, file, version=version.number)
        for number, file in version.codes.items():
            writer.adopt("codes", file, number, version.number)
        bits = max(1, version.n_encoded * snapshot.n_bits)
        report = replace(report, bits_changed=version.n_bits_changed / bits)
        details = {"strategy": report.strategy, "report": report.text, "bits_changed": report.bits_changed}
        details |= {"n_training": version.n_training, "seconds": report.seconds}
        details |= {
            "compared": report.compared,
            "n_learned": report.n_learned,
            "n_forgotten": report.n_forgotten,
        }
        details["ranking"] = version.weights.to_json()
        writer.commit("update", version.number, details)
    return report


def _paths(version: _Version) -> set[str]:
    return {file.path for file in (*version.models.values(), *version.codes.values())}
