"""What SIH keeps of the rows that it learns from, and Algorithm 1 over them.

A `Training` stays as it is: `Training.after` makes the changes on a copy, which shares the large arrays, and
returns that when it is done. So an error or Ctrl-C leaves the old one. A fit is an addition to an empty
training.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sihash import codes
from sihash import labels as label_values
from sihash._typing import Array
from sihash.engines import Engine
from sihash.hashing import row_changes, training_file
from sihash.hashing.anchor_columns import follow_classes
from sihash.hashing.assignment import descend
from sihash.hashing.class_model import ClassModel, Spread, fit_weights, sums_of
from sihash.hashing.class_sample import joined
from sihash.hashing.code_table import CodeTable
from sihash.hashing.hash_functions import HashFunctions, Objective
from sihash.hashing.rehearsal import Rehearsal, rehearse, sample
from sihash.hashing.report import Report, Round
from sihash.hashing.settings import Settings
from sihash.hashing.training_sample import class_rates, in_sample
from sihash.hashing.words import every_split_fits, first_words, learn_many_words, word_of_set
from sihash.kernel import KernelMap, normalise, row_blocks
from sihash.kernel_fit import fit_kernel_map
from sihash.labels import NOT_LABELLED, Form, Labels, LabelSets, read_labels
from sihash.svm import MulticlassSolution, Solution, solve_multiclass
from sihash.svm.binary import make_svms, solve_svms
from sihash.svm.blocks import Block
from sihash.svm.certificate import Certificate, lower_bounds
from sihash.svm.svm_state import RowCounter, SVMs
from sihash.threads import start, team

SEVERAL_TOL = 0.05  # where rows have several labels: losses stay, and on GoEmotions 0.001 is lacking then
CLASS_TOL = 0.01  # of the second stage at most: it is cheap, and on few rows weights of 0 are within 0.1
FEW_ROWS = 50  # so few may all have different labels
STALE_SPREAD = 0.1  # of the rows: when more came or went, what all classes share is found again
LOOSE_TOL = 0.3  # of OCAS while codes move
ROUNDING = 1e-5  # of a score, as a share of the length of the weights: some hundred times what float32 does


@dataclass(frozen=True)
class Change:
    """What happens to a collection: rows that go, classes that go, then rows that come."""

    X: Any = None
    y: Any = None
    ids: Iterable[Hashable] | None = None
    remove_ids: Iterable[Hashable] = ()
    remove_classes: Iterable[Hashable] = ()

    def __post_init__(self) -> None:
        for name in ("ids", "remove_ids"):  # read more than once
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else label_values.several(value))
        object.__setattr__(self, "remove_classes", label_values.several(self.remove_classes))
        if self.X is None and (self.y is not None or self.ids is not None):
            raise ValueError("Expected rows X for these labels or ids, got None.")

    def update(self, hasher: Any) -> Any:
        """Update an `SIH`, which is changed by this."""
        return hasher.update(
            self.X, self.y, self.ids, remove=self.remove_ids, remove_classes=self.remove_classes
        )

    @property
    def kinds(self) -> list[str]:
        given = {"add": self.X is not None, "remove": self.remove_ids, "remove_classes": self.remove_classes}
        return [kind for kind, there in given.items() if there]


@dataclass(frozen=True)
class NewRows:
    """Rows to learn from: vectors, label sets, primary classes, and their keys, permanent numbers."""

    X: Any
    sets: Array
    y: Array
    keys: Array


class Training:
    """Rows with their codes, SVMs and names; at first without any.

    The blocks of ``svms.rows`` hold, for every row: ``X`` (float32), ``Phi``, ``Y`` (its code), ``pair``
    (number in ``table``, which knows its label set), ``y`` (number of its primary class) and ``key`` (its
    place in the order of arrival). Class numbers stay with their class for good; ``labels[number]`` is its
    label and ``live`` lists the numbers in use, in the order of the rows of the multi-class SVM. ``sets``
    numbers the label sets.
    """

    kernel: KernelMap
    svms: SVMs
    form: Form  # in which labels were given
    report: Report

    def __init__(self, settings: Settings, engine: Engine, rng: np.random.RandomState) -> None:
        self.settings, self.engine, self.rng = settings, engine, rng
        self.table = CodeTable(settings.n_bits)
        self.labels: list[Hashable] = []
        self.sets = LabelSets()
        self.live = np.empty(0, dtype=np.intp)
        self.key_of: dict[Hashable, int] = {}
        self.next_key = 0
        self.outside: dict[Hashable, int] = {}  # not learned from: ids and label sets (−1: no label)
        self.rates = np.empty(0)  # by class number: the share of its rows to learn from
        self.class_svm: MulticlassSolution | None = None
        self.spread: Spread | None = None
        self.n_since_spread = 0  # rows that came or went since
        self.rehearsals: list[Rehearsal] = []  # by which it was found, if it was here
        self._class_model: ClassModel | None = None
        self.scratch = np.nan, np.nan  # steps, and seconds per row, of the last fit from scratch

    def copy(self) -> Training:
        """A draft for changes; rows are shared until they are written."""
        draft = copy.copy(self)
        if not self.is_empty:
            draft.svms = self.engine.draft(self.svms)
            draft.rng = copy.deepcopy(self.rng)
        draft.table, draft.sets = self.table.copy(), self.sets.copy()
        draft.labels, draft.key_of, draft.outside = list(self.labels), self.key_of.copy(), self.outside.copy()
        draft._class_model, draft.rehearsals = None, []
        return draft

    @property
    def is_empty(self) -> bool:
        """Whether nothing was learned yet."""
        return not hasattr(self, "svms")

    @property
    def ids(self) -> list[Hashable]:
        """Of the rows that are learned from, in the order in which they came."""
        return list(self.key_of)

    # Changes.

    def after(self, change: Change) -> Training:
        """The training of the changed collection."""
        return self.engine.attempt(lambda: self._after(change))

    def _after(self, change: Change) -> Training:
        kinds = ["fit"] if self.is_empty else change.kinds
        if not kinds:
            return self
        with team():  # one thread a product: on few rows a BLAS of many threads takes 25 times as long
            draft = self.copy()
            n_added = 0 if change.X is None else len(change.X)
            kind = kinds[0] if len(kinds) == 1 else "update"
            draft.report = Report(kind, n_added=n_added, verbose=self.settings.verbose)
            with draft.report.phase("rows"):
                new = draft._take_change(change)
                draft.report.n_removed = self.n_known + n_added - draft.n_known
            draft._learn(new)
        draft.n_since_spread += draft.report.n_added + draft.report.n_removed
        if draft.n_since_spread > STALE_SPREAD * len(draft.svms.rows):
            draft.spread = None
        return draft

    def relearned(self) -> Training:
        """Learned from scratch from the known rows, with new words. Rows outside the sample stay there."""
        return self.engine.attempt(self._relearned)

    def _relearned(self) -> Training:
        fresh = Training(self.settings.checked(training_rows="all"), self.engine, copy.deepcopy(self.rng))
        fresh.form, fresh.report = self.form, Report("relearn", verbose=self.settings.verbose)
        keys = np.sort(np.fromiter(self.key_of.values(), np.int64, len(self.key_of)))
        with team():
            labels = read_labels(self.form.give(self.row_labels()), len(keys))
            fresh._learn(fresh._enter(self.in_order("X"), fresh._numbered(labels), self.ids, keys))
        number_of = {label: k for k, label in enumerate(fresh.labels)}
        for k in self.live:
            fresh.rates[number_of[self.labels[k]]] = self.rates[k]
        fresh.outside = {name: fresh._set_of(self, s, number_of) for name, s in self.outside.items()}
        fresh.next_key, fresh.settings = self.next_key, self.settings
        return fresh

    def _take_change(self, change: Change) -> NewRows | None:
        """Let rows and classes go; returns the rows that come to be learned from."""
        labels = None if change.X is None else read_labels(change.y, len(change.X))
        ids = None if change.ids is None else list(change.ids)
        if labels is not None and self.is_empty:
            classes, _ = label_values.encode(labels.flat)
            if len(classes) < 2 or labels.form is None:
                raise ValueError(_too_few_classes(classes, labels))
            if len(classes) == np.count_nonzero(labels.counts) > FEW_ROWS:
                warnings.warn(
                    f"Every row has a label of its own ({len(classes):,} labels): is that column ids rather "
                    "than labels? Nothing can be learned from classes of one row each.",
                    UserWarning,
                    stacklevel=2,
                )
            self.form = labels.form
        elif labels is not None:
            labels = labels.in_form(self.form)
        keys_before: dict[Hashable, int] = {}  # of rows that leave and come again
        gone = list(change.remove_ids)
        if gone:
            row_changes.check_known(gone, self.key_of, self.outside)
            if ids is not None:
                keys_before = row_changes.returning(self, gone, change.X, ids)
            row_changes.leave_rows(self, gone)
        parts: list[tuple[Any, Array, list[Hashable]]] = []  # vectors, label sets, ids
        class_numbers = self._numbers_of(change.remove_classes)
        if len(class_numbers):
            X, sets, keys = row_changes.leave_classes(self, class_numbers)
            if len(X):
                parts, keys_before = [(X, sets, list(keys))], keys_before | keys
        if labels is not None:
            taken = [self.key_of, self.outside, *(dict.fromkeys(part[2], 0) for part in parts)]
            names = row_changes.new_ids(ids, len(labels.counts), self.next_key, *taken)
            parts.insert(0, (change.X, self._numbered(labels), names))
        new = None
        if parts:
            if not self.is_empty and not len(self.svms.rows):
                raise ValueError("This update would replace every row: fit again instead.")
            X = parts[0][0] if len(parts) == 1 else np.concatenate([part[0] for part in parts])
            keys_of_rows = np.arange(self.next_key, self.next_key + len(X))
            sets = np.concatenate([part[1] for part in parts])
            new = self._enter(X, sets, [name for part in parts for name in part[2]], keys_of_rows)
        if keys_before:
            row_changes.keep_anchors(self, keys_before)
        coming = () if new is None else self.sets.explode(np.unique(new.sets))[1]
        n_classes = len(np.union1d(self.live, coming))
        if n_classes < 2:
            raise ValueError(
                f"This removal would leave {n_classes} class(es); hashing needs two or more. Nothing was "
                "changed."
            )
        return new

    def _numbers_of(self, class_labels: Iterable[Hashable]) -> Array:
        """Numbers of classes to remove."""
        wanted = list(class_labels)
        positions = label_values.numbers_of(wanted, self.classes())
        if (positions < 0).any():
            unknown = wanted[int(np.argmin(positions))]
            raise KeyError(f"Cannot remove the class {unknown!r}: classes_ lists the classes there are.")
        return self.live[np.unique(positions)]

    def _numbered(self, labels: Labels) -> Array:
        """The label sets of rows, −1 for those without a label; a label that is not in use gets a new number.

        New labels are numbered in their order, where they have one.
        """
        classes, which = label_values.encode(labels.flat)
        number = {self.labels[int(k)]: int(k) for k in self.live}
        for label in classes.tolist():
            if label not in number:
                number[label] = len(self.labels)
                self.labels.append(label)
        numbers = np.array([number[label] for label in classes.tolist()], dtype=np.intp)[which]
        sizes = self.label_sizes() + np.bincount(numbers, minlength=len(self.labels))
        return self.sets.of_rows(numbers, labels.counts, sizes)

    def _enter(self, X: Any, sets: Array, ids: list[Hashable], keys: Array) -> NewRows:
        """Take note of rows that come; those of the sample are to be learned from (`training_sample`).

        ``sets`` are their label sets, −1 for rows without a label. A collection that grows past its budget
        also lets rows of the sample go.
        """
        labelled = sets >= 0
        y = self.sets.primary[sets]
        self.next_key = int(keys[-1]) + 1 if len(keys) else self.next_key
        sizes = self.class_sizes() + np.bincount(y[labelled], minlength=len(self.labels))
        rates = class_rates(sizes, self.settings.training_rows)
        n_before = len(self.rates)
        rates[:n_before] = np.minimum(rates[:n_before], self.rates)  # rows left out are not at hand again
        lowered = rates[:n_before] < self.rates
        self.rates = rates
        if lowered[self.live].any():
            row_changes.thin_out(self)
        chosen = labelled.copy()
        chosen[labelled] = in_sample(keys[labelled], y[labelled], rates, self.primary_sizes() > 0)
        if chosen.all():
            self.key_of.update(zip(ids, keys.tolist(), strict=True))
            return NewRows(X, sets, y, keys)
        taken = np.flatnonzero(chosen)
        for k in np.flatnonzero(~chosen):
            self.outside[ids[k]] = int(sets[k])
        self.key_of.update(zip([ids[k] for k in taken], keys[taken].tolist(), strict=True))
        return NewRows(X[taken], sets[taken], y[taken], keys[taken])

    # Learning.

    def _learn(self, new: NewRows | None) -> None:
        """Kernel, words and rows follow the change; then Algorithm 1."""
        settings, is_first = self.settings, self.is_empty
        known = self.live
        if is_first:
            assert new is not None
            with self.report.phase("kernel"):
                self.kernel = fit_kernel_map(
                    new.X,
                    new.y,
                    settings.n_anchors,
                    settings.anchors,
                    settings.kernel_width,
                    self.rng,
                    settings.kernel,
                    new.keys,
                )
                self.report.n_anchors = len(self.kernel.anchors)
                self.report.n_anchors_asked = settings.n_anchors
        else:
            if new is not None and len(new.y) > len(self.svms.rows) and settings.method == "smooth":
                self.svms.forget()  # most rows are new: a start from 0 takes fewer steps
            with self.report.phase("anchors"):
                follow_classes(self, new)
        if new is not None:
            fresh = np.setdiff1d(self.sets.explode(np.unique(new.sets))[1], known)
            with self.report.phase("words"):
                if len(fresh):
                    self._add_classes(fresh, new)
            with self.report.phase("rows"):
                self._add_rows(new)
            n_split = len(known) if len(known) else len(fresh)
            if len(fresh) and settings.words == "learned" and not every_split_fits(n_split, settings.n_bits):
                with self.report.phase("words"):
                    self._learn_words(fresh, is_first)
        self._run()
        if is_first:
            self.scratch = self.report.n_steps, self.report.total_seconds / max(1, self.report.n_rows)
        else:
            self.report.scratch_steps = self.scratch[0]
            self.report.scratch_seconds = self.scratch[1] * self.report.n_rows

    def _add_classes(self, fresh: Array, new: NewRows) -> None:
        """Words for new classes; the second stage is learned again (paper, section 2.6, case 3)."""
        sizes = np.maximum(self.sets.membership(new.sets, fresh).sum(axis=0), 1)
        words = first_words(
            self.settings.codebook,
            self.settings.n_bits,
            sizes,
            self.settings.gamma > 0,
            self.rng,
            self.class_words(self.live),
            self.label_sizes()[self.live],
        )
        self.table.find_each(words, self.sets.of_classes(fresh))
        self.live = np.concatenate([self.live, fresh])
        self.class_svm = None

    def _add_rows(self, new: NewRows) -> None:
        """Rows of a known label set start from its most frequent word, a new set from its classes' words."""
        pairs = self._starting_pairs(new.sets)
        self.table.count(pairs)
        columns = {"X": new.X, "y": new.y, "pair": pairs, "key": new.keys}
        if self.is_empty:
            rows = self.engine.lay_out(self.kernel, columns, self.table.words)
            self.svms = make_svms(rows, self.settings.C_x, self.settings.method)
            return
        args = self.kernel, self.table.words, self.svms.row_arrays(), self.svms.counter()
        for sums, product in self.svms.rows.send(row_changes.append, columns, *args):
            self.svms.count(sums)
            self.svms.add_gram(product)
        row_changes.tidy(self)

    def _starting_pairs(self, of_rows: Array) -> Array:
        distinct, place = np.unique(of_rows, return_inverse=True)
        unseen = np.setdiff1d(distinct, self.table.sets)
        if len(unseen):
            which, classes, _ = self.sets.explode(unseen)
            class_words = self.class_words(classes)
            words = [word_of_set(class_words[which == k]) for k in range(len(unseen))]
            self.table.find_each(np.array(words), unseen)
        return np.array([self.table.main_pair(s) for s in distinct], dtype=np.int32)[place]

    def _learn_words(self, fresh: Array, is_first: bool) -> None:
        """Move the words of classes whose rows have just joined to what the features can tell apart.

        The Gram matrix is the one that the SVMs are going to need, and all rows are summed up.
        """
        svms, table, live = self.svms, self.table, self.live
        shares = self.sets.shares(len(self.labels))[live][:, table.sets].astype(np.float32)
        (sums,) = svms.rows.total(_class_sums, shares.tocsc())
        movable = np.flatnonzero(np.isin(live, fresh))
        gram = svms.current_gram().matrix
        words = np.zeros((len(self.labels), table.words.shape[1]), np.int8)
        words[live] = learn_many_words(self.class_words(live), gram, sums, movable, self.rng)
        changed = self.sets.membership(table.sets, fresh).any(axis=1)
        sets = [list(self.sets.members[s]) for s in table.sets[changed]]
        table.replace(np.flatnonzero(changed), np.array([word_of_set(words[own]) for own in sets]))
        if is_first:  # nothing is counted yet
            svms.rows.map(_write_words, table.words)
            return
        svms.before_sign_flip()
        svms.count(svms.rows.total(_take_words, svms.counter(), table.words, changed))

    def _run(self) -> None:
        """Algorithm 1 from the present codes and weights, until the codes stay or the rounds are over.

        An update moves the codes first, as the weights know most rows. From scratch OCAS trains loosely while
        codes move: it takes ten steps to a gap of 30 %, seventy to 1 %.
        """
        s, report = self.settings, self.report
        is_update = bool(self.svms.W.any())
        is_loose = s.codes_move and s.method == "ocas" and not is_update
        if s.codes_move and is_update:
            with report.phase("codes"):
                self.class_svm = self._solve_classes()
                self._settle_codes()
        while len(report.rounds) < s.max_iter:
            is_loose = is_loose and len(report.rounds) < s.max_iter - 1
            classes = start(self._solve_classes)  # of the codes alone
            with report.phase("binary SVMs"):
                solution = self._solve_bits(max(s.tol, LOOSE_TOL) if is_loose else s.tol)
            with report.phase("multi-class SVM"):
                self.class_svm = classes()
            with report.phase("codes"):
                flips = self._settle_codes()
            report.rounds.append(Round(solution.n_steps, solution.gap, solution.is_proved, flips))
            if not flips.any() and not is_loose:
                break
            is_loose = is_loose and bool(flips.any())
        report.n_rows = len(self.svms.rows)
        self.engine.settle(self.svms.rows, self.kernel, self.table.words)

    def _solve_bits(self, tol: float) -> Solution:
        words = self.table.words[self.table.live()]
        return solve_svms(self.svms, tol, self.settings.least_objective, words)

    def _settle_codes(self) -> Array:
        """Rows leave their words where that pays; returns how many do, a number per bit.

        The multi-class SVM, which counts for most of eq. 1 and takes next to no time, follows at once; the
        binary SVMs when the codes stay. They do where a pass would lower eq. 1 by no more than the tolerance.
        """
        s = self.settings
        flips = np.zeros(s.n_bits, dtype=np.int64)
        for _ in range(s.max_iter if s.codes_move else 0):
            assert self.class_svm is not None
            W, least = self.class_svm.W, s.tol * self.objective().total
            moved = descend(self.svms, self.table, W, self._owners, s.lambda_ * s.C_b, s.gamma, least)
            if not moved.any():
                break
            flips += moved
            self.class_svm = self._solve_classes()
        return flips

    def _positions(self) -> Array:
        """For every class number its row of the multi-class SVM; −1 for classes that are gone."""
        positions = np.full(len(self.labels), -1)
        positions[self.live] = np.arange(len(self.live))
        return positions

    def _owners(self, sets: Array) -> tuple[Array, Array, Array]:
        """The labels of sets one by one: a place in ``sets``, a row of the multi-class SVM, and its share."""
        which, classes, shares = self.sets.explode(sets)
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

    # What was learned.

    def functions(self) -> HashFunctions:
        """What searches need; it knows no rows."""
        assert self.class_svm is not None
        return HashFunctions(
            settings=self.settings,
            kernel_=self.kernel,
            bit_coef_=self.svms.W.astype(np.float32),
            class_coef_=self.class_svm.W,
            classes_=self.classes(),
            objective_=self.objective(),
            form=self.form,
            several=self.several,
            heads=self,
        )

    def save(
        self,
        path: str | os.PathLike[str],
        settings: Settings | None = None,
        names: list[str] | None = None,
        vectors: bool = True,
    ) -> None:
        """Write all of it to a file, as `sihash.SIH.save` does."""
        training_file.save(path, self, settings, names, vectors)

    def classes(self) -> Array:
        return label_values.as_classes([self.labels[int(k)] for k in self.live])

    def objective(self) -> Objective:
        """Eq. 1 at the present codes and weights."""
        assert self.class_svm is not None
        s, W, pairs = self.settings, self.class_svm.W, self.table.live()
        which, own, shares = self._owners(self.table.sets[pairs])
        pairs = pairs[which]
        words, weights = self.table.words[pairs], self.table.counts[pairs] * shares
        losses = np.concatenate(
            [
                _losses(words[rows].astype(np.float64) @ W[:, :-1].T + W[:, -1], own[rows])
                for rows in row_blocks(len(pairs), 1024)
            ]
        )
        return Objective(
            multiclass=s.lambda_ * (0.5 * float(np.sum(W * W)) + s.C_b * float(weights @ losses)),
            binary=float(np.sum(self.svms.upper())),
            balance=s.gamma * float(np.abs(self.table.surplus()).sum()),
        )

    def certify(self, tol: float) -> Certificate:
        """Proved bounds on how far the SVMs are from their optimum; gaps are shares as in `report`."""
        with team():
            lower = lower_bounds(self.svms, tol)
        scale = self.svms.scale(self.settings.tol, self.settings.least_objective)
        return Certificate(self.svms.upper(), lower, scale)

    # Rows and classes.

    @property
    def n_known(self) -> int:
        return len(self.key_of) + len(self.outside)

    def class_sizes(self) -> Array:
        """Rows by number of their primary class, those outside the sample too."""
        outside = np.fromiter(self.outside.values(), np.int64, len(self.outside))
        outside = self.sets.primary[outside[outside >= 0]]
        return self.primary_sizes() + np.bincount(outside, minlength=len(self.labels))

    def primary_sizes(self) -> Array:
        """Rows to learn from by number of their primary class."""
        sizes = np.zeros(len(self.labels), dtype=np.int64)
        np.add.at(sizes, self.sets.primary[self.table.sets], self.table.counts)
        return sizes

    def label_sizes(self) -> Array:
        """Rows to learn from that have each label, by class number."""
        sizes = np.zeros(len(self.labels), dtype=np.int64)
        which, classes, _ = self.sets.explode(self.table.sets)
        np.add.at(sizes, classes, self.table.counts[which])
        return sizes

    @property
    def several(self) -> bool:
        """Whether some row has more than one label."""
        return any(len(self.sets.members[s]) > 1 for s in np.unique(self.table.sets[self.table.live()]))

    def class_words(self, class_numbers: Array) -> Array:
        return self.table.main_words(self.sets.of_classes(class_numbers))

    def _set_of(self, other: Training, label_set: int, number_of: dict[Hashable, int]) -> int:
        """The label set that has the labels of another training's; −1 if none is known here."""
        names = [other.labels[k] for k in other.sets.members[label_set]] if label_set >= 0 else []
        numbers = [number_of[name] for name in names if name in number_of]
        return self.sets.find(numbers, self.label_sizes()) if numbers else -1

    def row_labels(self) -> list[tuple[Hashable, ...]]:
        """The labels of each row, in the order in which the rows came."""
        names = [tuple(self.labels[k] for k in classes) for classes in self.sets.members]
        return [names[s] for s in self.table.sets[self.in_order("pair")]]

    def has_keys(self, keys: Array) -> Array:
        """Which of these rows are there."""
        return np.isin(keys, np.fromiter(self.key_of.values(), np.int64, len(self.key_of)))

    def in_order(self, name: str) -> Array:
        """A row array in the order in which the rows came."""
        values, keys = (self.svms.rows.column(each) for each in (name, "key"))
        return values[np.argsort(keys)]

    def hashes(self) -> tuple[Array, Array]:
        """The packed codes that rows hash to, in the order in which they came, and which are certain.

        They come from the scores that learning left behind. Where one is so close to zero that rounding may
        decide the bit, the row is not certain; `HashFunctions.transform` has the last word.
        """
        doubt = (ROUNDING * np.linalg.norm(self.svms.W, axis=1)).astype(np.float32)
        found = self.svms.rows.map(_hashes, self.svms.counter(), doubt)
        packed, certain, keys = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(keys)
        return packed[order], certain[order]

    # Classes.

    def class_model(self) -> ClassModel:
        """What sees classes in rows; made when it is first needed.

        Sums and sizes are those of the rows that there are. What all classes share is found on rehearsals,
        and stays as long as few rows come or go.
        """
        if self._class_model is None:
            with team():
                if self.spread is None:
                    self.spread, self.n_since_spread = self._find_spread(), 0
                self._class_model = self._model_with(self.spread)
        return self._class_model

    def rehearsed_hits(self) -> list[tuple[Hashable, bool]]:
        """The first label of the rows that asked for the class model, and whether they were recognised."""
        label_of = dict(zip(self.ids, self.row_labels(), strict=True)) if self.rehearsals else {}
        return [
            (label_of[name][0], any(str(x) == str(found) for x in label_of[name]))
            for each in self.rehearsals
            for name, found in zip(each.asking.tolist(), each.likeliest, strict=True)
        ]

    def unfitted_model(self) -> ClassModel:
        """The class model with W of these rows, and weights that nothing was asked for."""
        X, _, sets = self._sampled()
        return self._model_with(self._spread_of(X, sets))

    def _find_spread(self) -> Spread:
        X, keys, sets = self._sampled()
        names = [tuple(self.labels[k] for k in self.sets.members[s]) for s in sets.tolist()]
        self.rehearsals = list(rehearse(self.settings, self.kernel.width, X, names))
        whole = self._spread_of(X, sets)
        if not self.rehearsals:
            return whole
        asked = [each.asked(X, names) for each in self.rehearsals]
        found = fit_weights(asked, self.several)
        id_of = {key: name for name, key in self.key_of.items()}
        ids = label_values.object_array([id_of[key] for key in keys.tolist()])
        self.rehearsals = [
            each.with_spread(found).answering(ids, own)
            for each, own in zip(self.rehearsals, asked, strict=True)
        ]
        return replace(found, variances=whole.variances, axes=whole.axes)

    def _spread_of(self, X: Array, sets: Array) -> Spread:
        Z = normalise(X, self.kernel.mean.astype(np.float32))
        return Spread.of_rows(Z, np.unique(sets, return_inverse=True)[1])

    def _sampled(self) -> tuple[Array, Array, Array]:
        """Vectors, keys and label sets of the rows that rehearsals are made of, in the order of keys."""
        keys, sets = joined(self.svms.rows.map(_keys_and_sets, self.table.sets))
        order = np.argsort(keys)
        keys, sets = keys[order], sets[order]
        chosen = sample(keys, np.unique(sets, return_inverse=True)[1])
        X, found = joined(self.svms.rows.map(_vectors_of, keys[chosen]))
        return X[np.argsort(found)], keys[chosen], sets[chosen]

    def _model_with(self, spread: Spread) -> ClassModel:
        """The class model by the sums and sizes of all rows."""
        live = self.table.live()
        sets = np.unique(self.table.sets[live])
        place = np.full(len(self.sets.members), -1)
        place[sets] = np.arange(len(sets))
        sums, sizes = np.zeros((len(sets), len(self.kernel.mean))), np.zeros(len(sets))
        mean = self.kernel.mean.astype(np.float32)
        for present, part, n in self.svms.rows.map(_set_sums, place[self.table.sets], mean):
            sums[present] += part
            sizes[present] += n
        which, classes, _ = self.sets.explode(sets)
        return ClassModel(
            spread=spread,
            flat=self._positions()[classes],
            counts=np.bincount(which, minlength=len(sets)),
            sums=sums,
            sizes=sizes,
            words=self.table.main_words(sets),
            prior=self.settings.prior_exponent,
        )


def _losses(scores: Array, own: Array) -> Array:
    """``ξ_iᵇ`` (Crammer and Singer) of rows with ``scores`` (rows × classes), whose classes are ``own``."""
    rows, right = np.arange(len(own)), scores[np.arange(len(own)), own]
    scores[rows, own] -= 1
    return scores.max(axis=1) - right + 1


def _too_few_classes(classes: Array, labels: Labels) -> str:
    n = int(np.count_nonzero(labels.counts == 0))
    what = f"got 1 class ({classes.tolist()[0]!r})" if len(classes) else "got none"
    hint = f" {n:,} rows count as not labelled: {NOT_LABELLED}." if n else ""
    return f"SIH needs at least two classes, {what}; add rows of another class.{hint}"


# What the blocks do.


def _class_sums(block: Block, shares: Any) -> tuple[Array]:
    """Sums of Φ by class; ``shares`` (classes × pairs) says what classes have of a row."""
    return (shares[:, block["pair"]] @ block["Phi"],)


def _write_words(block: Block, words: Array) -> None:
    block["Y"][:] = words[block["pair"]]


def _take_words(block: Block, counter: RowCounter, words: Array, changed: Array) -> tuple[Array, ...] | None:
    """Write the words of pairs that have ``changed`` to their rows, which count again."""
    rows = np.flatnonzero(changed[block["pair"]])
    return counter.flip_signs(block, rows, words[block["pair"][rows]]) if len(rows) else None


def _hashes(block: Block, counter: RowCounter, doubt: Array) -> tuple[Array, Array, Array]:
    scores = counter.scores(block)
    return codes.pack(codes.sign(scores)), np.all(np.abs(scores) > doubt, axis=1), block["key"]


def _keys_and_sets(block: Block, sets: Array) -> tuple[Array, Array]:
    return block["key"].copy(), sets[block["pair"]]


def _vectors_of(block: Block, keys: Array) -> tuple[Array, Array]:
    rows = np.flatnonzero(np.isin(block["key"], keys))
    return block["X"][rows], block["key"][rows]


def _set_sums(block: Block, place: Array, mean: Array) -> tuple[Array, Array, Array]:
    """Places of the label sets in a block, the sums of their rows, and how many there are."""
    present, own = np.unique(place[block["pair"]], return_inverse=True)
    return present, *sums_of(normalise(block["X"], mean), own, len(present))
