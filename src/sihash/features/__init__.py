"""From images to vectors: EfficientNet-Lite2, GIST, pixels, or any network in an ONNX file."""

from sihash.features.extract import default_features, extract, extractor
from sihash.features.gist import gist
from sihash.features.images import BadImage

__all__ = ["BadImage", "default_features", "extract", "extractor", "gist"]
