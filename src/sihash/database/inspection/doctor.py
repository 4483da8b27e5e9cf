"""Labels that are wrong or in conflict: `examine` looks for them, and says how each can be mended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.database.answers import Item, Label, LabelSet, label_words
from sihash.database.inspection import unseen
from sihash.database.inspection.duplicates import Pairs, pairs_of
from sihash.database.inspection.findings import (
    FINDING_KINDS,
    Diagnosis,
    Finding,
    FindingKind,
    merge_command,
    relabel_command,
)
from sihash.database.inspection.unseen import Examined, Neighbours
from sihash.database.snapshot import Snapshot
from sihash.ranking.score import SAME

WRONG_BELOW = 0.02  # probability of its label below which an item is reported (docs/doctor.md)
UNTOLD = 0.25  # share of wrong answers to "this class or that?", 0.5 by guessing
EXAMPLES = 4  # items that are shown of a class

Items = Callable[[Array], list[Item]]
Tell = Callable[[list[Item]], tuple[str, tuple[str, ...], LabelSet]]  # from items to reason, mend, labels


@dataclass(frozen=True)
class _Draft:
    """A finding before its items are read; the list is in the order of ``doubt``, the least first."""

    doubt: float
    certainty: float
    ids: list[int]
    tell: Tell


def examine(snapshot: Snapshot, limit: int, items_of: Items) -> Diagnosis:
    """All kinds of findings, at most ``limit`` of each."""
    examined = unseen.examine(snapshot)
    no_classes = np.empty(0, dtype=np.int64)
    ids = snapshot.places.live_ids()
    drafts: dict[FindingKind, list[_Draft]] = {kind: [] for kind in FINDING_KINDS}
    if examined is None:
        asked_ids = ids[unseen.some(len(ids), unseen.MOST_ASKED)]
        found = unseen.neighbours(snapshot, asked_ids, no_classes)
    else:
        asked = unseen.most_doubtful(examined)
        others = np.setdiff1d(ids, examined.ids[asked])
        others = others[unseen.some(len(others), max(0, unseen.MOST_ASKED - len(asked)))]
        asked_ids = np.concatenate([examined.ids[asked], others])
        found = unseen.neighbours(snapshot, asked_ids, examined.classes)
        own = found[: len(asked)]
        log_r, votes = unseen.mixed(examined, asked, own)
        drafts["wrong label"] = _wrong_labels(snapshot, examined, asked, own, log_r, votes)
        drafts["confused classes"] = _confused_classes(snapshot, examined)
    doubted = {draft.ids[0] for draft in drafts["wrong label"]}
    pairs = pairs_of(snapshot, asked_ids, found)
    drafts["conflict"], drafts["near-duplicate"] = _duplicates(snapshot, pairs, doubted)
    drafts["small class"] = _small_classes(snapshot)
    findings = [finding for kind, each in drafts.items() for finding in _told(kind, each, limit, items_of)]
    counts = {kind: len(each) for kind, each in drafts.items()}
    return Diagnosis(snapshot.version, findings, counts, _note(snapshot, examined, len(asked_ids), len(ids)))


def _told(kind: FindingKind, drafts: list[_Draft], limit: int, items_of: Items) -> Iterable[Finding]:
    for draft in sorted(drafts, key=lambda each: (each.doubt, each.ids))[:limit]:
        numbers = np.unique(np.array(draft.ids, dtype=np.int64))
        by_number = dict(zip(numbers.tolist(), items_of(numbers), strict=True))
        items = [by_number[number] for number in draft.ids]
        reason, mend, labels = draft.tell(items)
        yield Finding(kind, draft.certainty, reason, items, mend, labels)


# Items.


def _wrong_labels(
    snapshot: Snapshot,
    examined: Examined,
    asked: Array,
    found: list[Neighbours],
    log_r: Array,
    votes: Array,
) -> list[_Draft]:
    """Items for which their neighbours and their margins both name the same other class than their labels.

    Margins name the likeliest class, and where items have several labels each that is likelier than not;
    neighbours the class that most of the nearest have. Where they do not agree nothing is suggested.
    """
    has, proba, rows = examined.has[asked], examined.proba[asked], np.arange(len(asked))
    log_given = examined.labels(asked).log_sums_of(log_r)
    best = log_r.argmax(axis=1)
    contradicted = (np.exp(log_given) < WRONG_BELOW) & ~has[rows, best]
    named = np.minimum(proba.max(axis=1), 0.5 if (has.sum(axis=1) > 1).any() else 1.0)
    contradicted &= (proba[rows, best] >= named) & ~has[rows, votes.argmax(axis=1)]

    def name(column: int) -> str | int:
        return snapshot.classes.labels[examined.classes[column]]

    drafts = []
    for k in np.flatnonzero(contradicted).tolist():
        nearest = found[k].labelled.labels.first(unseen.NEAREST)
        n_of = np.bincount(nearest.flat, minlength=has.shape[1])
        if n_of[best[k]] < n_of.max():
            continue
        n_own = int(np.sum(nearest.has_any(np.flatnonzero(has[k]))))
        counts = int(n_of[best[k]]), n_own, len(nearest.counts)
        told = _tell_wrong_label(name(int(best[k])), counts, float(np.exp(log_r[k, best[k]])))
        doubt = float(log_given[k])  # orders them where 1 − r is 1 for all
        drafts.append(_Draft(doubt, -float(np.expm1(doubt)), [int(examined.ids[asked[k]])], told))
    return drafts


def _tell_wrong_label(other: str | int, counts: tuple[int, int, int], probability: float) -> Tell:
    def tell(items: list[Item]) -> tuple[str, tuple[str, ...], LabelSet]:
        own, (n_other, n_own, n) = label_words(items[0].labels), counts
        reason = (
            f"labelled {own}, looks like {other}: of its {n} nearest labelled items {n_other} are labelled "
            f"{other}, {n_own or 'none'} {own}; by these and by hash functions that never saw it, its "
            f"probability of {other} is {probability:.2f}"
        )
        return reason, relabel_command(items[0], (other,)), (other,)

    return tell


def _duplicates(snapshot: Snapshot, pairs: Pairs, doubted: set[int]) -> tuple[list[_Draft], list[_Draft]]:
    """Pairs with the same vector and different labels, and all others.

    The later one is to change, unless only the label of the earlier one is ``doubted``.
    """
    conflicts: list[_Draft] = []
    near: list[_Draft] = []
    for (earlier, later), cosine in pairs.items():
        labels = snapshot.labels(np.array([earlier, later]))
        differ = () not in labels and labels[0] != labels[1]
        same = cosine >= SAME
        order = [later, earlier]
        if differ and earlier in doubted and later not in doubted:
            order.reverse()
        draft = _Draft(-cosine, min(1.0, cosine), order, _tell_pair(same, differ, cosine))
        (conflicts if same and differ else near).append(draft)
    return conflicts, near


def _tell_pair(same: bool, differ: bool, cosine: float) -> Tell:
    def tell(items: list[Item]) -> tuple[str, tuple[str, ...], LabelSet]:
        changes, stays = items
        if same:
            alike = "the same content" if changes.sha256 == stays.sha256 else "the same vector"
        else:
            alike = f"almost the same vector (cosine {cosine:.4f})"
        reason = f"items {stays.id} and {changes.id} have {alike}"
        if differ:
            reason += f" and different labels, {_quoted(stays)} and {_quoted(changes)}"
            return reason, relabel_command(changes, stays.labels), stays.labels
        return reason, ("remove", f"--id={changes.id}"), ()

    return tell


def _quoted(item: Item) -> str:
    words = label_words(item.labels)
    return words if len(item.labels) == 1 else f"({words})"


# Classes.


def _confused_classes(snapshot: Snapshot, examined: Examined) -> list[_Draft]:
    """Pairs of classes between which hash functions that did not see an item hardly choose.

    The share of wrong choices must be above `UNTOLD` by two standard errors.
    """
    n = len(examined.classes)
    wrong = np.empty((n, n), dtype=np.float32)
    n_apart = np.empty((n, n), dtype=np.intp)  # items of the one class that are not of the other, too
    for k in range(n):
        rows = examined.has[:, k]
        P, apart = examined.proba[rows], ~examined.has[rows]
        n_apart[k] = np.maximum(apart.sum(axis=0), 1)
        wrong[k] = ((P[:, [k]] < P) & apart).sum(axis=0) / n_apart[k]
    share, sizes = (wrong + wrong.T) / 2, examined.has.sum(axis=0)
    doubt = np.sqrt(1 / n_apart + 1 / n_apart.T) / 4
    drafts = []
    for a, b in np.argwhere(np.triu(share - 2 * doubt >= UNTOLD, 1)).tolist():
        small, large = sorted((a, b), key=lambda k: int(sizes[k]))
        names = [snapshot.classes.labels[examined.classes[k]] for k in (small, large)]
        wrongly = float(share[a, b])
        told = _tell_confused(names[0], names[1], wrongly)
        examples = _mistaken(examined, small, large)
        drafts.append(_Draft(-wrongly, min(1.0, 2 * wrongly), examples, told))
    return drafts


def _mistaken(examined: Examined, a: int, b: int) -> list[int]:
    """Some items of each of two classes, those that look most like the other."""
    out: list[int] = []
    for own, other in ((a, b), (b, a)):
        rows = np.flatnonzero(examined.has[:, own] & ~examined.has[:, other])
        gap = examined.proba[rows, other] - examined.proba[rows, own]
        out += examined.ids[rows[np.argsort(-gap, kind="stable")[: EXAMPLES // 2]]].tolist()
    return out


def _tell_confused(small: Label, large: Label, share: float) -> Tell:
    def tell(items: list[Item]) -> tuple[str, tuple[str, ...], LabelSet]:
        reason = (
            f"{small} and {large} cannot be told apart: hash functions that never saw an item take one "
            f"for the other in {100 * share:.0f} % of the cases (guessing: 50 %); join them if they mean one"
        )
        return reason, merge_command(small, large), ()

    return tell


def _small_classes(snapshot: Snapshot) -> list[_Draft]:
    flat, counts = snapshot.classes.apart(snapshot.places.live_classes())
    items = np.repeat(snapshot.places.live_ids(), counts)
    members: dict[int, list[int]] = defaultdict(list)
    small = np.flatnonzero(np.bincount(flat, minlength=1) < unseen.SMALLEST_CLASS)
    rows = np.isin(flat, small)
    for number, own in zip(items[rows].tolist(), flat[rows].tolist(), strict=True):
        members[own].append(number)
    return [
        _Draft(
            len(own),
            1 - len(own) / unseen.SMALLEST_CLASS,
            own[:EXAMPLES],
            _tell_small(snapshot.classes.labels[place], len(own)),
        )
        for place, own in members.items()
    ]


def _tell_small(label: Label, n: int) -> Tell:
    def tell(items: list[Item]) -> tuple[str, tuple[str, ...], LabelSet]:
        reason = (
            f"{label} has {n} {'item' if n == 1 else 'items'}, too few to learn it from; add more "
            f"({unseen.SMALLEST_CLASS} at least), give them another label, or remove the class"
        )
        return reason, ("remove", f"--class={label}"), ()

    return tell


def _note(snapshot: Snapshot, examined: Examined | None, n_asked: int, n_items: int) -> str:
    """What was examined, and how far to trust it."""
    if examined is None:
        return (
            f"No label was judged: that takes two classes of {unseen.SMALLEST_CLASS} items each. "
            f"Neighbours of {n_asked:,} of {n_items:,} items were compared."
        )
    n_labelled = int((snapshot.places.live_classes() >= 0).sum())
    rows = np.arange(len(examined.ids))
    right = float(examined.has[rows, examined.proba.argmax(axis=1)].mean())
    return (
        f"{len(examined.ids):,} of {n_labelled:,} labels were judged by hash functions that "
        f"had not seen the items; they agree with {100 * right:.0f} % of the labels. Neighbours were "
        f"compared for {n_asked:,} of {n_items:,} items, exact duplicates in the whole collection."
        + ("" if right >= 0.8 else " Where so few agree, many findings are hard cases, not mistakes.")
    )
