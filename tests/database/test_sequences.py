"""Random sequences of operations, against a dictionary that does the same."""

from __future__ import annotations

import hashlib
import re

import pytest
import small
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sihash.database import DatabaseError, ImageDatabase, NoSuchItem, verify

POOL, POOL_LABELS = small.rows(40, seed=77, classes=5)
OWN_IDS = ["a", "b", "c/d", "\u00fc", 500, *range(55, 70)]


def content(k):
    return hashlib.sha256(POOL[k].tobytes()).hexdigest()


def seen(db):
    return {i.id: (i.label, i.sha256, i.columns) for i in db.items(limit=1000)}


class Sequences(RuleBasedStateMachine):
    """``items`` maps id to (label, content, columns, number); ``learned`` number to the label that it
    was learned as; ``history`` holds what undoing needs.

    Numbers are the database's own, never given twice; an item that comes without an id has its number as its
    id, past every number that was given as one.
    """

    template = None  # set by the test

    @initialize()
    def start(self):
        self.folder = small.fast_folder()
        self.root = small.copy(self.template, self.folder.__enter__() / "db")
        self.db, self.reader = ImageDatabase(self.root), ImageDatabase(self.root)
        self.items = {own: (*said, own) for own, said in seen(self.db).items()}
        self.next_number, self.largest = len(self.items), -1
        self.version, self.versions, self.history = 1, 1, []
        self.learned = self.labelled()
        self.first_new = self.next_number
        self.words, self.codes = 1, {}  # codes that an item may have, by the version that drew the words

    def teardown(self):
        if hasattr(self, "folder"):
            self.db.close()
            self.reader.close()
            self.folder.__exit__(None, None, None)

    def labelled(self):
        return {item[3]: item[0] for item in self.items.values() if item[0] is not None}

    def remember(self):
        self.history.append((dict(self.items), self.version, dict(self.learned), self.words, self.first_new))

    def give(self, label, chosen):
        """Another label for some items."""
        self.remember()
        self.items.update({own: (label, *self.items[own][1:]) for own in chosen})

    @rule(numbers=st.lists(st.integers(0, len(POOL) - 1), min_size=1, max_size=5), labelled=st.booleans())
    def add(self, numbers, labelled):
        labels = [int(POOL_LABELS[k]) if labelled else None for k in numbers]
        report = self.db.add(POOL[numbers], labels)
        contents, new = {item[1] for item in self.items.values()}, {}
        first = max(self.next_number, self.largest + 1)
        for k, label in zip(numbers, labels, strict=True):
            if content(k) not in contents:
                number = first + len(new)
                new[number] = (label, content(k), {}, number)
                contents.add(content(k))
        assert report.added == list(new)
        assert len(report.skipped) == len(numbers) - len(new)
        if new:
            self.remember()
            self.items.update(new)
            self.next_number = first + len(new)

    @rule(
        numbers=st.lists(st.integers(0, len(POOL) - 1), min_size=1, max_size=4),
        data=st.data(),
        replace=st.booleans(),
    )
    def add_with_ids(self, numbers, data, replace):
        """Items under ids of the user, with a column; some of them are there already."""
        own = st.sampled_from([*OWN_IDS, *self.items])
        ids = data.draw(st.lists(own, min_size=len(numbers), max_size=len(numbers), unique=True))
        prices = data.draw(st.lists(st.none() | st.integers(0, 9), min_size=len(ids), max_size=len(ids)))
        labels = [int(POOL_LABELS[k]) for k in numbers]
        said = [{} if price is None else {"price": price} for price in prices]
        new = dict(zip(ids, zip(labels, map(content, numbers), said, strict=True), strict=True))
        fresh = [i for i in ids if i not in self.items or self.items[i][:3] != new[i]]
        there = [i for i in fresh if i in self.items]

        def add():
            return self.db.add(POOL[numbers], labels, ids=ids, columns={"price": prices}, replace=replace)

        if there and not replace:
            with pytest.raises(DatabaseError, match=re.escape(f"The id {there[0]!r} is there already")):
                add()
            return
        report = add()
        assert (report.added, report.replaced) == (fresh, there)
        assert len(report.skipped) == len(ids) - len(fresh)
        if fresh:
            self.remember()
            for i in fresh:
                self.items[i] = (*new[i], self.next_number)
                self.next_number += 1
                self.largest = max(self.largest, i if isinstance(i, int) else -1)

    @precondition(lambda self: len(self.items) > 5)
    @rule(data=st.data())
    def remove(self, data):
        gone = data.draw(st.sets(st.sampled_from(list(self.items)), min_size=1, max_size=4))
        self.db.remove(gone)
        self.remember()
        for number in gone:
            del self.items[number]

    @rule(label=st.integers(0, 5))
    def remove_class(self, label):
        gone = {own for own, item in self.items.items() if item[0] == label}
        try:
            assert set(self.db.remove_classes([label]).removed) == gone
        except NoSuchItem:
            assert not gone
        if gone:
            self.remember()
            self.items = {number: own for number, own in self.items.items() if number not in gone}

    @precondition(lambda self: self.items)
    @rule(data=st.data(), label=st.sampled_from([None, 0, 1, 2, 3, 7]))
    def relabel(self, data, label):
        chosen = data.draw(st.sets(st.sampled_from(list(self.items)), min_size=1, max_size=4))
        changed = {own for own in chosen if self.items[own][0] != label}
        assert set(self.db.relabel(chosen, label).relabelled) == changed
        if changed:
            self.give(label, changed)

    @rule(old=st.integers(0, 5), label=st.sampled_from([None, 1, 8]))
    def relabel_class(self, old, label):
        of_class = {own for own, item in self.items.items() if item[0] == old}
        changed = set() if old == label else of_class
        try:
            assert set(self.db.relabel_classes([old], label).relabelled) == changed
        except NoSuchItem:
            assert not of_class
        if changed:
            self.give(label, changed)

    @rule(number=st.integers(-2, 200))
    def remove_what_is_not_there(self, number):
        if number not in self.items:
            with pytest.raises(NoSuchItem):
                self.db.remove([*list(self.items)[:1], number])

    @rule(
        strategy=st.sampled_from(["incremental", "incremental", "incremental", "relearn"]),
        reencode=st.booleans(),
    )
    def update(self, strategy, reencode):
        labelled = self.labelled()
        nothing_new = strategy == "incremental" and labelled == self.learned
        some_stay = bool(labelled.items() & self.learned.items())
        if not nothing_new and (
            len(set(labelled.values())) < 2 or (strategy == "incremental" and not some_stay)
        ):
            with pytest.raises(DatabaseError):
                self.db.update(strategy)
            return
        report = self.db.update(strategy, reencode=reencode)
        assert report.changed != nothing_new
        if report.changed:
            self.remember()
            self.versions += 1
            self.version, self.learned = self.versions, labelled
            self.words = self.version if strategy == "relearn" else self.words
            found = {i.id: i.code for i in self.db.items(limit=1000)}
            for own, code in self.hashes().items():
                number = self.items[own][3]
                if number >= self.first_new:  # the old functions had not seen it
                    assert found[own] == code
                self.codes.setdefault((self.words, number), set()).add(code)
            self.first_new = self.next_number
        if reencode:
            for own, code in self.hashes().items():
                self.codes.setdefault((self.words, self.items[own][3]), set()).add(code)
            assert {i.id: i.code for i in self.db.items(limit=1000)} == self.hashes()

    def hashes(self):
        """The codes that the hash functions in force give to the items."""
        hasher, X = self.db._read(lambda s: (s.hasher, s.vectors(s.places.live_ids())))
        codes = [code.tobytes() for code in hasher.transform(X)] if len(X) else []
        return dict(zip((i.id for i in self.db.items(limit=1000)), codes, strict=True))

    @rule()
    def undo(self):
        if self.history:
            self.db.undo()
            self.items, self.version, self.learned, self.words, self.first_new = self.history.pop()
        else:
            with pytest.raises(DatabaseError):
                self.db.undo()

    @rule()
    def compact(self):
        self.db.compact()
        self.history.clear()

    @rule()
    def open_again(self):
        self.db.close()
        self.db = ImageDatabase(self.root)

    @rule()
    def check_files(self):
        assert verify(self.root) == []

    @rule()
    def count_what_waits(self):
        changed = self.labelled().items() ^ self.learned.items()
        assert self.db.info()["n_waiting"] == len({number for number, _ in changed})

    @invariant()
    def looks_like_the_dictionary(self):
        if not hasattr(self, "db"):
            return
        for db in (self.db, self.reader):
            found = db.items(limit=1000)
            assert seen(db) == {own: item[:3] for own, item in self.items.items()}
            assert db.version == self.version
            answer = db.search(small.QUERIES[:1], k=len(found) + 1, rank="hamming")[0]
            assert {hit.id: hit.label for hit in answer.hits} == {o: i[0] for o, i in self.items.items()}
            cheap = db.search(small.QUERIES[:1], k=len(found) + 1, rank="hamming", where="price <= 4")[0]
            expected = {own for own, item in self.items.items() if item[2].get("price", 5) <= 4}
            assert {hit.id for hit in cheap.hits} == expected
            codes = {i.id: i.code for i in found}
            assert all(codes[hit.id] == hit.code for hit in answer.hits)
        # An item has the code that it got when it came, or when it was encoded again.
        hashes = self.hashes()
        for item in found:
            key = (self.words, self.items[item.id][3])
            assert item.code in self.codes.setdefault(key, {hashes[item.id]})


@pytest.mark.timeout(6 * 3600)
def test_sequences(template):
    Sequences.template = template
    run_state_machine_as_test(
        Sequences,
        settings=settings(
            max_examples=10_000 if small.SOAK else 200,
            stateful_step_count=8,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
