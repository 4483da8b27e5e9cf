"""Verdicts: what was not measured is never confirmed."""

from __future__ import annotations

import pytest

from sihash.research import changes
from sihash.research.claims import ClaimResult, claims_table
from sihash.research.methods import METHODS, PAPER
from sihash.research.records import Records
from sihash.research.scales import SMOKE


@pytest.mark.parametrize(
    ("held", "n_open", "verdict"),
    [
        ([], 0, "not measured"),
        ([True, True], 0, "confirmed"),
        ([True, True], 1, "confirmed in part"),
        ([True, False], 0, "confirmed in part"),
        ([False, False], 3, "not confirmed"),
    ],
)
def test_verdicts(held, n_open, verdict):
    assert ClaimResult(held, "", [], n_open).verdict == verdict


# Two made worlds: one in which the paper is right in everything, one in which it is wrong in everything.

MAP = {"sih_constants": 0.5, "sih_gamma0": 0.48, "sih_random": 0.46, "sih_random_gamma0": 0.44, "sdh": 0.4}
SIZES = {(300, 30): 0.30, (300, 100): 0.36, (300, 200): 0.4, (None, 30): 0.33}


def world(path, right):
    sign = 1 if right else -1
    records = Records(path / f"{right}.jsonl")

    def fit(data, method, mAP, n_bits=SMOKE.bits, n_train=None, n_anchors=SMOKE.n_anchors):
        key = {"kind": "fit", "scale": "smoke", "data": data, "method": method, "seed": 0}
        key |= {"n_bits": n_bits, "n_train": n_train}
        key |= {"n_anchors": n_anchors if METHODS[method].has_anchors else None}
        result = {"mAP": 0.5 + sign * mAP, "test_microseconds": 1000 + sign * n_anchors}
        cpu = 10 if method == "sih_constants" and not right else 1
        records.add(key, {**result, "seconds": {"fit": {"cpu": cpu}}}, 1)

    for data in ("cifar10", "mnist", "nuswide"):
        for n_bits in SMOKE.code_lengths:
            for method in PAPER:
                fit(data, method, MAP.get(method, 0.3), n_bits)
    for (n_train, n_anchors), mAP in SIZES.items():
        fit("cifar10", "sih_constants", mAP, n_train=n_train, n_anchors=n_anchors)
    for data in ("cifar10", "mnist"):
        for kind in changes.KINDS:
            for point in {*changes.points(kind, SMOKE), 0.1}:
                key = {
                    "kind": "change",
                    "scale": "smoke",
                    "data": data,
                    "method": "sih_constants",
                    "change": kind,
                    "point": point,
                }
                cpu = {"passive": 1, "incremental": 1, "scratch": 2 + sign * 1}
                mAP = {"passive": 0.1, "incremental": 0.5, "scratch": 0.5 if right else 0.6}
                records.add(key, {s: {"mAP": mAP[s], "seconds": {"cpu": cpu[s]}} for s in cpu}, 1)
    stages = [{"name": n, "n_steps": 5, "n_steps_from_zero": 5 + sign} for n in ("first", "second")]
    records.add({"kind": "svm", "scale": "smoke"}, {"stages": stages}, 1)
    return records


@pytest.mark.parametrize(("right", "verdict"), [(True, "confirmed"), (False, "not confirmed")])
def test_every_claim_is_read_off_the_records(tmp_path, right, verdict):
    rows = claims_table(world(tmp_path, right), SMOKE).rows
    assert len(rows) > 20
    assert {row.cells[0]: row.cells[2] for row in rows} == {row.cells[0]: verdict for row in rows}
    assert all(row.records for row in rows)


def test_a_claim_about_short_codes_does_not_ask_for_long_ones(tmp_path):
    records = world(tmp_path, True)
    key = {"kind": "fit", "scale": "smoke", "data": "nuswide", "method": "sdh", "seed": 1}
    for n_bits, verdict in ((32, "confirmed"), (8, "confirmed in part")):
        more = {"n_bits": n_bits, "n_train": None, "n_anchors": SMOKE.n_anchors}
        records.add(key | more, {"mAP": 5.0}, 1)
        found = {row.cells[0]: row.cells[2] for row in claims_table(records, SMOKE).rows}
        assert found["SIH is first for short codes on NUS-WIDE"] == verdict


def test_nothing_measured_is_nothing_confirmed(tmp_path):
    rows = claims_table(Records(tmp_path / "none.jsonl"), SMOKE).rows
    assert {row.cells[2] for row in rows} == {"not measured"}
