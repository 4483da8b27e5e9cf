"""An index by its name."""

from __future__ import annotations

from sihash.index.base import CodeIndex
from sihash.index.numpy_index import NumpyIndex
from sihash.index.scan import ScanIndex


def open_index(kind: str, n_bits: int) -> CodeIndex:
    """An index of codes of ``n_bits`` bits: a new, empty one in this process, or one on a server.

    ``kind`` is "exact" (a scan), "faiss" (a scan up to two million codes, then FAISS' lists if they find
    enough) or "numpy" (obvious and slow).
    """
    if kind == "exact":
        return ScanIndex(n_bits)
    if kind == "numpy":
        return NumpyIndex(n_bits)
    if kind == "faiss":
        try:
            from sihash.index.faiss_index import FaissIndex
        except ImportError:
            raise ImportError(
                "The index 'faiss' needs the package faiss-cpu; pip install 'sihash[database]'."
            ) from None
        return FaissIndex(n_bits)
    raise ValueError(f"Expected the index 'exact', 'faiss' or 'numpy', got {kind!r}.")
