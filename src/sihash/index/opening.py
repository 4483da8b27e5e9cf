"""An index by its name."""

from __future__ import annotations

from sihash.index.base import CodeIndex
from sihash.index.scan import ScanIndex


def open_index(kind: str, n_bits: int) -> CodeIndex:
    """An index of codes of ``n_bits`` bits: a new, empty one in this process, or one on a server.

    ``kind`` is "exact", a scan in this process, or the URL of an index on a Milvus server,
    ``milvus+http://host:port/name``.
    """
    if kind == "exact":
        return ScanIndex(n_bits)
    if not kind.startswith("milvus+"):
        raise ValueError(f"Expected the index 'exact' or milvus+http://…, got {kind!r}.")
    try:
        from sihash.index.milvus import MilvusIndex

        return MilvusIndex(kind, n_bits)
    except ImportError as error:
        raise ImportError(
            f"The index {kind!r} needs the package {error.name}; pip install 'sihash[milvus]'."
        ) from error
