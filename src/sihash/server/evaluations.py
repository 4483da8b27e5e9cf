"""What the service tells of a database beside its answers: how good they are, what is wrong with labels."""

from __future__ import annotations

from sihash.database import Database
from sihash.database.findings import KIND_TITLES
from sihash.server.models import ComparisonAnswer, DoctorAnswer, comparison_answer, doctor_answer

MAX_QUERIES, MAX_ITEMS = 500, 50_000  # half a minute or so, whatever the size of the collection


def evaluation(database: Database) -> ComparisonAnswer:
    found = database.compare(max_queries=MAX_QUERIES, max_items=MAX_ITEMS)
    return comparison_answer(database.version, found)


def diagnosis(database: Database) -> DoctorAnswer:
    return doctor_answer(database.doctor(), KIND_TITLES, database.path.name)
