"""One sentence from a comparison: what to use, by P@1 and P@10, also where that is not learned codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sihash.evaluation.alternatives import AlternativeScore


def advice(rows: Sequence[AlternativeScore], n_queries: int) -> str:
    """What to use; the first of ``rows`` is the one that the others are set against."""
    own, *others = rows
    apart = {row.name: _apart(row, own, n_queries) for row in others}
    better = [row for row in others if max(apart[row.name]) > 0 and min(apart[row.name]) >= 0]
    mixed = [row for row in others if max(apart[row.name]) > 0]
    equal = [row for row in others if apart[row.name] == (0, 0)]
    smaller = [row for row in equal if row.bytes_per_item < own.bytes_per_item]
    if better:
        return _use_instead(own, max(better, key=_quality))
    if mixed:
        return _each_has_its_place(own, max(mixed, key=_quality))
    if smaller:
        return _smaller_will_do(own, min(smaller, key=lambda row: row.bytes_per_item))
    return _use_this(own, max(others, key=_quality), bool(equal))


def _quality(row: AlternativeScore) -> float:
    return row.p_at_1 + row.p_at_10


def _apart(a: AlternativeScore, b: AlternativeScore, n_queries: int) -> tuple[int, int]:
    """Whether a is better (1) or worse (−1) than b by P@1 and by P@10; 0 if luck may account for it."""
    return _sign(a.p_at_1, b.p_at_1, n_queries), _sign(a.p_at_10, b.p_at_10, n_queries)


def _sign(p: float, q: float, n_queries: int) -> int:
    """Shares that differ by less than the standard error of the difference of two such shares are equal."""
    middle = (p + q) / 2
    luck = np.sqrt(2 * middle * (1 - middle) / n_queries)
    return int(p - q > luck) - int(q - p > luck)


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
        f"{_capital(row.name)} answers as well here as {own.name} ({_both(row, own)}) with "
        f"{_sizes(row, own, 'instead of')}: it will do."
    )


def _use_this(own: AlternativeScore, row: AlternativeScore, is_equal: bool) -> str:
    how = "as well here as the best of the others" if is_equal else "best here"
    return (
        f"Use {own.name}: it answers {how}; next is {row.name} "
        f"({_both(own, row)}; {_sizes(own, row, 'against')})."
    )


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
