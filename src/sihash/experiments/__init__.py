"""Every table and figure of the paper, from the data to the report."""

from sihash.experiments.plan import EXPERIMENTS, reproduce
from sihash.experiments.scales import SCALES
from sihash.experiments.task import available

__all__ = ["EXPERIMENTS", "SCALES", "available", "reproduce"]
