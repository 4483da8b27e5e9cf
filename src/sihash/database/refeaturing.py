"""Other features for the photos of a database: all are described anew, and a version is learned from that.

Ids, labels, columns, thumbnails and the log stay. It is one transaction, so a database has all of it or
nothing; searches go on meanwhile with what was, and changes wait. What was described is noted
(`sihash.database.describing`), so it can be stopped and goes on. Undoing ends here, as with a compaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sihash._typing import Progress
from sihash.database import learning, operations
from sihash.database.answers import UpdateReport
from sihash.database.describing import Described, Describer, Features, read_ahead
from sihash.database.snapshot import Reader, Snapshot
from sihash.database.sources import ImageSource, open_source
from sihash.kernel import mean_of_rows, row_blocks
from sihash.ranking import Sketcher
from sihash.store import compaction, files, segments
from sihash.store.columns import joined
from sihash.store.errors import DatabaseError
from sihash.store.locks import locked
from sihash.store.segments import Places, Segment
from sihash.store.writer import UPDATER, Writer, delete_scratch, disk_errors_told, sweep, writing


@operations.in_turn
def refeature(reader: Reader, features: Features, source: Any, progress: Progress) -> UpdateReport:
    """Describe all photos by ``features``: those of ``source``, or where they were when they came."""
    root = reader.root
    with (
        disk_errors_told(root),
        locked(root / UPDATER, "is updating it"),
        writing(root, updating=True, patience=reader.patience) as writer,
        reader.newest() as snapshot,
    ):
        writer.catalogue.check_same(snapshot.catalogue)
        if snapshot.holds_vectors:
            raise DatabaseError("This database holds vectors; only photos can be described by features.")
        if snapshot.meta["features"] == vars(features):
            return UpdateReport(snapshot.version, "refeature", False)
        contents = _contents(snapshot)
        if not contents:
            raise DatabaseError("This database holds no photos any more; there is nothing to describe.")
        describer = Describer(features, False, len(contents))
        with describer.noted_in(root):
            _describe(describer, snapshot, contents, source, progress)
            report = _switch(writer, snapshot, features, describer, contents, progress)
        writer.catalogue.vacuum()
        sweep(root, writer.catalogue, updating=True)
        delete_scratch(root)  # what is noted of others by the features of before
    return report


def _contents(snapshot: Snapshot) -> dict[int, bytes]:
    """The SHA-256 of every living item, by its number, ascending."""
    ids = snapshot.places.live_ids().tolist()
    found = {row[0]: row[4] for row in snapshot.catalogue.rows_in("items", "id", ids)}
    if len(found) < len(ids):
        raise snapshot.catalogue.corrupt("items are missing")
    return {number: found[number] for number in ids}


def _describe(
    describer: Describer, snapshot: Snapshot, contents: dict[int, bytes], source: Any, progress: Progress
) -> None:
    """Describe each content that is not noted yet; refused if one cannot be had."""
    missing = {content: number for number, content in contents.items() if describer.noted(content) is None}
    reasons: dict[bytes, str] = {}
    images = _originals(snapshot, missing) if source is None else _images_of(source)
    for chunk, own in read_ahead(images):
        chosen = list({content: k for k, content in enumerate(own) if content in missing}.values())
        found, problems = describer([chunk[k] for k in chosen], [own[k] for k in chosen])
        for place in found:
            del missing[own[chosen[place]]]
        reasons |= {own[chosen[place]]: reason for place, reason in problems.items()}
        describer.done(len(contents) - len(missing))
        progress(describer.step, 1 - len(missing) / len(contents))
        if not missing:
            return
    if missing:
        content, number = min(missing.items(), key=lambda each: (each[0] not in reasons, each[1]))
        ((_, _, _, name, *_),) = snapshot.catalogue.rows("items", "id = ?", (number,))
        raise DatabaseError(
            f"{len(missing):,} of {len(contents):,} photos cannot be described, for example {name}: "
            f"{reasons.get(content, 'it is not where it was, or has changed')}. Say where they are now "
            "(`sihash refeature DB PHOTOS`), or remove them; nothing was changed."
        )


def _originals(snapshot: Snapshot, contents: dict[bytes, int]) -> Iterator[bytes]:
    """Photos that are where they were when they were added."""
    for row in list(snapshot.catalogue.rows_in("items", "content", list(contents))):
        place = snapshot.log.operations[row[1]].details["place"]
        data = None if place is None else files.read_original(f"{place}/{row[3]}", row[4].hex())
        if data is not None:
            yield data


def _images_of(source: Any) -> Iterable[Any]:
    opened = open_source(source)
    if not isinstance(opened, ImageSource):
        raise DatabaseError("Expected photos, got vectors; give the folder or archive that holds the photos.")
    return opened.images


def _switch(
    writer: Writer,
    snapshot: Snapshot,
    features: Features,
    describer: Describer,
    contents: dict[int, bytes],
    progress: Progress,
) -> UpdateReport:
    """Write segments of the new vectors in the place of all others, learn from them, and commit."""
    state, catalogue, number = snapshot.state, writer.catalogue, snapshot.log.next_version
    compaction.settle_items(writer, state)
    for table in ("relabelled", "removed"):
        catalogue.delete(table, "1")
    catalogue.delete("files", "segment IS NULL")
    width = len(_noted(describer, next(iter(contents.values())))[0])
    new = _new_segments(writer, snapshot, describer, contents, width)
    compaction.delete_segments(catalogue, [segment.number for segment in state.segments])
    places, classes = Places(new), snapshot.places.live_classes()
    ids, budget = places.live_ids(), snapshot.meta["training_rows"]
    training = learning.training_of(ids, classes, snapshot.classes, budget)
    X = places.vectors(training.ids, width, release=True)
    sketcher = Sketcher.made(mean_of_rows(X), snapshot.sketcher.bits)
    operations.write_rows(writer, new, sketcher)
    n_labelled = int(np.count_nonzero(classes >= 0))
    learned = operations.learn_version(
        writer, number, new, training, X, n_labelled, snapshot.estimator(), sketcher, progress
    )
    meta = snapshot.meta | operations.about_vectors(new) | {"features": vars(features)}
    catalogue.delete("meta", "1")
    catalogue.insert("meta", [(key, json.dumps(value)) for key, value in meta.items()])
    details = {**learned, "strategy": "refeature", "first_new": snapshot.log.next_number, "oldest": number}
    writer.commit("refeature", number, details | {"features": features.name})
    return UpdateReport(
        number,
        "refeature",
        True,
        n_learned=len(training.ids),
        n_bits_trained=snapshot.n_bits,
        n_reencoded=len(contents),
        text=learned["report"],
    )


def _new_segments(
    writer: Writer, snapshot: Snapshot, describer: Describer, contents: dict[int, bytes], width: int
) -> list[Segment]:
    """Segments of the living items with what was noted of each; their rows are not written yet."""
    old = snapshot.places.segments
    rows = np.concatenate([segment.rows_now[segment.alive] for segment in old])
    columns = joined([segment.columns.take(segment.alive) for segment in old])
    new = []
    for part in row_blocks(len(rows), segments.rows_of(width)):
        vectors, number = np.empty((len(rows[part]), width), dtype=np.float32), writer.next_segment()
        for k, item in enumerate(rows["id"][part].tolist()):
            vectors[k], _ = _noted(describer, contents[item])
        file = segments.write_vectors(writer.root, number, [vectors])
        new.append(writer.adopt_segment(number, rows[part], file))
        writer.add_columns(new[-1], columns.take(np.arange(part.start, part.stop)))
    return new


def _noted(describer: Describer, content: bytes) -> Described:
    noted = describer.noted(content)
    if noted is None:
        raise DatabaseError("What was described cannot be read back; nothing was changed. Try again.")
    return noted
