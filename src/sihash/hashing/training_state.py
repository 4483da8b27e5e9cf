"""What SIH keeps of the rows that it learns from, and Algorithm 1 over them.

A `TrainingState` is never changed by an update that may fail: the update works on a twin, and the estimator
takes the twin when it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.engines import Engine, RowsLost
from sihash.engines.partitioned_rows import PartedRows
from sihash.hashing.assignment import descend
from sihash.hashing.calibration import calibrate, calibrate_labels, second_stage
from sihash.hashing.class_probability import LeftOut, learn_class_margins, leave_out, margin_scores
from sihash.hashing.code_table import CodeTable
from sihash.hashing.hyperparameters import Hyperparameters
from sihash.hashing.label_probability import N_LABEL_ROWS, MarginHead, learn_label_head
from sihash.hashing.label_sets import LabelSets, words_of_sets
from sihash.hashing.objective import Objective, multiclass_losses, objective
from sihash.hashing.report import Report, Round
from sihash.hashing.row_labels import Form
from sihash.kernel import KernelMap, row_blocks
from sihash.svm import MulticlassSolution, solve_multiclass
from sihash.svm.binary import make_svms, solve_svms
from sihash.svm.blocks import Block
from sihash.svm.svm_state import RowCounter, SVMs
from sihash.threads import start

Result = TypeVar("Result")

CALIBRATION_ROWS = 2000, 20, 10_000  # at least, per class, and at most: for a slope, and an offset per class
SEVERAL_TOL = 0.05  # where rows have several labels: losses stay, and on GoEmotions 0.001 is lacking then
CLASS_TOL = 0.01  # of the second stage at most: it is cheap, and on few rows weights of 0 are within 0.1
ROUNDING = 1e-5  # of a score, as a share of the length of the weights: some hundred times what float32 does
MOST_LOSSES = 10  # of computers with rows that one run gets over


@dataclass(frozen=True)
class NewRows:
    """Rows to learn from: vectors, label sets, home classes, and their keys, numbers for life."""

    X: Any
    sets: Array
    y: Array
    keys: Array


@dataclass
class TrainingState:
    """Rows with their codes, SVMs and names.

    The blocks of ``svms.rows`` hold, for every row: ``X`` (float32), ``Phi``, ``Y`` (its code),
    ``pair`` (number in ``table``, which knows its label set), ``y`` (class number, of several the home class)
    and ``key`` (its place in the order of arrival). Class numbers stay with their class for good;
    ``labels[number]`` is its label and ``live`` lists the numbers in use, in the order of the rows of the
    multi-class SVM. ``sets`` numbers the label sets.
    """

    settings: Hyperparameters
    engine: Engine
    kernel: KernelMap
    svms: SVMs
    table: CodeTable
    labels: list[Hashable]
    form: Form
    sets: LabelSets
    live: Array
    key_of: dict[Hashable, int]
    next_key: int
    outside: dict[Hashable, int]  # rows that are not learned from: ids, and their label sets (−1: no label)
    rates: Array  # by class number: the share of its rows to learn from
    class_svm: MulticlassSolution | None = None
    calibration: Array | None = None
    margin_head: MarginHead | None = None

    def twin(self) -> TrainingState:
        return replace(
            self,
            svms=self.with_rows(self.svms.copy),
            table=self.table.copy(),
            labels=list(self.labels),
            sets=self.sets.copy(),
            key_of=self.key_of.copy(),
            outside=self.outside.copy(),
            calibration=None,
            margin_head=None,
        )

    @property
    def n_known(self) -> int:
        return len(self.key_of) + len(self.outside)

    def class_sizes(self) -> Array:
        """Rows of every class number, those outside the sample too; rows with several count at home."""
        outside = np.fromiter(self.outside.values(), np.int64, len(self.outside))
        outside = self.sets.home[outside[outside >= 0]]
        return self.home_sizes() + np.bincount(outside, minlength=len(self.labels))

    def home_sizes(self) -> Array:
        """Rows to learn from of every class number; rows with several labels count at home."""
        sizes = np.zeros(len(self.labels), dtype=np.int64)
        np.add.at(sizes, self.sets.home[self.table.sets], self.table.counts)
        return sizes

    def label_sizes(self) -> Array:
        """Rows to learn from that have each label, by class number."""
        sizes = np.zeros(len(self.labels), dtype=np.int64)
        which, classes, _ = self.sets.apart(self.table.sets)
        np.add.at(sizes, classes, self.table.counts[which])
        return sizes

    @property
    def several(self) -> bool:
        """Whether some row has more than one label."""
        return any(len(self.sets.members[s]) > 1 for s in np.unique(self.table.sets[self.table.live()]))

    def class_words(self, class_numbers: Array) -> Array:
        return self.table.main_words(self.sets.of_classes(class_numbers))

    def set_of(self, other: TrainingState, label_set: int, number_of: Mapping[Hashable, int]) -> int:
        """The label set that has the labels of another training's; −1 if none is known here."""
        names = [other.labels[k] for k in other.sets.members[label_set]] if label_set >= 0 else []
        own = [number_of[name] for name in names if name in number_of]
        return self.sets.find(own, self.label_sizes()) if own else -1

    def row_labels(self) -> list[tuple[Hashable, ...]]:
        """The labels of each row, in the order in which the rows came."""
        names = [tuple(self.labels[k] for k in classes) for classes in self.sets.members]
        return [names[s] for s in self.table.sets[self.in_order("pair")]]

    def has_keys(self, keys: Array) -> Array:
        """Which of these rows are there."""
        return np.isin(keys, np.fromiter(self.key_of.values(), np.int64, len(self.key_of)))

    def run(self, report: Report) -> None:
        """Algorithm 1 from the present codes and weights, until the codes stay or the rounds are over."""
        n_lost, whole = 0, True
        while True:
            try:
                if not whole:
                    with report.phase("lost rows"):
                        self._revive()
                self._run_rounds(report)
                break
            except RowsLost:
                n_lost, whole = n_lost + 1, False
                if n_lost > MOST_LOSSES:
                    raise
        report.n_rows = len(self.svms.rows)

    def _run_rounds(self, report: Report) -> None:
        s = self.settings
        while len(report.rounds) < s.max_iter:
            classes = start(self._solve_classes)  # of the codes alone
            with report.phase("binary SVMs"):
                words = self.table.words[self.table.live()]
                solution = solve_svms(self.svms, s.tol, s.least_objective, words)
            with report.phase("multi-class SVM"):
                self.class_svm = classes()
            flips = np.zeros(s.n_bits, dtype=np.int64)
            if s.codes_move:
                with report.phase("codes"):
                    coef = self.class_svm.W
                    flips = descend(self.svms, self.table, coef, self._owners, s.lam * s.C_b, s.gamma)
            report.rounds.append(Round(solution.n_steps, solution.gap, solution.is_proved, flips))
            if not flips.any():
                break
            self.svms.rows.checkpoint()

    def scale(self) -> Array:
        """What the tolerance of the SVMs, and their gaps, are shares of, a number a bit."""
        return self.svms.scale(self.settings.tol, self.settings.least_objective)

    def with_rows(self, work: Callable[[], Result]) -> Result:
        """``work()``, and once more if rows were lost and had to be brought back."""
        try:
            return work()
        except RowsLost:
            self._revive()
            return work()

    def _revive(self) -> None:
        """Bring rows back whose machine was lost, with the codes of the last finished round."""
        rows = self.svms.rows
        assert isinstance(rows, PartedRows)
        keys = np.array(list(self.key_of.values()), dtype=np.int64)
        pairs = rows.revive(self.kernel, self.table.words, keys)
        self.table.counts = np.bincount(pairs, minlength=len(self.table.counts))
        self.svms.restart()

    def _positions(self) -> Array:
        """For every class number its row of the multi-class SVM; −1 for classes that are gone."""
        positions = np.full(len(self.labels), -1)
        positions[self.live] = np.arange(len(self.live))
        return positions

    def _owners(self, sets: Array) -> tuple[Array, Array, Array]:
        """Label sets taken apart: a place in ``sets``, a row of the multi-class SVM, and its share."""
        which, classes, shares = self.sets.apart(sets)
        return which, self._positions()[classes], shares

    def _solve_classes(self) -> MulticlassSolution:
        """The second stage, over the distinct pairs of word and label set.

        A row with several labels is in each of their classes, with its weight shared out.
        """
        pairs = self.table.live()
        which, own, shares = self._owners(self.table.sets[pairs])
        pairs = pairs[which]
        return solve_multiclass(
            np.column_stack([self.table.words[pairs], np.ones(len(pairs))]),
            own,
            self.settings.C_b,
            tol=SEVERAL_TOL if self.several else min(self.settings.tol, CLASS_TOL),
            sample_weight=self.table.counts[pairs] * shares,
            warm=self.class_svm,
        )

    def objective(self) -> Objective:
        """Eq. 1 at the present codes and weights."""
        assert self.class_svm is not None
        pairs, s = self.table.live(), self.settings
        which, own, shares = self._owners(self.table.sets[pairs])
        pairs = pairs[which]
        W, words = self.class_svm.W, self.table.words[pairs]
        losses = [
            multiclass_losses(second_stage(words[rows], W), own[rows])
            for rows in row_blocks(len(pairs), 1024)
        ]
        weights = self.table.counts[pairs] * shares
        multiclass = float(0.5 * np.sum(W * W) + s.C_b * weights @ np.concatenate(losses))
        return objective(multiclass, s.lam, self.svms.upper(), self.table.surplus(), s.gamma)

    def calibrate(self) -> Array:
        """Slope and offsets of the class probabilities, by the codes that the training rows hash to."""
        if self.calibration is None:
            assert self.class_svm is not None
            rows = self.svms.rows
            least, per_class, most = CALIBRATION_ROWS
            every = max(1, len(rows) // min(most, max(least, per_class * len(self.live))))
            sample = self.with_rows(lambda: rows.map(_calibration_rows, self.svms.counter(), every))
            H, y, pairs = (np.concatenate(column) for column in zip(*sample, strict=True))
            T = second_stage(H, self.class_svm.W)
            if self.several:
                self.calibration = calibrate_labels(T, self._have(pairs))
            else:
                self.calibration = calibrate(T, self._positions()[y])
        return self.calibration

    def keep_probabilities(self, before: TrainingState) -> None:
        """Hash functions that did not move say of the same classes what they said before."""
        same = (
            self.kernel is before.kernel
            and self.several == before.several
            and np.array_equal(self.live, before.live)
            and np.array_equal(self.svms.W, before.svms.W)
        )
        if same:
            self.margin_head = before.margin_head
            assert self.class_svm is not None
            assert before.class_svm is not None
            if np.array_equal(self.class_svm.W, before.class_svm.W):
                self.calibration = before.calibration

    def _have(self, pairs: Array) -> Array:
        """Which of the classes in use rows with these pairs have (bool)."""
        return self.sets.hold(self.table.sets[pairs], self.live)

    def class_margins(self) -> MarginHead:
        """The head of the class probabilities of margins, made when it is first asked for."""
        if self.margin_head is None:
            self.margin_head = self._learn_head()
        return self.margin_head

    def _learn_head(self) -> MarginHead:
        if self.several:
            sample = self._left_out(N_LABEL_ROWS)
            return learn_label_head(sample.without_themselves(), self._have(sample.pairs))
        return MarginHead(
            self.with_rows(
                lambda: learn_class_margins(
                    self.svms.rows,
                    self.svms.W,
                    self._positions(),
                    self.class_words(self.live),
                    self._leverage,
                    self.kernel.anchor_classes,
                )
            )
        )

    def _left_out(self, n: int) -> LeftOut:
        """About ``n`` rows, to see their margins as if they had not been trained on."""
        return self.with_rows(
            lambda: leave_out(
                self.svms.rows, self.svms.W, self._positions(), self._leverage, self.kernel.anchor_classes, n
            )
        )

    def left_out_margins(self, n: int) -> tuple[Array, Array]:
        """Keys of about ``n`` rows and their margins as they would be had they not been trained on."""
        sample = self._left_out(n)
        return sample.keys, sample.without_themselves()

    def left_out_hits(self, n: int) -> tuple[Array, Array]:
        """Places in ``live`` of the classes of about ``n`` rows, and whether they would be recognised.

        By margins as they would be had the rows not been trained on. Rows with several labels count at home,
        and are recognised if their likeliest label is one of them.
        """
        sample = self._left_out(n)
        scores = margin_scores(sample.without_themselves(), self.class_margins().coef)
        return sample.y, self._have(sample.pairs)[np.arange(len(scores)), np.argmax(scores, axis=1)]

    def _leverage(self, Phi: Array) -> Array:
        """``C φᵀH⁻¹φ`` of rows of Φ: how far a row moves its own score."""
        return self.svms.C * np.sum(self.svms.current_gram().half_solve(Phi) ** 2, axis=0)

    def hashes(self) -> tuple[Array, Array]:
        """The packed codes that rows hash to, in the order in which they came, and which are certain."""
        doubt = (ROUNDING * np.linalg.norm(self.svms.W, axis=1)).astype(np.float32)
        rows, counter = self.svms.rows, self.svms.counter()
        found = self.with_rows(lambda: rows.map(_hashes, counter, doubt))
        packed, certain, keys = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(keys)
        return packed[order], certain[order]

    def in_order(self, name: str) -> Array:
        """A row array in the order in which the rows came."""
        values, keys = self.with_rows(lambda: [self.svms.rows.column(each) for each in (name, "key")])
        return values[np.argsort(keys)]


def _hashes(block: Block, counter: RowCounter, doubt: Array) -> tuple[Array, Array, Array]:
    scores = counter.scores(block)
    return codes.pack(codes.sign(scores)), np.all(np.abs(scores) > doubt, axis=1), block["key"]


def _calibration_rows(block: Block, counter: RowCounter, every: int) -> tuple[Array, Array, Array]:
    some = slice(None, None, every)
    return codes.sign(counter.scores(block, some)), block["y"][some], block["pair"][some]


def starting_pairs(table: CodeTable, label_sets: LabelSets, of_rows: Array) -> Array:
    """The pair that rows of these label sets start from: a set not seen before takes its classes' words."""
    distinct, place = np.unique(of_rows, return_inverse=True)
    unseen = np.setdiff1d(distinct, table.sets)
    if len(unseen):
        which, classes, _ = label_sets.apart(unseen)
        class_words = table.main_words(label_sets.of_classes(classes))
        words = [words_of_sets(class_words[which == k]) for k in range(len(unseen))]
        table.find_each(np.array(words), unseen)
    return np.array([table.main_pair(s) for s in distinct], dtype=np.int32)[place]


def new_training_state(
    settings: Hyperparameters,
    engine: Engine,
    kernel: KernelMap,
    new: NewRows,
    words: Array,
    names: dict[str, Any],
) -> TrainingState:
    """Rows with their first codes and untrained SVMs.

    ``words`` are those of the classes. ``names`` has what the state keeps of labels and ids: ``labels``,
    ``form``, ``sets``, ``key_of``, ``next_key``, ``outside`` and ``rates``.
    """
    table = CodeTable(settings.n_bits)
    sets: LabelSets = names["sets"]
    table.find_each(words, sets.of_classes(np.arange(len(words))))
    pair = starting_pairs(table, sets, new.sets)
    table.count(pair)
    columns = {"X": new.X, "y": new.y, "pair": pair, "key": new.keys}
    rows = engine.lay_out(kernel, columns, table.words)
    return TrainingState(
        settings=settings,
        engine=engine,
        kernel=kernel,
        svms=make_svms(rows, settings.C_x, settings.method),
        table=table,
        live=np.unique(sets.apart(np.unique(new.sets))[1]),
        **names,
    )
