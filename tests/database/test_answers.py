"""Answers as JSON: what the service sends is what the client reads, and a search needs none of it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from pydantic import TypeAdapter

from sihash.database import answers
from sihash.database.inspection.findings import Diagnosis, Finding

WHY = answers.Why(0.5, -0.25, 0.125)
HIT = answers.Hit("a/1", ("cat", "wet"), "1.png", 3, 0.5, b"\x01\xff", WHY, {"price": 9.5, "new": True})
ITEM = answers.Item(7, (3,), "7", 1, "ab", b"\x00", {}, path="/secret/7.png")
REPORT = answers.AddReport(
    2, ["a", 7], [], [], conflicts=[answers.LabelConflict("x", ("a",), ("b",))],
    joined=[answers.JoinedLabels("y", ("a", 3))],
)  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        answers.Answer(1, "combined", b"\x80", [HIT], "looks like nothing"),
        answers.Classification(1, "a", 0.75, {"b": 0.25, "a": 0.75}, ("a",)),
        answers.Classification(1, 3, 0.75, {3: 0.75, "3": 0.25}),
        answers.Version(2, "relearn", "2026-01-01", 10, True, False, {"learning": 1.5}, {"passive": None}),
        answers.RelabelReport(1, [1, "b"], ()),
        REPORT,
    ],
    ids=lambda answer: type(answer).__name__,
)  # fmt: skip
def test_an_answer_survives_json(answer):
    kind = TypeAdapter(type(answer))
    again = kind.validate_json(kind.dump_json(answer))
    assert again == answer
    assert type(again) is type(answer)


def test_arrays_survive_json():
    bits = answers.Bits(1, np.array([0.5, 0.25]), ["a", 3, None], np.arange(6.0).reshape(3, 2))
    kind = TypeAdapter(answers.Bits)
    again = kind.validate_json(kind.dump_json(bits))
    assert again.classes == bits.classes
    np.testing.assert_array_equal(again.balance, bits.balance)
    np.testing.assert_array_equal(again.margins, bits.margins)


def test_properties_are_sent_and_paths_are_not():
    finding = Finding("conflict", 1.0, "twice", [ITEM], ("remove", "--id=7"), ("cat",))
    sent = TypeAdapter(Diagnosis).dump_python(Diagnosis(1, [finding], {"conflict": 1}, ""), mode="json")
    [one] = sent["findings"]
    assert (one["label"], one["title"]) == ("cat", finding.title)
    expected = {**dataclasses.asdict(ITEM), "labels": [3], "label": 3, "code": "00"}
    del expected["path"]
    assert one["items"] == [expected]


def test_a_search_does_without_pydantic(tmp_path):
    code = f"""
import sys
import numpy as np
from sihash import Database
X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
with Database.create({str(tmp_path / "db")!r}, X, np.arange(40) % 2, n_bits=8, n_anchors=8) as db:
    assert db.search(X[:1], k=3)[0].hits
print(sorted(name for name in ("pydantic", "pydantic_core", "fastapi", "jinja2") if name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
