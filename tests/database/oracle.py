"""What a database must hold and answer, by plain dictionaries and loops: the oracle of `simulator`."""

from __future__ import annotations

import hashlib
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import small

from sihash.codes import unpack

# The numbers of docs/search.md, written out: a wrong one in the source must be noticed.
FLOOR, VOTERS, SAME = 0.001, 5, 1 - 1e-9
POOL, POOL_LABELS = small.rows(60, seed=77, classes=5)  # all vectors that there are
NEAR = 1e-6  # scores that differ by less may come in either order, unless the vectors are the same


def mixed(number: int) -> int:
    """splitmix64: what puts items that tie in order."""
    x = (number + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def content(row: int) -> str:
    return hashlib.sha256(POOL[row].tobytes()).hexdigest()


@dataclass(frozen=True)
class Thing:
    """An item: its number for life, its vector (a row of `POOL`), what is known of it; labels in order."""

    number: int
    row: int
    labels: tuple
    columns: dict = field(default_factory=dict)

    @property
    def said(self) -> tuple:
        return self.labels, content(self.row), self.columns


@dataclass
class State:
    """What is there at one moment: things by id, and codes by number.

    ``learned`` has the labels by number that the version in force was learned from, ``words`` the version at
    which its words were drawn, ``first_new`` the first number that it had not seen.
    """

    things: dict
    version: int
    learned: dict
    words: int
    first_new: int
    codes: dict

    def copy(self) -> State:
        own = copy(self)
        own.things, own.learned, own.codes = dict(self.things), dict(self.learned), dict(self.codes)
        return own

    def labelled(self) -> dict:
        return {thing.number: thing.labels for thing in self.things.values() if thing.labels}

    def id_of(self) -> dict:
        return {thing.number: own for own, thing in self.things.items()}


class Oracle:
    """A state, those that undoing leads to, and numbers that are given once."""

    def __init__(self, rows, labels, undoable: int) -> None:
        things = {k: Thing(k, row, own) for k, (row, own) in enumerate(zip(rows, labels, strict=True))}
        n = len(things)
        self.now = State(things, 1, {}, 1, n, {})
        self.now.learned = self.now.labelled()
        self.next_number, self.largest = n, -1  # the largest number that a user has given as an id
        self.versions, self.operation, self.undoable = 1, 1, undoable
        self.history: list[tuple[str, State, int]] = []  # kind, the state before, how often encoded again
        self.n_again = 0
        self.hashers: dict[int, Any] = {}
        self.weights: dict[int, Any] = {}
        learned = [row for row, own in zip(rows, labels, strict=True) if own]
        self.mean = POOL[learned].astype(np.float64).mean(axis=0)

    # Changes. Each says what the operation does, once it is committed.

    def _remember(self, kind: str) -> None:
        self.operation += 1
        self.history.append((kind, self.now.copy(), self.n_again))
        updates = [k for k, (each, _, _) in enumerate(self.history) if each == "update"]
        if len(updates) > self.undoable:
            del self.history[: updates[-self.undoable]]

    def fresh(self, ids, rows, labels, columns) -> dict:
        """What of an addition is new: without ids everything."""
        if ids is None:
            ids = [self.next_id + k for k in range(len(rows))]
        new = dict(zip(ids, zip(rows, labels, columns, strict=True), strict=True))
        known = {own: (thing.row, thing.labels, thing.columns) for own, thing in self.now.things.items()}
        return {own: each for own, each in new.items() if known.get(own) != each}

    @property
    def next_id(self) -> int:
        return max(self.next_number, self.largest + 1)

    def add(self, new: dict, own_ids: bool) -> None:
        self._remember("add")
        number = self.next_number if own_ids else self.next_id
        for own, (row, labels, columns) in new.items():
            self.now.things.pop(own, None)
            self.now.things[own] = Thing(number, row, labels, columns)
            self.now.codes[number] = self.hash([row])[0]
            number += 1
            if own_ids and isinstance(own, int):
                self.largest = max(self.largest, own)
        self.next_number = number

    def remove(self, ids, left=()) -> None:
        """``left`` are the labels of items that lose some and stay."""
        self._remember("remove")
        for own in ids:
            del self.now.things[own]
        self._label(dict(left))

    def relabel(self, labels) -> None:
        """``labels`` by id."""
        self._remember("relabel")
        self._label(labels)

    def _label(self, labels) -> None:
        for own, now in labels.items():
            self.now.things[own] = replace(self.now.things[own], labels=now)

    def update(self, strategy, learned, first_new, hasher, weights, codes) -> None:
        """``learned`` and ``first_new`` are of the moment at which it began, ``codes`` what was found."""
        self._remember("update")
        self.versions += 1
        now, before = self.now, self.now.codes
        was_new, now.version, now.learned, now.first_new = now.first_new, self.versions, learned, first_new
        now.words = now.version if strategy == "relearn" else now.words
        self.hashers[now.version], self.weights[now.version] = hasher, weights
        for own, fresh in self.hashes().items():
            number = now.things[own].number
            came_meanwhile = number >= first_new and strategy != "relearn"
            must = strategy == "relearn" or (number >= was_new and not came_meanwhile)
            allowed = {fresh} if must else {before[number], fresh}
            assert codes[own] in allowed, f"the code of {own!r} is of neither version"
            now.codes[number] = codes[own]

    def encode_again(self, codes, n: int, is_last: bool) -> None:
        """``n`` commits of it; after the last one all codes are of the version in force."""
        self.operation += n
        self.n_again += n
        fresh = self.hashes()
        for own, thing in self.now.things.items():
            known = self.now.codes[thing.number]
            assert codes[own] in ({fresh[own]} if is_last else {known, fresh[own]})
            self.now.codes[thing.number] = codes[own]

    def undo(self, codes) -> None:
        kind, before, n_again = self.history.pop()
        self.operation += 1
        if kind != "update":
            for thing in before.things.values():
                number = thing.number
                if number in self.now.id_of():
                    before.codes[number] = self.now.codes[number]
                elif self.n_again != n_again:  # it may have been encoded again among others
                    own = before.id_of()[number]
                    assert codes[own] in {before.codes[number], self.hash([thing.row])[0]}
                    before.codes[number] = codes[own]
        self.now = before

    def compact(self) -> None:
        self.operation += 1
        self.history.clear()

    # Codes.

    def hash(self, rows) -> list[bytes]:
        hasher = self.hashers[self.now.version]
        return [code.tobytes() for code in hasher.transform(POOL[list(rows)])] if len(rows) else []

    def hashes(self) -> dict:
        """The codes that the hash functions in force give to all things."""
        things = self.now.things
        return dict(zip(things, self.hash([thing.row for thing in things.values()]), strict=True))

    # The order of hits.

    def check_hits(self, hits, query, rank, k, radius=None, own=None, meets=lambda thing: True) -> None:
        """The hits of a query are the best things that there are, in their order."""
        hasher, now = self.hashers[self.now.version], self.now
        margins = (hasher.kernel_(query[None]) @ hasher.bit_coef_.T)[0]
        signs = np.where(margins >= 0, 1, -1)
        bits = {
            each: unpack(np.frombuffer(now.codes[thing.number], np.uint8)[None], len(signs))[0]
            for each, thing in now.things.items()
        }
        distance = {each: int(np.sum(bits[each] != signs)) for each in now.things}
        asked = [
            each
            for each, thing in now.things.items()
            if each != own and meets(thing) and (radius is None or distance[each] <= radius)
        ]
        cosine = {each: self._cosine(query, POOL[now.things[each].row]) for each in asked}
        score = self._scores(rank, asked, query, margins, bits, distance, cosine)
        assert len(hits) == min(k or len(asked), len(asked))
        for hit in hits:
            thing = now.things[hit.id]
            assert (hit.labels, hit.columns) == (thing.labels, thing.columns)
            assert hit.label == (thing.labels[0] if len(thing.labels) == 1 else None)
            assert (hit.code, hit.distance) == (now.codes[thing.number], distance[hit.id])
            assert hit.score == np.float32(score[hit.id]) or abs(hit.score - score[hit.id]) < 1e-3 * max(
                1, abs(score[hit.id])
            )
            assert abs(hit.why.vector - cosine[hit.id]) < 1e-5
        found = [hit.id for hit in hits]
        assert len(set(found)) == len(found)
        left = set(asked) - set(found)
        for first, second in [
            *pairwise(found),
            *((f, o) for f in found[-1:] for o in left),
        ]:
            self._check_pair(first, second, score, cosine)

    def _check_pair(self, first, second, score, cosine) -> None:
        """``first`` may come before ``second``."""
        a, b = self.now.things[first], self.now.things[second]
        if a.row == b.row and score[first] == score[second]:
            assert mixed(a.number) < mixed(b.number), "ties go by a hash"
            return
        gap = score[first] - score[second] or cosine[first] - cosine[second]
        assert gap >= -NEAR, f"{first!r} came before {second!r}"

    def _cosine(self, x, z) -> float:
        x, z = x.astype(np.float64) - self.mean, z.astype(np.float64) - self.mean
        return float(x @ z / np.sqrt((x @ x) * (z @ z)))

    def _scores(self, rank, asked, query, margins, bits, distance, cosine) -> dict:
        if rank == "hamming":
            return {each: -distance[each] for each in asked}
        if rank == "vector":
            return cosine
        if not asked:
            return {}
        names, model = self._class_model()

        def proba(X, margins):
            Z = self.hashers[self.now.version].directions(X[None])
            return np.exp(model.log_proba(Z, margins[None].astype(np.float32)))[0]

        of_class = {}  # probabilities of the classes of each: certain by its labels, or by the class model
        for each in asked:
            thing = self.now.things[each]
            known = np.array([float(name in thing.labels) for name in names])
            of_class[each] = known if thing.labels else proba(POOL[thing.row], bits[each])
        weights = self.weights[self.now.version]
        v = self._votes(asked, of_class, cosine)
        p, n = proba(query, margins), len(self.hashers[self.now.version].classes_)
        log_r = weights.model * np.log(np.maximum(p[:n], 1e-30))  # r ∝ p^a (v + ε)^b
        log_r += weights.votes * np.log(v[:n] + FLOOR)
        r = np.exp(log_r - log_r.max())
        # Classes that came since keep what the model gives them.
        r = np.concatenate([r / r.sum() * (p[:n].sum() if len(p) > n else 1.0), p[n:]])
        log_same = {each: min(0.0, float(np.log(of_class[each] @ r + 1e-300))) for each in asked}
        far = {each: weights.vector * (1 - cosine[each]) for each in asked}
        return {e: 1.0 if cosine[e] >= SAME else log_same[e] + 1 - far[e] for e in asked}

    def _class_model(self):
        """Names of classes, and their model with the things that came since, or whose labels did."""
        hasher, things = self.hashers[self.now.version], self.now.things.values()
        learned = hasher.classes_.tolist()
        came = [
            thing
            for thing in things
            if thing.labels and (thing.number >= self.now.first_new or not set(thing.labels) <= set(learned))
        ]
        names = [
            *learned,
            *dict.fromkeys(name for thing in came for name in thing.labels if name not in learned),
        ]
        model = hasher.class_model()
        if came:
            Z = hasher.directions(POOL[[thing.row for thing in came]])
            sets = [[names.index(name) for name in thing.labels] for thing in came]
            model = model.with_rows(Z, np.arange(len(came)), sets)
        return names, model

    def _votes(self, asked, of_class, cosine):
        """v of the score's definition."""
        weights = self.weights[self.now.version]
        votes: dict[int, list[float]] = {}
        for each in asked:
            weight = np.exp(weights.sharpness * (cosine[each] - max(cosine.values())))
            best = max(of_class[each])  # which every label of its own has
            own = np.flatnonzero(of_class[each] == best)
            for k in own if self.now.things[each].labels else own[:1]:
                votes.setdefault(int(k), []).append(weight * best)
        v = np.zeros(len(of_class[asked[0]]))
        for k, given in votes.items():
            heard = sorted(given, reverse=True)[:VOTERS]
            v[k] = sum(heard) / len(heard)
        return v / v.sum()
