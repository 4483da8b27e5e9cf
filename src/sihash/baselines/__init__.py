"""The methods the paper compares with, each an estimator that fits, hashes, saves and loads as SIH does."""

from sihash.baselines.bre import BRE
from sihash.baselines.cca_itq import CCAITQ
from sihash.baselines.dbc import DBC
from sihash.baselines.fasthash import FastHash
from sihash.baselines.ksh import KSH
from sihash.baselines.lsh import LSH
from sihash.baselines.pca_itq import PCAITQ
from sihash.baselines.sdh import SDH

__all__ = ["BRE", "CCAITQ", "DBC", "KSH", "LSH", "PCAITQ", "SDH", "FastHash"]
