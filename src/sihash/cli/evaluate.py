"""``sihash evaluate``: how well searches find items of the right class, and how well other methods would."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sihash.cli.options import DatabasePath, Json, RankOption, open_database
from sihash.cli.output import emit, one_line

if TYPE_CHECKING:
    from sihash.database.answers import Evaluation
    from sihash.evaluation import Comparison

HEADINGS = ("", "per item", "P@1", "P@10", "mAP", "per query")


def evaluate(
    database: DatabasePath,
    queries: Annotated[str | None, typer.Option(help="Labelled images or vectors to use as queries.")] = None,
    rank: RankOption = None,
    max_queries: Annotated[
        int, typer.Option(min=1, help="Use at most this many queries, drawn at random.")
    ] = 1000,
    against: Annotated[
        bool, typer.Option("--against", help="Compare with cosine, sign bits, PQ, LDA and nearest means.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure how well a database answers searches.

    Prints P@1, P@10, mAP and the worst classes. P@10 stays below 1 where a class has fewer than ten items.

    Queries come from --queries, or are some of the database's own items; an item never finds itself.
    --against measures other methods on the same data, and gives advice.

    Example: sihash evaluate DB --queries held-out-photos/ --against
    """
    with open_database(database) as opened:
        found = opened.evaluate(queries, rank=rank, max_queries=max_queries)
        data, text = asdict(found), evaluation_text(found)
        if against:
            comparison = opened.compare(queries, max_queries=max_queries)
            data["against"] = {**asdict(comparison), "advice": comparison.advice()}
            text += "\n\n" + comparison_table(comparison)
    emit(data, text, as_json)


def evaluation_text(found: Evaluation) -> str:
    left_out = f", {found.n_left_out:,} left out: nothing relevant" if found.n_left_out else ""
    lines = [
        f"version {found.version}, {found.rank} ranking: {found.n_queries:,} queries{left_out}; "
        f"{found.n_items:,} items",
        f"P@1 {found.p_at_1:.4f}   P@10 {found.p_at_10:.4f}   mAP {found.mAP:.4f}",
    ]
    lines += [found.note] if found.note else []
    worst = [each for each in found.worst(5) if each.mAP < 1]
    lines += ["worst classes:"] if worst else []
    lines += [
        f"  P@1 {each.p_at_1:.3f}   P@10 {each.p_at_10:.3f}   mAP {each.mAP:.3f}   "
        f"{each.n_queries:,} {'query' if each.n_queries == 1 else 'queries'}   {one_line(str(each.label))}"
        for each in worst
    ]
    return "\n".join(lines)


def comparison_table(comparison: Comparison) -> str:
    """A row per method, what was skipped, and the advice."""
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
    lines = [
        "  ".join([name.ljust(widths[0]), *map(str.rjust, figures, widths[1:])])
        for name, *figures in (HEADINGS, *rows)
    ]
    lines += [f"{name}: skipped, {reason}." for name, reason in comparison.skipped.items()]
    return "\n".join([*lines, "", comparison.advice()])
