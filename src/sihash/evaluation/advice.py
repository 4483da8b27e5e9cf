"""One sentence from a comparison: what to use, by P@1 and P@10, also where that is not learned codes.

All ways answer the same queries, so they are compared query by query: `paired_interval` says how far luck
reaches. A way is better if it surely is (its interval lies above 0), and will do if it is surely not worse by
`TOLERANCE` or more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sihash._typing import Array
from sihash.evaluation.alternatives import AlternativeScore, Interval

ERROR_RATE = 0.05  # of all claims of a comparison together
TOLERANCE = 0.01  # of P@1 or P@10: so little may be lost by what is said to do as well


def paired_interval(differences: Array, n_claims: int) -> Interval:
    """An interval of the mean of differences (n_queries,) between −1 and 1, right for all of ``n_claims``.

    Student's, at a level divided by the number of claims (Bonferroni), after one query more each way
    (Agresti and Min, 2005): without it, queries that all agree would leave no doubt, however few they are.
    """
    from scipy import stats  # takes its time, and searches have no use for it

    padded = np.concatenate([differences, [1.0, -1.0]])
    interval = stats.ttest_1samp(padded, 0).confidence_interval(1 - ERROR_RATE / n_claims)
    return float(interval.low), float(interval.high)


def advice(rows: Sequence[AlternativeScore]) -> str:
    """What to use; the first of ``rows`` is the one that the others are set against."""
    first, *others = rows
    better = [row for row in others if _is_better(row) and not _is_worse(row)]
    mixed = [row for row in others if _is_better(row) and _is_worse(row)]
    as_good = [row for row in others if min(low for low, _ in _leads(row)) > -TOLERANCE]
    smaller = [row for row in as_good if row.bytes_per_item < first.bytes_per_item]
    if better:
        return _use_instead(first, max(better, key=_quality))
    if mixed:
        return _each_has_its_place(first, max(mixed, key=_quality))
    if smaller:
        return _smaller_will_do(first, min(smaller, key=lambda row: row.bytes_per_item))
    rival = max(others, key=_quality)
    return _use_this(first, rival, all(high < 0 for _, high in _leads(rival)))


def _leads(row: AlternativeScore) -> tuple[Interval, Interval]:
    assert row.lead_at_1 is not None
    assert row.lead_at_10 is not None
    return row.lead_at_1, row.lead_at_10


def _is_better(row: AlternativeScore) -> bool:
    return any(low > 0 for low, _ in _leads(row))


def _is_worse(row: AlternativeScore) -> bool:
    return any(high < 0 for _, high in _leads(row))


def _quality(row: AlternativeScore) -> float:
    return row.p_at_1 + row.p_at_10


def _use_instead(own: AlternativeScore, row: AlternativeScore) -> str:
    better = f"{_capital(row.name)} answers better here than {own.name} ({_both(row, own)})"
    if row.bytes_per_item <= own.bytes_per_item:
        return f"{better} and takes no more room ({size_words(row.bytes_per_item)} per item): use it."
    return (
        f"{better}: use it if {_sizes(row, own, 'instead of')}, and "
        f"{row.ms_per_query:.2g} ms per query instead of {own.ms_per_query:.2g}, are affordable."
    )


def _each_has_its_place(own: AlternativeScore, row: AlternativeScore) -> str:
    first, second = (row, own) if row.p_at_1 > own.p_at_1 else (own, row)
    return (
        f"{_capital(first.name)} more often puts the right thing first, {second.name} has more right ones "
        f"among ten ({_both(first, second)}; {_sizes(first, second, 'against')}): take what you need."
    )


def _smaller_will_do(own: AlternativeScore, row: AlternativeScore) -> str:
    return (
        f"{_capital(row.name)} answers as well here as {own.name}, or worse by less than {TOLERANCE} "
        f"({_both(row, own)}), with {_sizes(row, own, 'instead of')}: it will do."
    )


def _use_this(own: AlternativeScore, row: AlternativeScore, is_best: bool) -> str:
    how = "it answers best here" if is_best else "none of the others surely answers better with these queries"
    return f"Use {own.name}: {how}; next is {row.name} ({_both(own, row)}; {_sizes(own, row, 'against')})."


def _both(a: AlternativeScore, b: AlternativeScore) -> str:
    return f"P@1 {a.p_at_1:.3f} against {b.p_at_1:.3f}, P@10 {a.p_at_10:.3f} against {b.p_at_10:.3f}"


def _sizes(a: AlternativeScore, b: AlternativeScore, word: str) -> str:
    return f"{size_words(a.bytes_per_item)} per item {word} {size_words(b.bytes_per_item)}"


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


def size_words(n: int) -> str:
    """A number of bytes: ``4 bytes``, ``1.5 kB``."""
    if n < 1000:
        return f"{n} byte" if n == 1 else f"{n} bytes"
    return f"{n / 1000:.1f} kB"
