"""From images to vectors: GIST, pixels, or any network in an ONNX file."""

from sihash.features.extract import extract, extractor
from sihash.features.gist import gist
from sihash.features.images import BadImage

__all__ = ["BadImage", "extract", "extractor", "gist"]
