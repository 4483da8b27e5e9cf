"""The methods the paper compares with, each an estimator with the verbs of SIH."""

from sihash.baselines.sdh import SDH

__all__ = ["SDH"]
