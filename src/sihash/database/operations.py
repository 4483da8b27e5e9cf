"""The operations that change a database, each one transaction: create, add, remove, relabel, undo, …"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from sihash._typing import Array, Progress
from sihash.database import learning
from sihash.database.answers import (
    AddReport,
    CompactReport,
    Id,
    Label,
    LabelSet,
    RelabelReport,
    RemoveReport,
    UndoReport,
)
from sihash.database.describing import Features
from sihash.database.intake import Collected, Intake, Nothing, intake_of
from sihash.database.learning import Encoder, Training, write_models, write_sketcher
from sihash.database.ranking import learn_weights
from sihash.database.snapshot import Reader, Snapshot
from sihash.database.sources import ImageSource, Source, VectorSource
from sihash.database.updating import UpdatePolicy, training_ids
from sihash.hashing.settings import n_bits_for
from sihash.hashing.training_sample import Budget
from sihash.kernel import MIDDLE_ROWS, Middle, mean_of_rows, row_blocks
from sihash.ranking import Sketcher
from sihash.store import compaction, segments
from sihash.store.catalogue import FORMAT, Catalogue
from sihash.store.columns import check_kinds
from sihash.store.errors import DatabaseError
from sihash.store.files import Written
from sihash.store.ids import ids_of_numbers, largest_number
from sihash.store.labels import LabelTable, joined_labels, label_set
from sihash.store.locks import locked
from sihash.store.segments import Places, Segment
from sihash.store.writer import (
    UPDATER,
    Writer,
    delete_scratch,
    disk_errors_told,
    new_folder,
    sweep,
    writing,
)
from sihash.threads import map_threads

if TYPE_CHECKING:
    from sihash.hashing import SIH


Given = ParamSpec("Given")
Report = TypeVar("Report")
Change = Callable[Concatenate[Reader, Given], Report]
MOST_TOGETHER = 256  # items of additions that share a transaction; one more addition may exceed it
MOST_TOLD = 5  # pairs of labels that look the same


def create(
    root: Path,
    source: Source,
    hasher: SIH,
    n_bits: int | None,
    meta: dict[str, Any],
    sketch: int,
    training_rows: Budget,
    progress: Progress,
) -> AddReport:
    """Write a source, learn hash functions from its labels, encode it: version 1.

    Codes have ``n_bits``; None means that the number of classes decides. Sketches have ``sketch`` bits a
    number.
    """
    with new_folder(root), writing(root, create=True) as writer:
        if writer.catalogue.last_operation():
            raise DatabaseError(f"{root} already holds a database; choose another folder, or add to it.")
        writer.catalogue.lay_out()
        if isinstance(source, ImageSource):
            source.notes_in = root
        intake = intake_of(source, Nothing())
        new = ingest(writer, intake, 0, LabelTable(), progress)
        if not new:
            raise DatabaseError(f"Nothing could be read from the source{_why(intake)}.")
        new = [_with_file(writer, segment) for segment in new]
        width = new[0].vectors.shape[1]
        places = Places(new)
        training, n_labelled = _training(writer.catalogue, training_rows)
        hasher.set_params(n_bits=n_bits or n_bits_for(training.n_labels))
        whole = source.in_memory() if isinstance(source, VectorSource) else None
        if whole is not None and len(whole) == len(training.ids):
            X = whole
        else:
            X = places.vectors(training.ids, width, release=True)
        sketcher = Sketcher.made(mean_of_rows(X), sketch)
        write_rows(writer, new, sketcher)
        learned = learn_version(writer, 1, new, training, X, n_labelled, hasher, sketcher, progress)
        meta |= {
            "format": FORMAT,
            "n_bits": hasher.n_bits,
            "training_rows": training_rows,
            **about_vectors(new),
        }
        writer.catalogue.insert("meta", [(key, json.dumps(value)) for key, value in meta.items()])
        writer.catalogue.make_indexes()
        details = {**_about(intake, 0), **learned, "strategy": "create", "first_new": intake.n_numbers}
        writer.commit("create", 1, details)
        source.forget_notes()
    return _report(1, intake, 0)


def about_vectors(new: list[Segment]) -> dict[str, Any]:
    """What a database says of all its vectors."""
    step = -(-sum(len(segment.ids) for segment in new) // MIDDLE_ROWS)
    some = []
    for segment in new:
        some.append(np.array(segment.vectors[::step]))
        segment.release()
    return {"width": some[0].shape[1], "usual_distance": Middle.of(*some).usual}


def learn_version(
    writer: Writer,
    number: int,
    new: list[Segment],
    training: Training,
    X: Array,
    n_labelled: int,
    hasher: SIH,
    sketcher: Sketcher,
    progress: Progress,
) -> dict[str, Any]:
    """Learn a version from scratch and encode all segments, which are ``new``; what the log says of it.

    ``X`` are the vectors of the training rows, of ``n_labelled`` labelled items.
    """
    root, catalogue = writer.root, writer.catalogue
    progress("learning", 0.0)
    with learning.told(progress, hasher.max_iter):
        learner = learning.fit(hasher, X, training)
        learner.class_model()
    progress("learning", 1.0)
    with ThreadPoolExecutor(1) as pool:  # a large file is on its way while the cores are at work
        models = pool.submit(write_models, root, learner, number, training.record())
        _encode(writer, new, Encoder.after_learning(learner), number, progress)
    for kind, file in models.result().items():
        writer.adopt(kind, file, version=number)
    copy = learning.write_sample_if_needed(root, catalogue, number, training.ids, X, n_labelled, 1.0)
    if copy is not None:
        writer.adopt(learning.SAMPLE, copy)
    writer.adopt("sketcher", write_sketcher(root, sketcher))
    table = LabelTable(catalogue.rows("classes"))
    progress("ranking", 0.0)
    weights = learn_weights(learner.rehearsals, sketcher, Places(new).only(training.ids, X), table)
    return {
        "n_training": len(training.ids),
        "words": number,
        "model": models.result()["hash"].sha256.hex(),
        "report": str(learner.report),
        "ranking": weights.to_json(),
    }


def ingest(
    writer: Writer, intake: Intake, first_id: int, table: LabelTable, progress: Progress
) -> list[Segment]:
    """Take items from a source into the catalogue, and their vectors into segments.

    A full segment is on its way to the disk while items are noted in the catalogue and the next ones are
    read; one segment at a time, so that a slow disk holds up a fast source. The last segment, of what is
    left, stays in memory: `_write_last` writes it.
    """
    source = intake.source
    n_known = len(table.labels)
    new: list[Segment] = []
    waiting: list[Segment] = []  # parts of the segment being filled
    with ThreadPoolExecutor(1) as pool:  # which has no thread before the first full segment
        on_the_way: list[tuple[Segment, int, Future[Written]]] = []

        def arrive() -> None:
            for segment, number, file in on_the_way:
                new.append(writer.adopt_segment(number, segment.rows, file.result()))
                writer.add_columns(new[-1], segment.columns)
            on_the_way.clear()

        def send() -> None:
            arrive()
            segment, number = segments.joined_in_memory(waiting), writer.next_segment()
            file = pool.submit(segments.write_vectors, writer.root, number, [segment.vectors])
            on_the_way.append((segment, number, file))
            waiting.clear()

        for block in source.blocks(intake):
            ids = first_id + np.array(block.offsets, dtype=np.int64)
            numbers = writer.class_numbers(block.labels, table)
            no_sketches = np.empty((len(ids), 0), dtype=np.uint8)
            rows = segments.make_rows(ids, np.array(numbers, dtype=np.int32), no_sketches)
            operations = np.broadcast_to(np.int64(writer.operation), len(ids))
            waiting.append(segments.in_memory(writer.root, operations, rows, block.vectors, block.columns))
            if sum(len(part.ids) for part in waiting) >= segments.rows_of(block.vectors.shape[1]):
                send()
            writer.insert_items(
                ids.tolist(), numbers, block.names, block.contents, block.ids, block.thumbnails
            )
            done = len(intake.taken) + len(intake.skipped) + len(intake.rejects)
            progress(source.step, min(1.0, done / max(1, len(source))))
        arrive()
    if waiting:
        new.append(segments.joined_in_memory(waiting))
    _join_labels(writer, intake.joined_labels, new, table)
    for label, other in table.lookalikes(n_known)[:MOST_TOLD]:
        warnings.warn(
            f"The labels {label!r} and {other!r} differ only in case or blanks, and are two classes; if one "
            "is meant, merge them: `sihash relabel DB --class`, or relabel_classes.",
            UserWarning,
            stacklevel=2,
        )
    return new


def _join_labels(
    writer: Writer, labels: dict[bytes, LabelSet], written: list[Segment], table: LabelTable
) -> None:
    """Give items of this operation, by their contents, further labels that came behind them."""
    if not labels:
        return
    rows = list(writer.catalogue.rows_in("items", "content", list(labels)))
    rows = [row for row in rows if row[1] == writer.operation]
    numbers = writer.class_numbers([labels[row[4]] for row in rows], table)
    writer.replace_classes(dict(zip((row[0] for row in rows), numbers, strict=True)))
    ids = np.array([row[0] for row in rows], dtype=np.int64)
    for segment, found, at in Places(written).find(ids):
        segment.classes[at] = segment.rows["class"][at] = np.array(numbers)[found]


def _with_file(writer: Writer, segment: Segment) -> Segment:
    """A segment whose vectors are written."""
    if segment.number:
        return segment
    number = writer.next_segment()
    file = segments.write_vectors(writer.root, number, [segment.vectors])
    written = writer.adopt_segment(number, segment.rows, file)
    writer.add_columns(written, segment.columns)
    return written


def write_rows(writer: Writer, new: list[Segment], sketcher: Sketcher) -> None:
    """Sketch the vectors of new segments and write their rows."""
    for segment in new:
        segment.sketch(sketch_all(sketcher, segment.vectors))
        writer.write_rows(segment)
        segment.release()


def sketch_all(sketcher: Sketcher, vectors: Array) -> Array:
    """Sketches of the vectors of a segment, a few thousand at a time."""
    parts = map_threads(lambda rows: sketcher.whole(vectors[rows]), row_blocks(len(vectors)))
    return np.concatenate([np.empty((0, sketcher.n_bytes), dtype=np.uint8), *parts])


def _training(catalogue: Catalogue, budget: Budget) -> tuple[Training, int]:
    """The rows of a creation to learn from, from its own transaction, and how many are labelled."""
    rows = catalogue.execute("SELECT id, class FROM items WHERE class IS NOT NULL ORDER BY id")
    ids = np.array([row[0] for row in rows], dtype=np.int64)
    numbers = np.array([row[1] for row in rows], dtype=np.int64)
    return learning.training_of(ids, numbers, LabelTable(catalogue.rows("classes")), budget), len(ids)


def _report(version: int, intake: Intake, first: int) -> AddReport:
    return AddReport(
        version,
        intake.ids(first),
        intake.skipped,
        intake.rejects,
        [present.id for present in intake.replaced],
        intake.conflicts,
        intake.joined,
        [first + k for k in intake.repeated],
        intake.source.note,
    )


def _why(intake: Intake) -> str:
    if intake.rejects:
        return f" ({len(intake.rejects)} rejected; {intake.rejects[0].name}: {intake.rejects[0].reason})"
    return ""


def _about(intake: Intake, first_id: int) -> dict[str, Any]:
    source = intake.source
    return {
        "first_id": first_id,
        "n_added": intake.n_numbers,
        "place": source.place,
        "n_skipped": len(intake.skipped),
        "n_rejected": len(intake.rejects),
        "n_replaced": len(intake.replaced),
        "largest_id": -1 if source.ids is None else largest_number(intake.ids(first_id)),
        "columns": source.columns.kinds,
    }


def _encode(writer: Writer, new: list[Segment], encoder: Encoder, version: int, progress: Progress) -> None:
    for k, segment in enumerate(new):
        progress("encoding", k / len(new))
        segment.codes = encoder.codes(segment)
        writer.write_codes(segment.number, version, segment.codes)
        segment.release()
    progress("encoding", 1.0)


def prepare(source: Source, snapshot: Snapshot, columns: dict[str, str]) -> None:
    """Treat what is added as what is there was treated; ``columns`` are the kinds of the columns there."""
    check_kinds(columns, source.columns.kinds)
    features = Features(**snapshot.meta["features"])
    if isinstance(source, ImageSource):
        source.features = features
        source.thumbnails = snapshot.meta["thumbnails"]
        source.notes_in = snapshot.root
        features.extractor()  # refuses images where the items are vectors
    elif features.name != "none":
        raise DatabaseError("This database holds images; give image files, not vectors.")
    elif isinstance(source, VectorSource) and source.width != snapshot.width:
        raise DatabaseError(
            f"Expected vectors of {snapshot.width} numbers, as in the database, got {source.width}."
        )
    if isinstance(source, VectorSource):
        source.middle = Middle(snapshot.sketcher.mean, snapshot.meta.get("usual_distance", 0.0))


@contextmanager
def _changing(reader: Reader) -> Iterator[tuple[Writer, Snapshot]]:
    """The transaction of one operation, and the newest state of the same database."""
    with writing(reader.root, patience=reader.patience) as writer, reader.newest() as snapshot:
        writer.catalogue.check_same(snapshot.catalogue)
        yield writer, snapshot


def in_turn(operation: Change[Given, Report]) -> Change[Given, Report]:
    """Writers of one process stand in line; one that has waited for too long is told that it is busy."""

    @wraps(operation)
    def waiting(reader: Reader, *arguments: Given.args, **options: Given.kwargs) -> Report:
        with reader.line.turn(reader.busy, reader.patience):
            return operation(reader, *arguments, **options)

    return waiting  # type: ignore[return-value]  # mypy wants the name of the first parameter


@dataclass
class Addition:
    """Items to be added: ``open`` makes their source when it is their turn, and may ask which labels items
    have by then.
    """

    open: Callable[[Callable[[], Collection[Label]]], Source]
    progress: Progress


class _Group:
    """Additions that become part of the database together: each is an operation, all share a segment."""

    def __init__(self, writer: Writer, snapshot: Snapshot) -> None:
        self.writer, self.snapshot = writer, snapshot
        self.segments = snapshot.places.segments  # of all items so far, those of the group behind the others
        self.new: list[Segment] = []
        self.sources: list[Source] = []
        self._labels: set[Label] | None = None
        self.columns = snapshot.log.columns
        self.next_number, self.next_id = snapshot.log.next_number, snapshot.log.next_id

    @cached_property
    def table(self) -> LabelTable:
        """Made again after an addition that failed: its new classes are not."""
        return LabelTable(self.writer.catalogue.rows("classes"))

    def labels(self) -> set[Label]:
        """Labels that items have."""
        if self._labels is None:
            self._labels = _labels_of(self.segments, self.table)
        return self._labels

    @property
    def is_full(self) -> bool:
        """Who adds many items does not keep others waiting, and a segment that is full is not shared."""
        n_items = sum(len(segment.ids) for segment in self.new)
        return n_items >= MOST_TOGETHER or any(segment.number for segment in self.new)

    def take(self, addition: Addition) -> AddReport:
        """What is new in a source becomes an operation; if that fails, nothing of it stays."""
        try:
            with self.writer.catalogue.savepoint():
                return self._take(addition.open(self.labels), addition.progress)
        except BaseException:
            self.__dict__.pop("table", None)
            raise

    def _take(self, source: Source, progress: Progress) -> AddReport:
        snapshot, writer = self.snapshot, self.writer
        prepare(source, snapshot, self.columns)
        first = self.next_id if source.ids is None else self.next_number
        present = Collected(writer.catalogue, Places(self.segments), self.table)
        intake = intake_of(source, present)
        new = ingest(writer, intake, first, self.table, progress)
        if new:
            replaced = np.array([present.number for present in intake.replaced], dtype=np.int64)
            writer.insert_removed(replaced)
            about = _about(intake, first)
            writer.end_operation("add", snapshot.version, about)
            self.new += new
            self.sources.append(source)
            self.segments = [*segments.without(self.segments, replaced), *new]
            if self._labels is not None:
                self._labels |= _labels_of(new, self.table)
            self.columns = self.columns | source.columns.kinds
            self.next_number = first + intake.n_numbers
            self.next_id = max(self.next_id, self.next_number, about["largest_id"] + 1)
        return _report(snapshot.version, intake, first)

    def write(self, progress: Progress) -> None:
        """Sketch and encode all items, write them, commit."""
        writer, snapshot, version = self.writer, self.snapshot, self.snapshot.version
        if not self.new:
            return writer.catalogue.rollback()
        encoder = Encoder(snapshot.hasher)
        written = [segment for segment in self.new if segment.number]
        write_rows(writer, written, snapshot.sketcher)
        _encode(writer, written, encoder, version, progress)
        if len(written) < len(self.new):
            last = segments.joined_in_memory([segment for segment in self.new if not segment.number])
            last.sketch(sketch_all(snapshot.sketcher, last.vectors))
            last.codes = encoder.codes(last)
            full = segments.rows_of(snapshot.width)
            known = [*snapshot.places.segments, *written]
            compaction.write_new(writer, known, last, snapshot.log, version, full)
        writer.commit_ended()
        for source in self.sources:
            source.forget_notes()
        return None


def _labels_of(some: Iterable[Segment], table: LabelTable) -> set[Label]:
    """Labels of the living items of segments."""
    numbers = {int(n) for s in some for n in np.flatnonzero(np.bincount(s.classes[s.alive] + 1)) - 1}
    return {label for number in numbers for label in table[number]}


def add(reader: Reader, additions: Sequence[Addition]) -> list[AddReport | Exception]:
    """Write what is new in the sources of some additions, encoded by the hash functions in force.

    They become part of the database together, in their order. Returns what came of each; of the first ones,
    if the others are too many for one transaction.
    """
    outcomes: list[AddReport | Exception] = []
    with _changing(reader) as (writer, snapshot):
        group = _Group(writer, snapshot)
        for addition in additions:
            try:
                outcomes.append(group.take(addition))
            except OSError:
                raise
            except Exception as error:
                if len(additions) == 1:
                    raise
                outcomes.append(error)
            if group.is_full:
                break
        group.write(additions[0].progress)
    return outcomes


@in_turn
def remove(reader: Reader, ids: Iterable[Any]) -> RemoveReport:
    """Take items out of the collection; their files stay until a compaction."""
    with _changing(reader) as (writer, snapshot):
        gone = _each_once(snapshot.living(ids))
        removed = ids_of_numbers(snapshot.catalogue, gone.tolist())
        if len(gone):
            writer.insert_removed(gone)
            writer.commit("remove", snapshot.version, {"n_removed": len(gone)})
        version = snapshot.version
    return RemoveReport(version, removed)


@in_turn
def remove_classes(reader: Reader, labels: Iterable[Any]) -> RemoveReport:
    """Take classes out of the collection: an item loses these labels, and goes when it has no other."""
    with _changing(reader) as (writer, snapshot):
        chosen = snapshot.ids_of(labels)
        after = _exchanged(writer, snapshot, chosen, snapshot.known_labels(labels), ())
        gone, stays = chosen[after < 0], after >= 0
        if len(chosen):
            writer.insert_removed(gone)
            _relabel(writer, snapshot, chosen[stays], after[stays])
            n_relabelled = int(stays.sum())
            writer.commit("remove", snapshot.version, {"n_removed": len(gone), "n_relabelled": n_relabelled})
        removed = ids_of_numbers(snapshot.catalogue, gone.tolist())
        changed = ids_of_numbers(snapshot.catalogue, chosen[stays].tolist())
        version = snapshot.version
    return RemoveReport(version, removed, changed)


def _exchanged(
    writer: Writer, snapshot: Snapshot, chosen: Array, before: Iterable[Any], after: LabelSet
) -> Array:
    """Class numbers of items after some of their labels were exchanged for others."""
    gone = set(before)
    sets = [
        joined_labels((label for label in own if label not in gone), after) for own in snapshot.labels(chosen)
    ]
    return np.array(writer.class_numbers(sets), dtype=np.int64)


def _relabel(writer: Writer, snapshot: Snapshot, chosen: Array, after: Array) -> Array:
    """Note other class numbers of items; those whose class number changes by it."""
    before = snapshot.places.classes(chosen)
    changed = before != after
    writer.insert_relabelled(chosen[changed], after[changed])
    return chosen[changed]


def _each_once(numbers: Array) -> Array:
    return numbers[np.sort(np.unique(numbers, return_index=True)[1])]


@in_turn
def relabel(reader: Reader, wanted: Mapping[Id, Any]) -> RelabelReport:
    """Give each item of ``wanted`` its label or labels in the place of all that it has; None takes them."""
    sets = [label_set(label) for label in wanted.values()]
    with _changing(reader) as (writer, snapshot):
        chosen, first = np.unique(snapshot.living(wanted), return_index=True)
        after = np.array(writer.class_numbers(sets), dtype=np.int64)[first]
        common = sets[0] if len(set(sets)) == 1 else ()
        return _relabelled(writer, snapshot, chosen, after, common)


@in_turn
def relabel_classes(reader: Reader, labels: Iterable[Any], label: Any) -> RelabelReport:
    """Give the items of some classes another label, or several, in the place of these."""
    wanted = label_set(label)
    with _changing(reader) as (writer, snapshot):
        chosen = snapshot.ids_of(labels)
        after = _exchanged(writer, snapshot, chosen, snapshot.known_labels(labels), wanted)
        return _relabelled(writer, snapshot, chosen, after, wanted)


def _relabelled(
    writer: Writer, snapshot: Snapshot, chosen: Array, after: Array, labels: LabelSet
) -> RelabelReport:
    """Commit other class numbers; segments stay as they are until a compaction."""
    changed = _relabel(writer, snapshot, chosen, after)
    if len(changed):
        writer.commit("relabel", snapshot.version, {"n_relabelled": len(changed)})
    renamed = ids_of_numbers(snapshot.catalogue, changed.tolist())
    return RelabelReport(snapshot.version, renamed, labels)


@in_turn
def undo(reader: Reader) -> UndoReport:
    """Take the last operation back."""
    with _changing(reader) as (writer, snapshot):
        target = snapshot.log.undoable()
        if target is None:
            raise DatabaseError(
                "There is nothing to undo: undo reaches back to the creation or the last compaction, and "
                f"over {UpdatePolicy.undoable_updates} updates at most (by default)."
            )
        is_update = target.kind == "update"
        version = snapshot.log.version_before(target.number) if is_update else snapshot.version
        writer.commit("undo", version, {"undone": target.kind}, target.number)
    return UndoReport(version, target.kind)


@in_turn
def compact(reader: Reader) -> CompactReport:
    """Drop what no search can reach: removed items, earlier versions; merge small segments. Ends undoing.

    The vectors of removed items that the model in force was learned from stay: the next update needs
    them to forget what it learned from them.
    """
    root = reader.root
    with (
        disk_errors_told(root),
        locked(root / UPDATER, "is updating or copying it"),
        writing(root, updating=True, patience=reader.patience) as writer,
    ):
        with reader.newest() as snapshot:
            writer.catalogue.check_same(snapshot.catalogue)
            state = snapshot.state
            learned = training_ids(root, writer.catalogue, state.version)
            n_dropped, n_after = compaction.compact(writer, state, learned)
            if learning.sample_has_any(root, writer.catalogue, state.dead_ids()):
                writer.catalogue.delete("files", f"kind = '{learning.SAMPLE}'")
            writer.commit("compact", state.version, {"n_dropped": n_dropped})
        writer.catalogue.vacuum()
        sweep(root, writer.catalogue, updating=True)
        delete_scratch(root)
    return CompactReport(n_dropped, len(state.segments), n_after)
