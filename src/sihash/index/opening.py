"""An index by its name."""

from __future__ import annotations

from sihash.index.base import CodeIndex
from sihash.index.scan import ScanIndex


def open_index(kind: str, n_bits: int) -> CodeIndex:
    """An index of codes of ``n_bits`` bits: a new, empty one in this process, or one on a server.

    ``kind`` is "exact" (a scan); "auto" (a scan up to two million codes, then FAISS' lists if they find
    enough; a longer scan where FAISS is not installed); "faiss" (the same, and refused without FAISS); or the
    URL of an index on a Milvus server, ``milvus+http://host:port/name``.
    """
    try:
        if kind == "exact":
            return ScanIndex(n_bits)
        if kind in ("auto", "faiss"):
            from sihash.index.faiss_index import FaissIndex

            if kind == "faiss":
                import faiss  # noqa: F401  # asked for by name: better told now than at two million codes

            return FaissIndex(n_bits)
        if kind.startswith("milvus+"):
            from sihash.index.milvus import MilvusIndex

            return MilvusIndex(kind, n_bits)
    except ImportError as error:
        extra = "milvus" if kind.startswith("milvus+") else "database"
        raise ImportError(
            f"The index {kind!r} needs the package {error.name}; pip install 'sihash[{extra}]'."
        ) from error
    raise ValueError(f"Expected the index 'auto', 'exact', 'faiss' or milvus+http://…, got {kind!r}.")
