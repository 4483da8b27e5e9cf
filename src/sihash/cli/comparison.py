"""What ``sihash evaluate --against`` prints: a table, and one sentence of advice."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sihash.evaluation import Comparison

HEADINGS = ("", "per item", "P@1", "P@10", "mAP", "per query")


def comparison_table(comparison: Comparison) -> str:
    """The comparison as text: a row per method, what was skipped, and the advice."""
    from sihash.evaluation.advice import size_words

    rows = [
        (
            row.name,
            size_words(row.bytes_per_item),
            f"{row.p_at_1:.3f}",
            f"{row.p_at_10:.3f}",
            f"{row.map:.3f}",
            f"{row.ms_per_query:.3g} ms",
        )
        for row in comparison.rows
    ]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    lines = [_line(row, widths) for row in (HEADINGS, *rows)]
    lines += [f"{name}: skipped, {reason}." for name, reason in comparison.skipped.items()]
    return "\n".join([*lines, "", comparison.advice()])


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    name, *figures = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join([name.strip().ljust(widths[0]), *figures])


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """The comparison in plain types, for ``--json``."""
    return {**asdict(comparison), "advice": comparison.advice()}
