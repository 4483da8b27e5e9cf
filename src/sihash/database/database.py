"""`Database`: a collection on disk that learns codes, answers searches, and can change.

The work is done in the modules beside this one.
"""

from __future__ import annotations

import difflib
import inspect
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np

from sihash._typing import Array, Progress
from sihash.checks import check_count
from sihash.database import exporting, merging, operations, searching, summary, text_search, updating
from sihash.database.answers import (
    AddReport,
    Bits,
    Classification,
    CompactReport,
    Evaluation,
    FileProblem,
    Id,
    Item,
    Label,
    LabelSet,
    MergeReport,
    RelabelReport,
    RemoveReport,
    UndoReport,
    UpdateReport,
    Version,
)
from sihash.database.describing import Features
from sihash.database.inspection import doctor, evaluating, inspecting, mapping
from sihash.database.inspection.confusions import with_confusions
from sihash.database.inspection.findings import Diagnosis
from sihash.database.inspection.mapping import Layout, Map
from sihash.database.intake import Nothing, intake_of
from sihash.database.progress import watched
from sihash.database.result_tables import Answers, Items
from sihash.database.snapshot import PATIENCE, Frozen, Reader, Snapshot
from sihash.database.sources import ImageSource, Source, open_source
from sihash.database.updating import UpdatePolicy
from sihash.features.extract import BETTER
from sihash.hashing.class_model import answered
from sihash.hashing.training_sample import DEFAULT_BUDGET, Budget, check_budget
from sihash.index import open_index
from sihash.index.served import reach
from sihash.labels import several
from sihash.ranking.sketch import BITS, DEFAULT_BITS
from sihash.store import files
from sihash.store.backup import Copied, back_up, restore
from sihash.store.catalogue import refuse_missing
from sihash.store.errors import CorruptFile, DatabaseBusy, DatabaseError, NoSuchItem
from sihash.store.ids import ids_of_numbers, of_row, plain_id, rows_under, written
from sihash.store.labels import joined_labels
from sihash.store.log import LEARNS

if TYPE_CHECKING:
    from sihash.evaluation import Comparison

Result = TypeVar("Result")


def _as_path(path: Any) -> Path:
    """Absolute, for the current folder may change."""
    if not isinstance(path, str | os.PathLike):
        raise DatabaseError(f"Expected a path, got {path!r:.80}.")
    return Path(path).expanduser().absolute()


def _check_numbers(least: int = 0, **given: Any) -> None:
    """Refuse what is not a whole number."""
    try:
        for name, value in given.items():
            check_count(name, value, least)
    except ValueError as error:
        raise DatabaseError(str(error)) from None


def _check_parameters(names: Iterable[str]) -> None:
    """Refuse parameters of `Database.create` that do not exist; perhaps another one was meant."""
    from sihash.hashing import SIH

    known = [*inspect.signature(SIH).parameters, *inspect.signature(Database.create).parameters]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(set(known)))}."
            raise TypeError(f"create has no parameter {name!r}; {hint}")


def _matching(
    snapshot: Snapshot, classes: Iterable[Any] | None, where: str | None, text: str | None
) -> Array:
    """Numbers of the items that pass all filters."""
    labels = None if classes is None else several(classes)
    some = searching.numbers_allowed(snapshot, labels, where)
    if text is None:
        return snapshot.places.live_ids() if some is None else some
    found = text_search.containing(snapshot, text)
    return found if some is None else found[np.isin(found, some)]


class Database:
    """A database on disk. Any number of processes and threads can read it; one at a time can write.

    Opening takes no lock. Every answer reflects the last finished operation of any process. Writers wait for
    each other; one that has waited too long gets `DatabaseBusy`.

    Parameters
    ----------
    path : path
        A folder made by `create`.
    background : bool
        Load the current model version now, and later versions in the background, instead of in the first
        search that needs them. Until a new version is loaded, searches use the previous one.
    patience : float
        Seconds that a change waits while others write. A second update does not wait for the first.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from sihash.database import Database
    >>> X, y = load_digits(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> db = Database.create(folder.name + "/digits", X[:1000], y[:1000], n_bits=16, n_anchors=100)
    >>> len(db.search(X[1000:1002], k=5)[0].hits)
    5
    >>> report = db.add(X[1000:], y[1000:])
    >>> db.update().version
    2
    """

    def __init__(
        self, path: str | os.PathLike[str], *, background: bool = False, patience: float = PATIENCE
    ) -> None:
        self.path = _as_path(path)
        refuse_missing(self.path)
        self._reader: Reader = Reader(self.path, self._warm_up if background else None, patience)
        if background:
            with suppress(DatabaseError):  # the first search will tell
                self._read(self._warm_up)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        source: Any,
        labels: Any = None,
        *,
        names: Sequence[str] | None = None,
        ids: Any = None,
        columns: Any = None,
        vectors: str | Sequence[str] | None = None,
        n_bits: int | None = None,
        n_anchors: int = 1000,
        features: str = "auto",
        feature_options: dict[str, Any] | None = None,
        index: str = "exact",
        sketch: int = DEFAULT_BITS,
        thumbnails: bool = True,
        training_rows: Budget = DEFAULT_BUDGET,
        progress: Progress | None = None,
        **sih_params: Any,
    ) -> Self:
        """Make a database from a source and learn its hash functions.

        ``created_`` of the returned database lists what was skipped and rejected. Each row of vectors is an
        item; without ``ids`` its id is its number.

        Parameters
        ----------
        path : path
            A new or empty folder.
        source : path, name, array or list
            A folder, zip or tar of class folders; a file of vectors (npy, npz); a table (Parquet, Arrow, CSV,
            TSV, JSON lines); the name of a data set; a table in memory (pandas, polars, Arrow, Hugging Face,
            a list of dicts); vectors (n × d); or a list of images (paths, file contents, uint8 arrays,
            Pillow images).
        labels : sequence, path, label or name, optional
            One per item, None for no label; or a list of labels per item; or an indicator matrix (n × number
            of labels); or a CSV or JSONL file with rows (file, label) (docs/labels.md); or the name of the
            column of the table. Columns that are not named are guessed; ``created_.note`` says how.
        names : sequence of str, optional
            Names of the items; the default comes from the source.
        ids : sequence or str, optional
            Your ids, text or whole numbers, one per item; or the name of the column of the source that holds
            them. The default is a column ``id``, the paths of files in folders and archives, or a number.
        columns : mapping, DataFrame or names, optional
            Other facts about the items: values by name. Or the names of the columns of the source to keep;
            the default is all.
        vectors : name or names, optional
            The column of the table that holds vectors, or the columns that hold their numbers.
        n_bits : int, optional
            Bits per code. The default depends on the number of classes: 32 for ten, 64 for 200, 96 for 1,000.
        n_anchors, **sih_params
            Parameters of `SIH`.
        features : "auto", "efficientnet-lite2", "gist", "pixels" or "onnx:<file>"
            How images become vectors, with ``feature_options``; "auto" is the network efficientnet-lite2 if
            the extra ``photos`` is installed, otherwise gist.
        index : str
            "exact", codes in this process, or the URL of an index on a Milvus server (docs/search.md).
        sketch : 0, 1 or 4
            Bits that are kept of each number of a vector, to rank by: 4 rank as the vectors do, fewer take
            less room and may rank worse (docs/scale.md).
        thumbnails : bool
            Keep small pictures for showing results.
        training_rows : int or "all"
            Learn from at most about this many items, a fair sample of every class. This limits the cost of
            creating and updating a large collection.
        progress : callable
            Called with the current phase and how much of it is done, 0…1. Notebooks show bars without it.
        """
        from sihash.hashing import SIH  # scikit-learn, which searches have no use for

        root = _as_path(path)
        _check_parameters(sih_params)
        if n_bits is not None:
            _check_numbers(1, n_bits=n_bits)
        if sketch not in BITS:
            raise DatabaseError(f"sketch is how many bits are kept of a number: 0, 1 or 4; got {sketch!r}.")
        if not isinstance(index, str) or not isinstance(features, str):
            raise DatabaseError(f"index and features are names, got {index!r} and {features!r}.")
        opened = open_source(source, labels, names, ids, columns, vectors=vectors)
        chosen = Features("none")
        if isinstance(opened, ImageSource):
            chosen = Features.named(features, feature_options)
            opened.features, opened.thumbnails = chosen, thumbnails
        elif features not in ("auto", "none"):
            raise DatabaseError(f"The source holds vectors; features={features!r} are made from images.")
        if index.startswith("milvus+"):  # what there is not is refused before anything is read
            reach(index)
        else:
            open_index(index, n_bits or 32)
        if features == "auto" and chosen.name == "gist":
            warnings.warn(f"Photos are described by GIST, a method of 2001; {BETTER}.", stacklevel=2)
        sih_params.setdefault("random_state", 0)
        hasher = SIH(n_anchors=n_anchors, **sih_params)
        meta = {"features": vars(chosen), "index": index, "thumbnails": thumbnails}
        report = operations.create(
            root, opened, hasher, n_bits, meta, sketch, check_budget(training_rows), watched(progress)
        )
        database = cls(root)
        database.created_ = report
        return database

    @classmethod
    def merge(
        cls,
        path: str | os.PathLike[str],
        first: str | os.PathLike[str],
        second: str | os.PathLike[str],
        *,
        progress: Progress | None = None,
    ) -> Self:
        """Combine two databases that share a model in a new one at ``path``, and open it.

        They share a model if one began as a copy of the other and neither was updated since. Items in both
        (the same content, label and columns, and the same id if they have one) are kept once. Two
        different items under one id are refused. Numbers of the second's items change. The report is
        ``merged_`` of the returned database.
        """
        root = _as_path(path)
        with cls(first) as one, cls(second) as other:
            report = one._read(lambda a: other._read(lambda b: merging.merge(root, a, b, watched(progress))))
        database = cls(root)
        database.merged_ = report
        return database

    @classmethod
    def restore(cls, path: str | os.PathLike[str], backup: str | os.PathLike[str]) -> Self:
        """Make a database in a new or empty folder of a backup, a folder or a tar archive, and open it."""
        root = _as_path(path)
        restore(_as_path(backup), root)
        return cls(root)

    _layout: Layout | None = None  # of the last map
    created_: AddReport
    merged_: MergeReport

    def close(self) -> None:
        """Close all files. Do not use the database afterwards."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)

    def __repr__(self) -> str:
        try:
            return self._read(lambda snapshot: summary.in_one_line(self.path, snapshot))
        except DatabaseError as error:
            return f"<Database: {error}>"

    def _repr_html_(self) -> str | None:
        with suppress(DatabaseError):
            return self._read(lambda snapshot: summary.as_html(self.path, snapshot))
        return None

    def __len__(self) -> int:
        return self._read(lambda snapshot: snapshot.n_items)

    def _read(self, work: Callable[[Snapshot], Result]) -> Result:
        """``work`` on the database as it is now; again if files went meanwhile, or a copy was restored."""
        again = False
        while True:
            with self._reader.current() as snapshot:
                operation = snapshot.operation
                try:
                    if again:  # additions may come faster than it works: it keeps hold of all files
                        for segment in snapshot.places.segments:
                            segment.hold()
                    return work(snapshot)
                except (CorruptFile, DatabaseBusy):
                    again = True
                    catalogue = self._reader.catalogue
                    if catalogue is snapshot.catalogue and catalogue.last_operation() == operation:
                        raise

    @property
    def features(self) -> Features:
        """How this database turns images into vectors."""
        return self._read(lambda snapshot: Features(**snapshot.meta["features"]))

    # Searching.

    def _with_vectors(self, queries: Any, work: Callable[[Snapshot, Array], Result]) -> Result:
        """``work`` with queries as vectors; images are described again if the features change meanwhile."""
        while True:
            features = self.features
            X = searching.query_vectors(queries, features)

            def if_they_fit(snapshot: Snapshot, by: Features = features, X: Array = X) -> list[Result]:
                fit = snapshot.meta["features"] == vars(by)
                return [work(snapshot, searching.fitting(snapshot, X))] if fit else []

            if found := self._read(if_they_fit):
                return found[0]

    def _warm_up(self, snapshot: Snapshot) -> None:
        """Make what the first search would have to make, by searching for an item."""
        some = snapshot.places.live_ids()[:1]
        if len(some):
            ask = searching.wanted(10, None, None, None)
            searching.answers(snapshot, snapshot.catalogue, snapshot.vectors(some), ask, self.thumbnail)

    def search(
        self,
        queries: Any,
        *,
        k: int | None = None,
        radius: int | None = None,
        rank: str | None = None,
        classes: Iterable[Any] | None = None,
        where: str | None = None,
        rescore: bool = False,
    ) -> Answers:
        """Find the best items for each query.

        Returns the ``k`` best (10 by default), or all within Hamming distance ``radius``; with both, the
        ``k`` best within the radius. ``queries`` are vectors (n × d), a table or a column of it, or images:
        paths, file contents, uint8 arrays, Pillow images. ``rank`` is "combined" (the default), "label",
        "vector", "asymmetric" or "hamming" (`sihash.ranking.ranker`). Larger scores are better;
        compare them within one query only. ``classes`` restricts the answers to items with one of these
        labels, ``where`` to those that match conditions on columns, like ``"price < 20 and colour =
        'red'"`` (`sihash.store.where`). With ``rescore`` candidates are ranked by their vectors, which
        are read from the disk, and not by sketches of them. The answers are a list with ``to_pandas`` and
        ``to_arrow``.
        """
        ask = searching.wanted(k, radius, rank, classes, where, rescore)

        def work(snapshot: Snapshot, X: Array) -> Answers:
            return Answers(searching.answers(snapshot, snapshot.catalogue, X, ask, self.thumbnail))

        return self._with_vectors(queries, work)

    def search_ids(
        self,
        ids: Iterable[Id] | Id,
        *,
        k: int | None = None,
        radius: int | None = None,
        rank: str | None = None,
        classes: Iterable[Any] | None = None,
        where: str | None = None,
        rescore: bool = False,
    ) -> Answers:
        """Search with items of the database as queries; each is left out of its own answer.

        Here and below one id or class may stand for a list of one.
        """
        numbers = several(ids)
        ask = searching.wanted(k, radius, rank, classes, where, rescore)

        def work(snapshot: Snapshot) -> Answers:
            own = snapshot.living(numbers)
            X = snapshot.vectors(own)
            return Answers(searching.answers(snapshot, snapshot.catalogue, X, ask, self.thumbnail, own))

        return self._read(work)

    def classify(self, queries: Any) -> list[Classification]:
        """Predict the class of each query, with the probabilities of all classes.

        Where items have several labels, each label has its own probability, and ``labels`` are those that are
        likely enough.
        """

        def work(snapshot: Snapshot, rows: Array) -> list[Classification]:
            P = np.exp(snapshot.present.log_proba(rows, searching.margins(snapshot, rows)))
            names, threshold = snapshot.present.names(), snapshot.hasher.class_model().spread.threshold
            chosen = answered(P, 2.0 if threshold is None else threshold)
            out = []
            for row, own in zip(P, chosen, strict=True):
                best = int(row.argmax())
                every: dict[Label, float] = dict(zip(names, row.tolist(), strict=True))
                labels = joined_labels([names[k] for k in np.flatnonzero(own)])
                out.append(Classification(snapshot.version, names[best], float(row[best]), every, labels))
            return out

        return self._with_vectors(queries, work)

    # Changing.

    def add(
        self,
        source: Any,
        labels: Any = None,
        *,
        names: Sequence[str] | None = None,
        ids: Any = None,
        columns: Any = None,
        vectors: str | Sequence[str] | None = None,
        replace: bool = False,
        prefix: str = "",
        progress: Progress | None = None,
    ) -> AddReport:
        """Add items. They can be found as soon as this returns; the next update learns from their labels.

        Images that are already there are skipped, unreadable files are rejected; the report lists both.
        Vectors without ids are all added; ``repeated`` of the report are those that equal earlier items.
        ``ids``, ``columns`` and ``vectors`` are as in `create`. An item whose id is already there is skipped
        if nothing differs; otherwise it is refused, or with ``replace`` it replaces the old one. ``prefix``
        is put before paths that become ids, for a second folder with the same file names.

        Threads may add at once: what waits for its turn is written together, in the order in which it came.
        Then ``labels`` may be a function: it is called when it is the turn of the addition, with the labels
        that items have by then.
        """
        if callable(labels):

            def opened(known: Callable[[], Collection[Label]]) -> Source:
                return open_source(source, labels(known()), names, ids, columns, replace, prefix, vectors)
        else:
            ready = open_source(source, labels, names, ids, columns, replace, prefix, vectors)

            def opened(known: Callable[[], Collection[Label]]) -> Source:
                return ready

        addition = operations.Addition(opened, watched(progress))
        reader = self._reader
        report: AddReport = reader.line.do(self._add_together, addition, reader.busy, reader.patience)
        return report

    def _add_together(self, additions: Sequence[operations.Addition]) -> list[AddReport | Exception]:
        return operations.add(self._reader, additions)

    def remove(self, ids: Iterable[Id] | Id) -> RemoveReport:
        """Remove items. As soon as this returns, no search in any process finds them."""
        return operations.remove(self._reader, several(ids))

    def remove_classes(self, labels: Iterable[Any]) -> RemoveReport:
        """Remove one or more classes: an item loses that label, and is removed if it has no other."""
        return operations.remove_classes(self._reader, several(labels))

    def relabel(self, ids: Iterable[Id] | Id, label: Any) -> RelabelReport:
        """Change the label of items, to one label or a list; None removes it. Changes all of them or none.

        Searches, filters and evaluations use the new label at once; the next update learns from it.
        """
        return operations.relabel(self._reader, {plain_id(one): label for one in several(ids)})

    def relabel_each(self, labels: Mapping[Id, Any]) -> RelabelReport:
        """As `relabel`, with a label or a list of labels for each id; one change, so one `undo`."""
        return operations.relabel(self._reader, {plain_id(one): own for one, own in labels.items()})

    def relabel_classes(self, labels: Iterable[Any], label: Any) -> RelabelReport:
        """Change the label of all items of some classes, to merge or rename them.

        Other labels of these items stay.
        """
        return operations.relabel_classes(self._reader, several(labels), label)

    def update(
        self,
        strategy: Literal["incremental", "relearn"] = "incremental",
        *,
        reencode: bool = False,
        compare: bool = False,
        policy: UpdatePolicy | None = None,
        progress: Progress | None = None,
    ) -> UpdateReport:
        """Learn from what changed. Searches continue meanwhile, then switch to the new version.

        Classes keep their code words, so the codes of items stay valid. The cost depends on the change and on
        ``training_rows``. ``strategy="relearn"`` learns from scratch, with new words, and encodes everything
        again. ``reencode`` encodes items whose codes are older than the hash functions; it can be interrupted
        and continued. The report has the mAP without the update and with it; ``compare`` also learns from
        scratch, and adds the mAP of that. ``policy`` overrides when things are written again, and how long
        earlier versions can be undone (`sihash.database.updating.UpdatePolicy`).
        """
        policy, progress = policy or UpdatePolicy(), watched(progress)
        report = updating.update_database(self._reader, strategy, compare, policy, progress)
        if reencode:
            report = updating.reencode(self._reader, report, policy, progress)
        return report

    def refeature(
        self,
        features: str = "auto",
        source: Any = None,
        *,
        feature_options: dict[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> UpdateReport:
        """Describe all photos by other features, and learn from scratch, in one operation.

        ``features`` and ``feature_options`` are as in `create`. The photos are read where they were when they
        were added, or from ``source``: a folder, an archive or a list that holds them, under any names. Ids,
        labels, columns and the log stay. Searches continue meanwhile; additions have to wait. It can be
        stopped, and goes on when it is called again. Earlier operations can then not be undone.
        """
        from sihash.database.refeaturing import refeature  # not at every start

        chosen = Features.named(features, feature_options)
        return refeature(self._reader, chosen, source, watched(progress))

    def undo(self) -> UndoReport:
        """Undo the last add, remove, relabel or update that is not undone yet."""
        return operations.undo(self._reader)

    def before_update(self) -> Self:
        """The collection as it was just before the last update, to search side by side; it can only be read.

        It stays as it is, whatever happens to this database.
        """
        database = copy(self)
        database._reader = self._read(lambda snapshot: Frozen(snapshot.before_update()))
        return database

    def compact(self) -> CompactReport:
        """Free the space of removed items and old versions. Earlier operations can then not be undone."""
        return operations.compact(self._reader)

    # Looking.

    @property
    def version(self) -> int:
        """The model version that searches use."""
        return self._read(lambda snapshot: snapshot.version)

    @property
    def operation(self) -> int:
        """The number of the last change."""
        return self._read(lambda snapshot: snapshot.operation)

    def versions(self) -> list[Version]:
        """All model versions, oldest first, with those that were undone."""

        def work(snapshot: Snapshot) -> list[Version]:
            learned = snapshot.log.of_kind(*LEARNS)
            about = [(o, o.details["strategy"], o.details["n_training"]) for o in learned]
            return [
                Version(
                    number=o.version,
                    strategy=how,
                    at=o.at,
                    n_training=n,
                    current=o.version == snapshot.version,
                    undone=o.number in snapshot.log.undone,
                    seconds=o.details.get("seconds", {}),
                    compared=o.details.get("compared", {}),
                )
                for o, how, n in about
            ]

        return self._read(work)

    def items(
        self,
        offset: int = 0,
        limit: int = 100,
        classes: Iterable[Any] | None = None,
        where: str | None = None,
        text: str | None = None,
    ) -> Items:
        """Items in order of arrival, optionally of some classes or that match conditions on columns.

        With ``text``, items that hold it in their id, their name or a column of texts; the one whose id it is
        comes first.
        """
        _check_numbers(offset=offset, limit=limit)

        def work(snapshot: Snapshot) -> Items:
            numbers = _matching(snapshot, classes, where, text)[offset : offset + limit]
            ascending = np.sort(numbers)
            found = dict(zip(ascending.tolist(), self._items(snapshot, ascending), strict=True))
            return Items(found[number] for number in numbers.tolist())

        return self._read(work)

    def ids(
        self, classes: Iterable[Any] | None = None, where: str | None = None, text: str | None = None
    ) -> list[Id]:
        """Ids of all items, or of those that match; filters as in `items`."""

        def work(snapshot: Snapshot) -> list[Id]:
            return ids_of_numbers(snapshot.catalogue, _matching(snapshot, classes, where, text).tolist())

        return self._read(work)

    def items_of(self, ids: Iterable[Id] | Id) -> Items:
        """Items by their ids, in order of arrival; those that do not exist are left out."""

        def work(snapshot: Snapshot) -> Items:
            rows = rows_under(snapshot.catalogue, snapshot.places, map(plain_id, several(ids))).values()
            return self._items(snapshot, np.sort(np.array([row[0] for row in rows], dtype=np.int64)))

        return self._read(work)

    def sample(
        self, n: int, classes: Iterable[Any] | None = None, seed: int = 0, where: str | None = None
    ) -> Items:
        """Draw items from as many classes as possible; filters as in `items`."""
        labels = None if classes is None else several(classes)
        _check_numbers(n=n, seed=seed)

        def work(snapshot: Snapshot) -> Items:
            own = searching.numbers_allowed(snapshot, labels, where)
            chosen = inspecting.sample(snapshot, n, own, seed)
            ordered = np.sort(chosen)
            found = dict(zip(ordered.tolist(), self._items(snapshot, ordered), strict=True))
            return Items(found[number] for number in chosen.tolist())

        return self._read(work)

    def original(self, id: Id) -> bytes | None:
        """The original image file of an item, if it came from a folder and has not changed.

        Only bytes with the recorded SHA-256 are returned.
        """
        item = self.item(id)
        return None if item.path is None else files.read_original(item.path, item.sha256)

    def id_of(self, text: str) -> Id:
        """The id that text on a command line or in a URL means: "17" is the number 17 if such an item exists.

        If no item has such an id, the text itself.
        """

        def work(snapshot: Snapshot) -> Id:
            rows = rows_under(snapshot.catalogue, snapshot.places, [plain_id(text)])
            return written(text, [of_row(row[0], row[5]) for row in rows.values()])

        return self._read(work)

    def item(self, id: Id) -> Item:
        """Return one item; raises `NoSuchItem` if it does not exist."""
        return self._read(lambda snapshot: self._items(snapshot, snapshot.living([id]))[0])

    def _items(self, snapshot: Snapshot, numbers: Array) -> Items:
        rows = list(snapshot.catalogue.rows_in("items", "id", numbers.tolist()))
        if len(rows) < len(numbers):
            raise snapshot.catalogue.corrupt("items are missing")
        out = Items()
        codes, columns = snapshot.codes(numbers), snapshot.places.columns(numbers)
        labels = snapshot.labels(numbers)
        for row, label, code, said in zip(rows, labels, codes, columns, strict=True):
            number, operation, _, name, content, given, _ = row
            about = snapshot.log.operations[operation]
            place = about.details["place"]
            path = os.path.join(place, name) if place else None
            own = of_row(number, given)
            out.append(Item(own, label, name, about.version, content.hex(), code.tobytes(), said, path))
        return out

    def thumbnail(self, id: Id) -> bytes | None:
        """A small JPEG of an item, or None."""

        def work(snapshot: Snapshot) -> bytes | None:
            try:
                (number,) = snapshot.living([id]).tolist()
            except NoSuchItem:  # the item of an earlier answer, say
                return None
            rows = snapshot.catalogue.rows("thumbnails", "id = ?", (number,))
            return rows[0][1] if rows else None

        return self._read(work)

    def labels(self) -> list[Label]:
        """Labels of the classes that have items, in order of arrival."""
        return self._read(
            lambda snapshot: list(inspecting.class_sizes(snapshot, snapshot.places.live_classes()))
        )

    def info(self, where: str | None = None) -> dict[str, Any]:
        """What the database holds, in plain types.

        With ``where``, only matching items are counted.
        """
        return self._read(lambda s: inspecting.describe(self.path, s.catalogue, s, where))

    def bits(self) -> Bits:
        """How the bits are used: their balance, and the mean margin of every class in each."""
        return self._read(inspecting.bits)

    def evaluate(
        self,
        source: Any = None,
        labels: Any = None,
        *,
        rank: str | None = None,
        max_queries: int = 1000,
        max_items: int | None = None,
    ) -> Evaluation:
        """Measure P@1, P@10 and mAP of the searches, overall and per class. Relevant: a label in common.

        Queries come from ``source``, or are some of the items: preferably items that were not learned from,
        otherwise items with margins as if they had been left out. An item never finds itself, and only
        labelled items count. ``max_queries`` and ``max_items`` limit the time by sampling. ``note`` of the
        result says what was done.
        """
        evaluating.check_limits(max_queries, max_items)
        ranking = searching.wanted(1, None, rank, None).rank
        queries = None if source is None else self._labelled_queries(source, labels)

        def work(snapshot: Snapshot) -> Evaluation:
            asked = evaluating.ask(self.path, snapshot, queries, max_queries, max_items)
            return with_confusions(evaluating.evaluation(snapshot, asked, ranking), snapshot, asked)

        return self._read(work)

    def compare(
        self,
        source: Any = None,
        labels: Any = None,
        *,
        max_queries: int = 1000,
        max_items: int | None = None,
    ) -> Comparison:
        """Compare the answers of `search` with other methods, on the same data in one run.

        Queries and limits are those of `evaluate`.
        """
        evaluating.check_limits(max_queries, max_items)
        queries = None if source is None else self._labelled_queries(source, labels)

        from sihash.database.inspection import comparing  # scipy, which searches have no use for

        def work(snapshot: Snapshot) -> tuple[evaluating.EvaluationSet, comparing.Measured, int]:
            asked = evaluating.ask(self.path, snapshot, queries, max_queries, max_items)
            return asked, comparing.own_row(snapshot, asked, self.thumbnail), snapshot.n_bytes

        asked, own, code_bytes = self._read(work)
        return comparing.beside_alternatives(own, asked, code_bytes)

    def _labelled_queries(self, source: Any, labels: Any) -> tuple[Array, list[LabelSet]]:
        opened = open_source(source, labels)
        if isinstance(opened, ImageSource):
            opened.features = self.features
        intake = intake_of(opened, Nothing())
        blocks = list(opened.blocks(intake))
        if intake.rejects:
            first = intake.rejects[0]
            warnings.warn(
                f"{len(intake.rejects)} queries cannot be used and are left out, for example {first.name}: "
                f"{first.reason}.",
                stacklevel=3,
            )
        if not blocks:
            raise DatabaseError("There are no queries: nothing could be read from the source.")
        X = np.concatenate([block.vectors for block in blocks])
        y = [
            intake.joined_labels.get(content, own)
            for block in blocks
            for content, own in zip(block.contents, block.labels, strict=True)
        ]
        if () in y:
            raise DatabaseError("Every query needs a label, so that hits can be judged.")
        return searching.query_vectors(X, self.features), y

    def doctor(self, limit: int = 100) -> Diagnosis:
        """List labels that look wrong or conflict, most certain first, each with a fix. Changes nothing.

        At most ``limit`` findings of each kind are listed; ``found`` counts all. Large collections are
        sampled so that this takes minutes at most; ``note`` says so.
        """
        try:
            check_count("limit", limit)
        except ValueError as error:
            raise DatabaseError(str(error)) from None
        return self._read(lambda s: doctor.examine(s, limit, lambda ids: self._items(s, ids)))

    def map(self, n: int = 100_000) -> Map:
        """Places of at most ``n`` items in the plane, those of one class together.

        It takes some seconds the first time after an update; then items keep their places, whatever their
        labels become.
        """
        _check_numbers(1, n=n)

        def work(snapshot: Snapshot) -> Map:
            if self._layout is None or self._layout.model != snapshot.model:
                self._layout = mapping.lay_out(snapshot)
            return mapping.project(snapshot, self._layout, n)

        return work(self._read(Snapshot.detached))  # nobody waits for it

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write ids, labels, names, codes, vectors and columns to a ``.parquet`` or ``.npz`` file."""
        self._read(lambda snapshot: exporting.export(snapshot, snapshot.catalogue, _as_path(path)))

    def backup(self, target: str | os.PathLike[str]) -> Copied:
        """Copy the database to a folder, or bring such a copy up to date: only new files are copied.

        Additions, removals and searches go on meanwhile; updates and compactions wait, and it for them.
        """
        return back_up(self.path, _as_path(target))

    def verify(self, *, deleted: bool = False) -> list[FileProblem]:
        """Check every file, byte by byte. An empty list means that everything is intact.

        With ``deleted``, also check that nothing is left of removed items.
        """
        if deleted:
            from sihash.database.inspection.inspecting import verify_deleted

            return verify_deleted(self.path)
        return inspecting.verify(self.path)
