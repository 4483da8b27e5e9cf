"""Put the tables of the recorded results into their pages: `python docs/scripts/result_tables.py`.

A page has a table between the lines `<!-- table NAME -->` and `<!-- end of table -->`. With --check nothing
is written, and the exit code says whether the pages have what the records say.
"""

from __future__ import annotations

import gzip
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from sihash.research.claims import claims_table
from sihash.research.field_report import field_tables
from sihash.research.paper_tables import all_tables
from sihash.research.records import Records
from sihash.research.report import ResultTable
from sihash.research.scales import FULL

DOCS = Path(__file__).parents[1]
PLACE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def reproduction_tables(records: Records) -> list[ResultTable]:
    return [claims_table(records, FULL), *all_tables(records, FULL)]


PAGES: dict[str, tuple[str, Callable[[Records], list[ResultTable]]]] = {
    "reproduction.md": ("reproduction-records.jsonl.gz", reproduction_tables),
    "field.md": ("field-records.jsonl.gz", field_tables),
}


def unpacked(path: Path) -> Records:
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "records.jsonl"
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        return Records(plain)


def page_with_tables(page: str) -> str:
    """The text of a page, its tables made from the records."""
    source, make = PAGES[page]
    tables = {table.name: table for table in make(unpacked(DOCS / source))}

    def filled(place: re.Match[str]) -> str:
        return f"{place[1]}\n{tables[place[2]].markdown()}\n{place[3]}"

    return PLACE.sub(filled, (DOCS / page).read_text(encoding="utf-8"))


if __name__ == "__main__":
    for name in PAGES:
        if "--check" not in sys.argv:
            (DOCS / name).write_text(page_with_tables(name), encoding="utf-8")
        elif (DOCS / name).read_text(encoding="utf-8") != page_with_tables(name):
            sys.exit(f"docs/{name} is not what its records say; run python docs/scripts/result_tables.py.")
