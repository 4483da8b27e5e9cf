"""Where the row blocks live: in memory, in scratch files on disk, or on the workers of a Dask cluster."""

from sihash.engines.choose import open_engine
from sihash.engines.local import LocalEngine

__all__ = ["LocalEngine", "open_engine"]
