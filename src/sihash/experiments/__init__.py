"""Every table and figure of the paper, from the data to the report."""

from sihash.experiments.plan import EXPERIMENTS, reproduce
from sihash.experiments.problem import available
from sihash.experiments.scales import SCALES

__all__ = ["EXPERIMENTS", "SCALES", "available", "reproduce"]
