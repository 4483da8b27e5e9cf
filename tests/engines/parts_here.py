"""Parts in this process: everything about rows in several parts but the network."""

from __future__ import annotations

from sihash.engines.local import LocalEngine
from sihash.engines.partitioned_rows import PartitionedRows
from sihash.svm.blocks import RowBlocks


class PartsHere(PartitionedRows):
    def __init__(self, rows):
        self.rows = rows
        super().__init__([len(part) for part in rows], rows[0].n_features, rows[0].n_bits)

    def _run(self, places, function, calls):
        results = [function(self.rows[k], *call) for k, call in zip(places, calls, strict=True)]
        self.sizes = [len(part) for part in self.rows]
        return results

    def derive(self, function, *args):
        return PartsHere([part.derive(function, *args) for part in self.rows])


class EngineHere(LocalEngine):
    """Rows in ``n`` parts, cut from the first to the last."""

    def __init__(self, n):
        super().__init__()
        self.n = n

    def _cuts(self, count):
        return [slice(k * count // self.n, (k + 1) * count // self.n) for k in range(self.n)]

    def lay_out(self, kernel, columns, words, sizes=None):
        if sizes is not None:
            rows = super().lay_out(kernel, columns, words, sizes)
            return PartsHere([RowBlocks(rows.blocks[cut]) for cut in self._cuts(len(sizes))])
        lay_out = super().lay_out
        return PartsHere(
            [
                lay_out(kernel, {name: values[cut] for name, values in columns.items()}, words)
                for cut in self._cuts(len(columns["y"]))
            ]
        )
