"""Every method by one protocol on any data: what `python -m sihash.research field` does.

Training rows are the database, test rows the queries. A method learns from the training rows, encodes them,
and answers by Hamming distance. Beside them stand `sihash search`, which puts in order what the codes of SIH
find, and the usual ways to search vectors (`sihash.evaluation.alternatives`). Every run is a process of its
own, so that it can be stopped when its time is over, and ends as a record, also when it failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.database import Database
from sihash.evaluation import against_database
from sihash.evaluation.alternatives import Alternative
from sihash.evaluation.comparison import median_milliseconds
from sihash.evaluation.ranked import ranked_scores
from sihash.ranking import Sketcher
from sihash.research.methods import FIELD, METHODS, SEARCH, Method, Setting
from sihash.research.records import Key, Records
from sihash.research.runner import Result, Run, Runner, RunProgress, timed
from sihash.research.scales import FULL
from sihash.research.task import Task, load_task

KIND = "field"
RECORDS = "records.jsonl"
WARM_ROWS = 300  # of a fit before the timed one: compiled loops are loaded outside the timer


@dataclass(frozen=True)
class FieldPlan:
    """What is to be run: data by name or path, methods, code lengths, seeds, and limits."""

    data: Sequence[str]
    methods: Sequence[str] = FIELD
    bits: Sequence[int] = (32,)
    n_seeds: int = 3
    n_rows: int | None = None  # training rows at most
    n_queries: int | None = 1000
    seconds: float = 600.0  # a run may take
    features: str | None = None  # of images

    def runs(self) -> list[Run]:
        """The runs, seed after seed, so that a stopped comparison has something of every method."""
        found = []
        for data in self.data:
            for seed in range(self.n_seeds):
                for method in self.methods:
                    drawn = METHODS[method].scorer is None
                    for n_bits in self.bits if drawn or method == "pq" else [None]:
                        if drawn or seed == 0:
                            found.append(self._run(data, method, n_bits, seed))
        return found

    def _run(self, data: str, method: str, n_bits: int | None, seed: int) -> Run:
        key = {"kind": KIND, "data": data, "features": self.features, "method": method, "n_bits": n_bits}
        key |= {"seed": seed, "n_rows": self.n_rows, "n_queries": self.n_queries}
        return Run(key, lambda _: _in_a_process(key, self.seconds))


def compare_methods(
    plan: FieldPlan, out: Path, *, retry: bool = False, tell: Callable[[RunProgress], None] | None = None
) -> Records:
    """Do the runs that have no record in ``out`` yet, with ``retry`` also those that failed."""
    records = Records(out / RECORDS)
    Runner(FULL, records).execute(plan.runs(), tell, retry=retry)
    return records


def _in_a_process(key: Key, limit: float) -> Result:
    """The result of a run, or why there is none."""
    command = [sys.executable, "-m", "sihash.research.field", json.dumps(key)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {limit:g} s"}
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return {"failed": said[-1] if said else f"it ended with exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def measure(key: Key) -> Result:
    """One method on one data set: what a record holds."""
    task = load_task(key["data"], key["n_rows"], key["n_queries"], features=key["features"], several=True)
    result = {
        "n_train": len(task.train),
        "n_queries": len(task.test),
        "n_columns": task.train.X.shape[1],
    }
    if key["method"] == SEARCH:
        return result | _database(task, key)
    method = METHODS[key["method"]]
    if task.train.y.ndim == 2 and not method.several:
        raise ValueError("it learns from one label per item, and these have several")
    if method.scorer is None:
        return result | _hashed(method, task, key)
    return result | _searched(method.scorer, task, key)


def _database(task: Task, key: Key) -> Result:
    """A database with its own ranking. ``fit`` is the whole of `create`: learning, encoding, writing."""
    X, y, asked = task.train.X, _label_lists(task.train.y), _label_lists(task.test.y)
    params = {"n_bits": key["n_bits"], "random_state": key["seed"]}
    with TemporaryDirectory() as folder:
        few = np.random.RandomState(0).permutation(len(X))[:WARM_ROWS]
        Database.create(Path(folder) / "few", X[few], [y[k] for k in few], **params).close()
        made, fit = timed(lambda: Database.create(Path(folder) / "all", X, y, **params))
        with made as database:
            found = database.evaluate(task.test.X, asked, max_queries=len(task.test))
            query = median_milliseconds(partial(database.search, k=10), task.test.X)
    return {
        "bytes": codes.n_bytes(key["n_bits"]) + Sketcher.made(X[0]).n_bytes,
        "p_at_1": found.p_at_1,
        "p_at_10": found.p_at_10,
        "mAP": found.mAP,
        "fit": fit,
        "encode_microseconds": None,
        "query_milliseconds": query,
    }


def _label_lists(y: Array) -> list[Any]:
    """Labels as a database takes them: indicators become lists."""
    return [np.flatnonzero(row).tolist() for row in y] if y.ndim == 2 else y.tolist()


def _hashed(method: Method, task: Task, key: Key) -> Result:
    train, test, n_bits = task.train, task.test, key["n_bits"]
    few = np.random.RandomState(0).permutation(len(train))[:WARM_ROWS]
    method.make(Setting(n_bits, 0)).fit(train.X[few], train.y[few]).transform(train.X[few])
    hasher = method.make(Setting(n_bits, key["seed"]))
    _, fit = timed(lambda: hasher.fit(train.X, train.y))
    stored, encode = timed(lambda: hasher.transform(train.X))
    scores = against_database(hasher.transform(test.X), test.y, stored, train.y, k=(1, 10))
    words = np.asfortranarray(codes.as_words(stored))

    def answer(query: Array) -> Array:
        distances = codes.hamming_of_words(codes.as_words(hasher.transform(query[None])), words)[0]
        return np.argpartition(distances, min(10, len(distances) - 1))[:10]

    return {
        "bytes": int(stored.shape[1]),
        "p_at_1": scores.precision_at[1],
        "p_at_10": scores.precision_at[10],
        "mAP": scores.mAP,
        "fit": fit,
        "encode_microseconds": 1e6 * encode["cpu"] / len(train),
        "query_milliseconds": median_milliseconds(answer, test.X),
    }


def _searched(scorer: Callable[[Array, Array, int], Alternative], task: Task, key: Key) -> Result:
    """An alternative on the vectors, their order shuffled: ties keep it, and it should mean nothing."""
    order = np.random.RandomState(0).permutation(len(task.train))
    train, test = task.train[order], task.test
    y, asked = train.y, test.y
    if y.ndim == 1:
        _classes, numbers = np.unique(np.concatenate([y, asked]), return_inverse=True)
        y, asked = numbers[: len(y)], numbers[len(y) :]
    made, fit = timed(lambda: scorer(train.X, y, codes.n_bytes(key["n_bits"] or 8)))
    scores = ranked_scores(made.scores, y, test.X, asked, np.full(len(test), -1))
    return {
        "bytes": int(made.bytes_per_item),
        "p_at_1": scores.p_at_1,
        "p_at_10": scores.p_at_10,
        "mAP": scores.map,
        "fit": fit,
        "encode_microseconds": None,
        "query_milliseconds": median_milliseconds(partial(made.first, k=10), test.X),
    }


def main() -> None:
    """What a process of a run does: the key comes as JSON, the result goes to the output."""
    key: dict[str, Any] = json.loads(sys.argv[1])
    try:
        result = measure(key)
    except Exception as error:  # whatever it is, the table tells it
        first = str(error).strip().splitlines()[:1]
        sys.exit(first[0] if first else type(error).__name__)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
