"""Every table and figure of the paper, from the data to the report."""

from sihash.research.paper import EXPERIMENTS, reproduce
from sihash.research.scales import SCALES
from sihash.research.task import available

__all__ = ["EXPERIMENTS", "SCALES", "available", "reproduce"]
