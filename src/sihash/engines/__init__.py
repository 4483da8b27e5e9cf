"""Where the row blocks live: in memory, in scratch files on disk, or on the workers of a Dask cluster."""

from sihash.engines.choose import open_engine
from sihash.engines.dask_matrix import Matrix, rows_from_files
from sihash.engines.local import Engine, LocalEngine
from sihash.engines.partitioned_rows import RowsLost

__all__ = ["Engine", "LocalEngine", "Matrix", "RowsLost", "open_engine", "rows_from_files"]
