"""Raw records: what is written stays, what was torn is done again, and a key names a run for good."""

from __future__ import annotations

import json

import pytest

from sihash.research.records import Records, made_by, record_id
from sihash.research.runner import Run, Runner
from sihash.research.scales import SMOKE


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "records.jsonl"


def test_written_records_are_read_again(path):
    first = Records(path)
    first.add({"kind": "fit", "seed": 0}, {"mAP": 0.5}, 1.0)
    first.add({"kind": "fit", "seed": 1}, {"mAP": 0.7}, 1.0)
    again = Records(path)
    assert {"kind": "fit", "seed": 1} in again
    assert again[{"seed": 1, "kind": "fit"}]["result"] == {"mAP": 0.7}, "the order of a key does not matter"
    assert [r["result"]["mAP"] for r in again.where(kind="fit")] == [0.5, 0.7]
    assert again.where(kind="fit", seed=2) == []


def test_a_record_says_where_it_comes_from(path):
    record = Records(path).add({"kind": "fit"}, {}, 2.0)
    assert record["id"] == record_id({"kind": "fit"})
    assert record["machine"]["cores"] >= 1
    assert record["versions"]["numpy"]
    assert len(record["versions"]["source"]) == 12
    assert record["versions"]["commit"]
    assert made_by([record, record]).startswith("2 runs on ")
    assert f"commit {record['versions']['commit']}" in made_by([record])


@pytest.mark.parametrize("torn", ['{"id": "a", "key"', "[]", "{}", "\x00\x01"])
def test_a_torn_line_is_passed_over_and_does_not_spoil_the_next(path, torn):
    Records(path).add({"n": 1}, {}, 0.0)
    with open(path, "a") as file:
        file.write(torn)
    Records(path).add({"n": 2}, {}, 0.0)
    again = Records(path)
    assert len(again) == 2
    assert {"n": 1} in again
    assert {"n": 2} in again


def test_records_are_plain_json_lines(path):
    Records(path).add({"n": 1}, {"text": "γ"}, 0.0)
    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["result"] == {"text": "γ"}


class TestRunner:
    def run(self, calls, n):
        return Run({"n": n}, lambda runner: calls.append(n) or {"n": n})

    def test_each_run_is_done_once(self, path):
        calls, told = [], []
        runs = [self.run(calls, n) for n in (1, 2, 1)]
        Runner(SMOKE, Records(path)).execute(runs, told.append)
        Runner(SMOKE, Records(path)).execute(runs)
        assert calls == [1, 2]
        assert [(t.done, t.total) for t in told] == [(1, 2), (2, 2)]

    def test_what_failed_is_done_again_if_asked_for(self, path):
        results = iter([{"failed": "no luck"}, {"n": 1}])
        runs = [Run({"n": 1}, lambda runner: next(results))]
        Runner(SMOKE, Records(path)).execute(runs)
        Runner(SMOKE, Records(path)).execute(runs)
        assert Records(path)[{"n": 1}]["result"] == {"failed": "no luck"}
        Runner(SMOKE, Records(path)).execute(runs, retry=True)
        assert Records(path)[{"n": 1}]["result"] == {"n": 1}

    def test_an_interrupted_reproduction_goes_on(self, path):
        calls = []

        def interrupt(runner):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Runner(SMOKE, Records(path)).execute(
                [self.run(calls, 1), Run({"n": 2}, interrupt), self.run(calls, 3)]
            )
        Runner(SMOKE, Records(path)).execute([self.run(calls, n) for n in (1, 2, 3)])
        assert calls == [1, 2, 3]

    def test_only_the_last_of_a_kind_is_kept_in_memory(self, path):
        runner, made = Runner(SMOKE, Records(path)), []
        for which in ("a", "a", "b", "a"):
            runner.keep(("kind", which), lambda which=which: made.append(which))
        assert made == ["a", "b", "a"]
