"""The table of a comparison."""

from __future__ import annotations

from sihash.cli.evaluate import comparison_table
from sihash.evaluation import AlternativeScore, Comparison

COMPARISON = Comparison(
    (
        AlternativeScore("sihash", 4, 0.75, 0.72, 0.751, 0.1),
        AlternativeScore("cosine", 2048, 0.7, 0.61, 0.234, 12.345, (-0.1, -0.01), (-0.2, -0.1)),
    ),
    {"PQ, 4 bytes": "FAISS is not installed"},
    50_000,
    1000,
    3,
    "A sample was asked.",
)
ADVICE = (
    "Use sihash: it answers best here; next is cosine (P@1 0.750 against 0.700, P@10 0.720 against 0.610; "
    "4 bytes per item against 2.0 kB)."
)


def test_the_table_has_a_line_for_each_way_and_ends_with_the_advice():
    assert comparison_table(COMPARISON).splitlines() == [
        "        per item    P@1   P@10    mAP  per query",
        "sihash   4 bytes  0.750  0.720  0.751     0.1 ms",
        "cosine    2.0 kB  0.700  0.610  0.234    12.3 ms",
        "PQ, 4 bytes: skipped, FAISS is not installed.",
        "",
        ADVICE,
    ]
