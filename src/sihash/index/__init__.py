"""Search over a set of codes that changes: by Hamming distance, or by what their classes say."""

from sihash.index.base import CodeIndex
from sihash.index.numpy_index import NumpyIndex
from sihash.index.opening import open_index
from sihash.index.scan import ScanIndex

__all__ = ["CodeIndex", "NumpyIndex", "ScanIndex", "open_index"]
