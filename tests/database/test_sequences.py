"""Random sequences of operations, against a dictionary that does the same."""

from __future__ import annotations

import hashlib

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


class Sequences(RuleBasedStateMachine):
    """``items`` maps id to (label, content); ``history`` holds what undoing needs."""

    template = None  # set by the test

    @initialize()
    def start(self):
        self.folder = small.fast_folder()
        self.root = small.copy(self.template, self.folder.__enter__() / "db")
        self.db, self.reader = ImageDatabase(self.root), ImageDatabase(self.root)
        self.items = {i.id: (i.label, i.sha256) for i in self.db.items(limit=1000)}
        self.next_id, self.version, self.versions, self.history = len(self.items), 1, 1, []
        self.learned = set(self.items)

    def teardown(self):
        if hasattr(self, "folder"):
            self.db.close()
            self.reader.close()
            self.folder.__exit__(None, None, None)

    def remember(self):
        self.history.append((dict(self.items), self.version, set(self.learned)))

    @rule(numbers=st.lists(st.integers(0, len(POOL) - 1), min_size=1, max_size=5), labelled=st.booleans())
    def add(self, numbers, labelled):
        labels = [int(POOL_LABELS[k]) if labelled else None for k in numbers]
        report = self.db.add(POOL[numbers], labels)
        contents, new = {content for _, content in self.items.values()}, {}
        for k, label in zip(numbers, labels, strict=True):
            content = hashlib.sha256(POOL[k].tobytes()).hexdigest()
            if content not in contents:
                new[self.next_id + len(new)] = (label, content)
                contents.add(content)
        assert report.added == list(new)
        assert len(report.skipped) == len(numbers) - len(new)
        if new:
            self.remember()
            self.items.update(new)
            self.next_id += len(new)

    @precondition(lambda self: len(self.items) > 5)
    @rule(data=st.data())
    def remove(self, data):
        gone = data.draw(st.sets(st.sampled_from(sorted(self.items)), min_size=1, max_size=4))
        self.db.remove(gone)
        self.remember()
        for number in gone:
            del self.items[number]

    @rule(label=st.integers(0, 5))
    def remove_class(self, label):
        gone = {number for number, (own, _) in self.items.items() if own == label}
        try:
            assert set(self.db.remove_classes([label]).removed) == gone
        except NoSuchItem:
            assert not gone
        if gone:
            self.remember()
            self.items = {number: own for number, own in self.items.items() if number not in gone}

    @rule(number=st.integers(-2, 200))
    def remove_what_is_not_there(self, number):
        if number not in self.items:
            with pytest.raises(NoSuchItem):
                self.db.remove([*list(self.items)[:1], number])

    @rule(strategy=st.sampled_from(["incremental", "incremental", "incremental", "scratch"]))
    def update(self, strategy):
        labelled = {number for number, (label, _) in self.items.items() if label is not None}
        classes = {self.items[number][0] for number in labelled}
        nothing_new = strategy == "incremental" and labelled == self.learned
        if not nothing_new and (
            len(classes) < 2 or (strategy == "incremental" and not labelled & self.learned)
        ):
            with pytest.raises(DatabaseError):
                self.db.update(strategy)
            return
        report = self.db.update(strategy)
        assert report.changed != nothing_new
        if report.changed:
            self.remember()
            self.versions += 1
            self.version, self.learned = self.versions, labelled

    @rule()
    def undo(self):
        if self.history:
            self.db.undo()
            self.items, self.version, self.learned = self.history.pop()
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

    @invariant()
    def looks_like_the_dictionary(self):
        if not hasattr(self, "db"):
            return
        for db in (self.db, self.reader):
            found = db.items(limit=1000)
            assert {i.id: (i.label, i.sha256) for i in found} == self.items
            assert db.version == self.version
            answer = db.search(small.QUERIES[:1], k=len(found) + 1, rank="hamming")[0]
            assert sorted(hit.id for hit in answer.hits) == sorted(self.items)
            codes = {i.id: i.code for i in found}
            assert all(codes[hit.id] == hit.code for hit in answer.hits)
        hasher, X = self.db._read(lambda s: (s.hasher, s.vectors(s.places.live_ids())))
        if len(X):
            assert [i.code for i in found] == [c.tobytes() for c in hasher.transform(X)]


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
