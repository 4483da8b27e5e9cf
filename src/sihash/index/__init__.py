"""Search over a set of codes that changes: by Hamming distance, or by what their classes say."""

from sihash.index.base import CodeIndex
from sihash.index.opening import open_index
from sihash.index.scan import ScanIndex

__all__ = ["CodeIndex", "ScanIndex", "open_index"]
