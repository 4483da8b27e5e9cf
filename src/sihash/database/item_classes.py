"""The class of every item, read once and kept up to date."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sihash._typing import Array
from sihash.database.catalogue import Catalogue
from sihash.database.errors import CorruptFile


def _none() -> Array:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class ItemClasses:
    """``ids`` (ascending) and class ``numbers`` (−1: unlabelled) of all items that the catalogue names."""

    operation: int = 0
    ids: Array = field(default_factory=_none)
    numbers: Array = field(default_factory=_none)
    n: int = 0
    total: int = 0  # sum of the checksums

    def of(self, ids: Array) -> Array:
        """Class numbers of items that are there."""
        places = np.searchsorted(self.ids, ids)
        if not np.array_equal(np.append(self.ids, -1)[places], ids):  # a compaction may have taken them
            raise CorruptFile("Items of a segment are not in the catalogue; restore it from a copy.")
        return self.numbers[places]

    def with_class(self, numbers: Array) -> Array:
        """Ids of the items of some classes."""
        return self.ids[np.isin(self.numbers, numbers)]

    def followed(self, catalogue: Catalogue) -> ItemClasses:
        """With the items that came since; together they must be all that the catalogue counts."""
        with catalogue.beside() as own, own.snapshot():
            new = own.operations(self.operation)
            if not new:
                return self
            compacted = any(operation.kind == "compact" for operation in new)
            return (ItemClasses() if compacted else self)._grown(own)

    def _grown(self, catalogue: Catalogue) -> ItemClasses:
        last = catalogue.operations(catalogue.last_operation() - 1)[-1]
        first = int(self.ids[-1]) + 1 if len(self.ids) else 0
        ids, numbers, n, total = [self.ids], [self.numbers], self.n, self.total
        for rows in catalogue.checked(f"SELECT * FROM items WHERE id >= {first} ORDER BY id", "items"):
            ids.append(np.array([row[0] for row in rows], dtype=np.int64))
            numbers.append(np.array([-1 if row[2] is None else row[2] for row in rows], dtype=np.int64))
            n += len(rows)
            total += sum(row[-1] for row in rows)
        catalogue.compare("items", [n, total], last.totals)
        return ItemClasses(last.number, np.concatenate(ids), np.concatenate(numbers), n, total)
