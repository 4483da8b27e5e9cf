"""What the service tells of a database beside its answers: how good they are, what is wrong with labels."""

from __future__ import annotations

from sihash.database import Database
from sihash.database.findings import Diagnosis
from sihash.server.models import ComparisonAnswer, ComparisonRow

MAX_QUERIES, MAX_ITEMS = 500, 50_000  # half a minute or so, whatever the size of the collection


def evaluation(database: Database) -> ComparisonAnswer:
    found = database.compare(max_queries=MAX_QUERIES, max_items=MAX_ITEMS)
    return ComparisonAnswer(
        version=database.version,
        **{**vars(found), "rows": [ComparisonRow(**vars(row)) for row in found.rows]},
        advice=found.advice(),
    )


def diagnosis(database: Database) -> Diagnosis:
    return database.doctor()
