"""The methods the paper compares with, each an estimator that fits, hashes, saves and loads as SIH does."""

from sihash.research.baselines.bre import BRE
from sihash.research.baselines.dbc import DBC
from sihash.research.baselines.fasthash import FastHash
from sihash.research.baselines.itq import CCAITQ, PCAITQ
from sihash.research.baselines.ksh import KSH
from sihash.research.baselines.lsh import LSH
from sihash.research.baselines.sdh import SDH

__all__ = ["BRE", "CCAITQ", "DBC", "KSH", "LSH", "PCAITQ", "SDH", "FastHash"]
