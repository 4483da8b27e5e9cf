"""What a full reproduction runs."""

from sihash.research.methods import BASELINES
from sihash.research.paper import plan
from sihash.research.scales import FULL


def test_every_baseline_of_table_1_has_three_seeds_at_least():
    fits = [run.key for run in plan(("table1", "map"), ["mnist"], FULL) if run.key["kind"] == "fit"]
    for method in BASELINES:
        seeds = {key["seed"] for key in fits if key["method"] == method and key["n_bits"] == FULL.bits}
        assert len(seeds) >= 3
