"""Mean average precision of a ranking by real scores: the convention of the radii, each score a radius."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from sihash import labels as labels_module
from sihash._typing import Array
from sihash.threads import map_threads

BLOCK_QUERIES = 256


def leave_one_out_by_score(scores: Callable[[slice], Array], labels: Any) -> float:
    """mAP when each item is once the query and the others are ranked by falling score.

    ``scores(queries)`` gives the scores of all n items for a slice of queries (len × n). Items of equal score
    count together, as those at one Hamming distance do in `leave_one_out`; with minus the distance as the
    score both give the same mAP. A query without a relevant item is left out.

    >>> import numpy as np
    >>> products = np.eye(3) + np.eye(3)[[1, 0, 2]]
    >>> leave_one_out_by_score(lambda rows: products[rows], ["a", "a", "b"])
    1.0
    """
    _, numbers = labels_module.encode(labels)

    def total(start: int) -> tuple[float, int]:
        rows = slice(start, min(start + BLOCK_QUERIES, len(numbers)))
        block = np.ascontiguousarray(scores(rows))
        return _total(block, np.argsort(-block, axis=1), numbers, start)

    parts = map_threads(total, range(0, len(numbers), BLOCK_QUERIES))
    n_asked = sum(asked for _, asked in parts)
    return sum(part for part, _ in parts) / n_asked if n_asked else float("nan")


@numba.njit(nogil=True, cache=True)
def _total(scores, order, numbers, first):  # type: ignore[no-untyped-def]
    """Sum of the average precisions of a block of queries, and how many have anything relevant."""
    n_queries, n = scores.shape
    total, asked = 0.0, 0
    for q in range(n_queries):
        itself = first + q
        seen, found, before, gained = 0, 0, 0, 0.0
        for place in range(n):
            item = order[q, place]
            if item != itself:
                seen += 1
                found += numbers[item] == numbers[itself]
            last = place + 1 == n or scores[q, order[q, place + 1]] != scores[q, item]
            if last and found > before:  # the end of a group of ties
                gained += found / seen * (found - before)
                before = found
        if found:
            total += gained / found
            asked += 1
    return total, asked
