"""Learning in the background of searches and additions, then one switch to the new version.

Classes keep their words, so the codes of items stay valid: an update reads what came, what it learns from,
and nothing else. Items that came since the last version were encoded by hash functions that had not seen
them, and get their codes once more, and so do segments in which many items got other labels; all other codes
stay. Only relearning, which draws words again, encodes everything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash import evaluation
from sihash._typing import Array, Progress
from sihash.database import learning
from sihash.database.answers import UpdateReport
from sihash.database.learning import Encoder, Training, write_models
from sihash.database.ranking import learn_weights
from sihash.database.snapshot import Reader, Snapshot
from sihash.hashing.hash_functions import HashFunctions
from sihash.ranking import Weights
from sihash.store import compaction, files, segments
from sihash.store.catalogue import Catalogue
from sihash.store.errors import DatabaseError
from sihash.store.labels import relevance_labels
from sihash.store.locks import locked
from sihash.store.log import Log
from sihash.store.segments import Segment
from sihash.store.state import State, read_state
from sihash.store.writer import UPDATER, disk_errors_told, writing

if TYPE_CHECKING:
    from sihash.hashing.training import Training as Learner

UPDATE_STRATEGIES = ("incremental", "relearn")
COMPARED_ITEMS = 2000
WORSE = 0.8  # of the accuracy of the other classes: below it, new classes are said to be learned badly
FEW_CLASSES = 4  # with fewer, first words leave little room for later ones: two classes have opposite words
PAYS = 0.02  # of mAP that encoding again must gain to be advised


@dataclass(frozen=True)
class UpdatePolicy:
    """What an update does beside learning; see `Database.update`."""

    # Seconds that it waits for an addition to be written, rather than lose what it has learned.
    patience: float = 3600.0
    # Seconds that it waits for another update: writers hold that lock for a moment while they sweep.
    sweep_patience: float = 1.0
    # Updates that can be undone: models of as many earlier versions stay on the disk.
    undoable_updates: int = 10
    # Items of a segment that got other labels, and so other words: when there are more, it is encoded again.
    relabelled_share: float = 0.05
    # Training rows whose vectors lie together in one file: when there are fewer, it is written again.
    sample_share: float = 0.9


@dataclass
class _Version:
    """A version in the making: its files are on the disk, and not in the catalogue yet."""

    number: int
    words: int  # the version at which its words were drawn
    first_new: int  # items with this number or a later one were not there yet
    policy: UpdatePolicy
    learner: Learner
    hasher: HashFunctions
    models: dict[str, files.Written]
    codes: dict[int, files.Written] = field(default_factory=dict)  # by segment, where words are new
    n_encoded: int = 0
    weights: Weights = field(default_factory=Weights)  # of the ranking

    def encode(self, root: Path, encoder: Encoder, segment: Segment) -> None:
        """Write codes for a segment, unless all of it is dead or it has them."""
        if segment.number in self.codes or not segment.alive.any():
            return
        codes = encoder.codes(segment)
        self.codes[segment.number] = segments.write_codes(root, segment.number, self.number, codes)
        self.n_encoded += int(segment.alive.sum())

    @property
    def files(self) -> list[files.Written]:
        return [*self.models.values(), *self.codes.values()]


def update_database(
    reader: Reader, strategy: str, compare: bool, policy: UpdatePolicy, progress: Progress
) -> UpdateReport:
    """Learn from the labelled items of now, and switch.

    Only the switch takes the lock of writers: meanwhile items may come and go. Those that came are learned
    from by the next update.
    """
    if strategy not in UPDATE_STRATEGIES:
        raise DatabaseError(f"strategy must be 'incremental' or 'relearn', got {strategy!r}.")
    root = reader.root
    with disk_errors_told(root), locked(root / UPDATER, "is updating or copying it", policy.sweep_patience):
        snapshot = reader.detached()
        try:
            return _update(snapshot, strategy, compare, policy, progress)
        except BaseException:
            with suppress(DatabaseError, OSError), writing(root, updating=True, of=snapshot.catalogue):
                pass  # sweeps
            raise


def _update(
    snapshot: Snapshot, strategy: str, compare: bool, policy: UpdatePolicy, progress: Progress
) -> UpdateReport:
    root, catalogue = snapshot.root, snapshot.catalogue
    seconds: dict[str, float] = {}

    def phase(name: str) -> AbstractContextManager[None]:
        return _timed(seconds, name, progress)

    with phase("reading"):
        training, learned = _training(snapshot), learned_rows(root, catalogue, snapshot.version)
        X = learning.training_vectors(root, catalogue, snapshot.places, training.ids, snapshot.width)
    with phase("learning"), learning.told(progress):
        learner, report = _learn(root, catalogue, snapshot, training, learned, X, strategy)
    if not report.changed:
        return report
    number = snapshot.log.next_version
    words = number if strategy == "relearn" else snapshot.log.words_from(snapshot.version)
    hasher = learner.functions()
    version = _Version(number, words, snapshot.log.next_number, policy, learner, hasher, {})
    with phase("writing"):
        learner.class_model()
        version.models = write_models(root, learner, number, training.record())
        copy = learning.write_sample_if_needed(
            root, catalogue, number, training.ids, X, _n_labelled(snapshot), policy.sample_share
        )
        if copy is not None:
            version.models[learning.SAMPLE] = copy
    with phase("encoding"):
        is_new = strategy == "relearn"
        encoder = Encoder.after_learning(learner) if is_new else Encoder(hasher)
        relabelled = _relabelled_shares(snapshot, training, learned)
        chosen = [
            segment
            for segment in snapshot.places.segments
            if is_new
            or _came_later(snapshot.log, segment)
            or relabelled[segment.number] > policy.relabelled_share
        ]
        for k, segment in enumerate(chosen):
            progress("encoding", k / len(chosen))
            version.encode(root, encoder, segment)
    with phase("ranking"):
        version.weights = snapshot.weights
        if learner.rehearsals:  # so many rows came or went that what all classes share was found again
            sample = snapshot.places.only(training.ids, X)
            version.weights = learn_weights(learner.rehearsals, snapshot.sketcher, sample, snapshot.classes)
    with phase("comparing"):
        report = _compare(snapshot, training, X, version, report, compare)
    report = replace(report, version=number, seconds=seconds, text=str(learner.report))
    report = replace(report, n_bits_trained=_n_bits_trained(learner))
    return _switch(snapshot, version, report)


@contextmanager
def _timed(seconds: dict[str, float], phase: str, progress: Progress) -> Iterator[None]:
    progress(phase, 0.0)
    start = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - start
    progress(phase, 1.0)


def _came_later(log: Log, segment: Segment) -> bool:
    """Whether a segment has items that its codes' hash functions had not seen."""
    if not segment.code_version:
        return False  # it is dead
    return int(segment.ids[-1]) >= int(log.learned(segment.code_version).details["first_new"])


def _relabelled_shares(snapshot: Snapshot, training: Training, learned: Array) -> dict[int, float]:
    """By segment, the share of the rows that were learned from before and have other labels now."""
    known = np.isin(training.ids, learned["id"])
    others = known & ~learning.as_learned(training, learned)
    shares = {}
    for segment in snapshot.places.segments:
        start, stop = np.searchsorted(training.ids, [segment.ids[0], segment.ids[-1] + 1])
        n_known = int(known[start:stop].sum())
        shares[segment.number] = int(others[start:stop].sum()) / max(1, n_known)
    return shares


# What to learn from.


def _training(snapshot: Snapshot) -> Training:
    places, budget = snapshot.places, snapshot.meta["training_rows"]
    return learning.training_of(places.live_ids(), places.live_classes(), snapshot.classes, budget)


def _n_labelled(snapshot: Snapshot) -> int:
    return int(np.count_nonzero(snapshot.places.live_classes() >= 0))


def learned_rows(root: Path, catalogue: Catalogue, version: int) -> Array:
    """The items that a version was learned from, and as what: a `Training.record`."""
    return files.load_array(root, catalogue.file_of_version("training", version))


def training_ids(root: Path, catalogue: Catalogue, version: int) -> Array:
    """The items that a version was learned from."""
    return learned_rows(root, catalogue, version)["id"]


def n_waiting(root: Path, catalogue: Catalogue, snapshot: Snapshot) -> int:
    """How many rows to learn from came, went or were relabelled since the version in force was learned."""
    learned = learned_rows(root, catalogue, snapshot.version)
    training = _training(snapshot)
    fresh = training.ids[~learning.as_learned(training, learned)]
    return len(np.union1d(np.setdiff1d(learned["id"], training.ids), fresh))


# Learning.


def _learn(
    root: Path,
    catalogue: Catalogue,
    snapshot: Snapshot,
    training: Training,
    learned: Array,
    X: Array,
    strategy: str,
) -> tuple[Learner, UpdateReport]:
    if strategy == "relearn":
        fitted = learning.fit(snapshot.estimator(), X, training)
        return fitted, UpdateReport(snapshot.version, strategy, True, len(training.ids))
    learner = _load_training_state(root, catalogue, snapshot, training, X)
    learner, n_learned, n_forgotten = learning.update(learner, X, training, learned)
    changed = bool(n_learned or n_forgotten)
    return learner, UpdateReport(snapshot.version, strategy, changed, n_learned, n_forgotten)


def _load_training_state(
    root: Path, catalogue: Catalogue, snapshot: Snapshot, training: Training, X: Array
) -> Learner:
    """The training of the version in force with all that is needed to go on learning."""
    file = catalogue.file_of_version("training-state", snapshot.version)
    files.check(root, file)
    from sihash.hashing.training_file import StoredTraining  # not at every start

    stored = StoredTraining.from_file(root / file.path)
    ids = np.array(stored.ids, dtype=np.int64)
    known = np.isin(ids, training.ids)  # the others are about to go, and are read for that
    gone = np.sort(ids[~known])
    places = np.empty(len(ids), dtype=np.intp)
    places[known] = np.searchsorted(training.ids, ids[known])
    places[~known] = len(X) + np.searchsorted(gone, ids[~known])
    if len(gone):
        X = np.concatenate(
            [X, learning.training_vectors(root, catalogue, snapshot.places, gone, snapshot.width)]
        )
    return stored.with_vectors(X, places=places)


def _n_bits_trained(learner: Learner) -> int:
    steps = np.add.reduce([each.n_steps for each in learner.report.rounds])
    return int(np.count_nonzero(steps))


# Is it good enough?


def _compare(
    snapshot: Snapshot,
    training: Training,
    X: Array,
    version: _Version,
    report: UpdateReport,
    scratch: bool,
) -> UpdateReport:
    """What the new hash functions are worth, on a sample of the rows that were learned from.

    mAP of the hash functions of before and of now; with ``scratch`` also of some learned from scratch, at the
    price of learning them. Old codes are held against codes made again, and new classes against the others.
    """
    hasher, before = version.hasher, snapshot.hasher
    chosen = np.sort(np.random.RandomState(0).permutation(len(training.ids))[:COMPARED_ITEMS])
    some, labels = X[chosen], relevance_labels([training.labels[k] for k in chosen])
    hashers = {"passive": before, report.strategy: hasher}
    if scratch and report.strategy != "relearn":
        hashers["scratch"] = learning.fit(snapshot.estimator(), X, training).functions()
    codes = {name: h.transform(some) for name, h in hashers.items()}
    compared: dict[str, float] = {}
    for name, own in codes.items():
        same = [other for other in compared if np.array_equal(codes[other], own)]
        compared[name] = compared[same[0]] if same else evaluation.leave_one_out(own, labels).mAP
    differ = np.bitwise_count(codes["passive"] ^ codes[report.strategy])
    changed = float(differ.sum() / max(1, differ.shape[0] * snapshot.n_bits))
    warnings = _new_classes_are_worse(before, version) + _first_classes_were_few(before, version)
    if report.strategy == "incremental":
        stored = snapshot.codes(training.ids[chosen])
        warnings += _old_codes_are_worse(labels, stored, codes[report.strategy])
    return replace(report, compared=compared, bits_changed=changed, warnings=warnings)


def _new_classes_are_worse(before: HashFunctions, version: _Version) -> list[str]:
    """A sentence, if items of new classes are recognised clearly less often than the others."""
    known = {str(label) for label in before.classes_.tolist()}
    names = version.learner.rehearsed_hits()
    if not names:
        return []
    labels, hits = zip(*names, strict=True)
    is_new, right = np.array([str(label) not in known for label in labels]), np.array(hits)
    if not is_new.any() or is_new.all():
        return []
    new, old = right[is_new].mean(), right[~is_new].mean()
    error = np.sqrt(new * (1 - new) / is_new.sum() + old * (1 - old) / (~is_new).sum())
    if new >= WORSE * old or old - new <= 2 * error:
        return []
    n_new = len({str(label) for label in labels} - known)
    return [
        f"Items of the {n_new} new classes are recognised in {new:.0%} of the cases, others in {old:.0%}. "
        "They may be harder; `sihash update --compare` tells whether learning from scratch does better, and "
        "`sihash update --relearn` does so."
    ]


def _first_classes_were_few(before: HashFunctions, version: _Version) -> list[str]:
    """A sentence, if words that never move were chosen for a fraction of the classes."""
    n_first, n = len(before.classes_), len(version.hasher.classes_)
    if version.words == version.number or n_first >= FEW_CLASSES or n < 2 * n_first:
        return []
    return [
        f"The code words of the first {n_first} classes were chosen for these alone, and stay; mAP may be "
        f"0.02 below that of words for all {n} classes. `sihash update --relearn` chooses these, and "
        "encodes everything again."
    ]


def _old_codes_are_worse(labels: Any, stored: Array, again: Array) -> list[str]:
    """A sentence, if codes made again find clearly more among each other than among those stored."""
    half = len(again) // 2
    if not half:
        return []
    old, new = (
        evaluation.against_database(again[:half], labels[:half], codes[half:], labels[half:]).mAP
        for codes in (stored, again)
    )
    if new - old <= PAYS:
        return []
    return [
        f"Stored codes give mAP {old:.3f}, codes made again {new:.3f}: `sihash update --reencode` makes them."
    ]


# The switch.


def _switch(snapshot: Snapshot, version: _Version, report: UpdateReport) -> UpdateReport:
    """Commit the new version; where words are new, encode what came meanwhile before.

    Additions may have merged segments that have new codes: what they became is encoded, too.
    """
    root, policy, keep = snapshot.root, version.policy, {file.path for file in version.files}
    with writing(root, updating=True, of=snapshot.catalogue, keep=keep, patience=policy.patience) as writer:
        check_in_force(writer.catalogue, snapshot.state)
        now = read_state(root, writer.catalogue, snapshot.state)
        for segment in now.segments:
            seen = int(segment.ids[0]) < version.first_new and _came_later(now.log, segment)
            if report.strategy == "relearn" or seen:
                version.encode(root, Encoder(version.hasher), segment)
        there = {segment.number for segment in now.segments}  # others were merged meanwhile
        version.codes = {number: file for number, file in version.codes.items() if number in there}
        if learning.SAMPLE in version.models:
            writer.catalogue.delete("files", f"kind = '{learning.SAMPLE}'")  # there is one copy
        for kind, file in version.models.items():
            writer.adopt(kind, file, version=None if kind == learning.SAMPLE else version.number)
        for number, file in version.codes.items():
            writer.adopt("codes", file, number, version.number)
        n_bytes = sum(file.size for file in version.files)
        report = replace(report, n_reencoded=version.n_encoded, bytes_written=n_bytes)
        details = _details(version, report)
        details["oldest"] = compaction.drop_versions(
            writer.catalogue, now.log, version.number, version.words, policy.undoable_updates
        )
        details["policy"] = asdict(policy)
        writer.commit("update", version.number, details)
    return report


def check_in_force(catalogue: Catalogue, state: State) -> None:
    """Refuse to go on from a version that was undone meanwhile."""
    since = catalogue.operations(state.operation)
    if since and since[-1].version != state.version:
        raise DatabaseError(
            f"Version {state.version}, from which this update went on, was undone meanwhile; update again."
        )


def _details(version: _Version, report: UpdateReport) -> dict[str, Any]:
    kept = ("strategy", "n_learned", "n_forgotten", "n_bits_trained", "bits_changed", "n_reencoded")
    details = {name: getattr(report, name) for name in (*kept, "bytes_written", "compared", "warnings")}
    details |= {"report": report.text, "seconds": report.seconds, "n_training": len(version.learner.ids)}
    details |= {"words": version.words, "first_new": version.first_new}
    details |= {"model": version.models["hash"].sha256.hex()}
    details |= {"policy": asdict(version.policy)}
    return details | {"ranking": version.weights.to_json()}


# Codes of before.


def reencode(reader: Reader, report: UpdateReport, policy: UpdatePolicy, progress: Progress) -> UpdateReport:
    """Bring all codes to the version in force, a segment after the other, each a commit of its own.

    Old codes are valid, so this may stop after any segment: the collection is searched correctly with some
    codes of before and some of now, and the next run goes on with the segments that are left.
    """
    start, root = time.perf_counter(), reader.root
    with disk_errors_told(root), locked(root / UPDATER, "is updating or copying it", policy.sweep_patience):
        snapshot = reader.detached()
        state, catalogue = snapshot.state, snapshot.catalogue
        encoder, version = Encoder(snapshot.hasher), snapshot.version
        n_items = n_bytes = 0
        while old := [s for s in state.segments if s.alive.any() and s.code_version < version]:
            progress("encoding", n_items / state.n_items)
            segment = old[0]
            codes = encoder.codes(segment)
            file = segments.write_codes(root, segment.number, version, codes)
            with writing(
                root, updating=True, of=catalogue, keep={file.path}, patience=policy.patience
            ) as writer:
                check_in_force(writer.catalogue, state)
                if writer.catalogue.rows("segments", "number = ?", (segment.number,)):
                    writer.adopt("codes", file, segment.number, version)
                    details = {"segments": [segment.number], "is_last": len(old) == 1}
                    writer.commit("reencode", version, details)
                    n_items += int(segment.alive.sum())
                    n_bytes += file.size
                else:  # an addition has merged it with others, which are next
                    writer.catalogue.rollback()
            state = read_state(root, catalogue, state)
        progress("encoding", 1.0)
    seconds = report.seconds | {"encoding again": time.perf_counter() - start}
    return replace(
        report,
        seconds=seconds,
        n_reencoded=report.n_reencoded + n_items,
        bytes_written=report.bytes_written + n_bytes,
    )
