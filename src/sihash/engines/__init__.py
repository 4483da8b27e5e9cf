"""Where the row blocks live: in memory, in scratch files on disk, or on the workers of a Dask cluster."""

from sihash.engines.choose import is_dask_array, open_engine
from sihash.engines.dask_matrix import rows_from_files
from sihash.engines.local import Engine, LocalEngine

__all__ = ["Engine", "LocalEngine", "is_dask_array", "open_engine", "rows_from_files"]
