"""How much is computed: a smoke test, an overview in some minutes, or the whole of the paper."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The sizes of every experiment. ``None`` rows means all that the data set has."""

    name: str
    n_train: int | None
    n_test: int | None
    n_anchors: int
    code_lengths: tuple[int, ...]
    n_seeds: int
    # Methods that get fewer outside of Table 1, because they are slow or only lines to compare with.
    fewer_seeds: dict[str, int]
    table_sizes: tuple[tuple[int | None, int], ...]  # training rows and anchors, as in the paper's Table 1
    more_anchors: tuple[int, ...]  # beyond the paper, all training rows
    table_seeds: int
    repeats: dict[str, int]  # of changing collections, by method
    class_points: tuple[int, ...]  # classes of the smaller collection
    image_points: tuple[float, ...]  # share of the images that the smaller collection has
    n_updates: int
    scratch_every: int  # updates of the stream between two fits from scratch to compare with
    n_labelled: int = 5000  # rows whose labels KSH uses, as in the paper
    n_trees: int = 500  # trees of FastHash a bit
    widths: tuple[float, ...] = (0.4, 0.6, 0.8, 1.0, 1.3)
    margins: tuple[float, ...] = (4.0, 16.0, 64.0)
    n_validation: int = 12_000  # training rows that widths and margins are chosen on
    n_folds: int = 2  # folds of five that are held out in turn
    bits: int = 32  # of table1, pr, incremental and stream

    def seeds(self, method: str) -> int:
        """How many seeds a method gets in the figure of mAP against code length."""
        return min(self.n_seeds, self.fewer_seeds.get(method, self.n_seeds))


SMOKE = Scale(
    name="smoke",
    n_train=1000,
    n_test=400,
    n_anchors=100,
    code_lengths=(8, 16, 32),
    n_seeds=2,
    fewer_seeds={"ksh": 1, "fasthash": 1, "sih_paper": 1},
    table_sizes=((300, 30), (300, 100), (300, 200), (None, 30), (None, 100)),
    more_anchors=(300,),
    table_seeds=1,
    repeats={"sih_constants": 2, "sih_paper": 1, "sih": 1},
    class_points=(5, 8),
    image_points=(0.3, 0.7),
    n_updates=8,
    scratch_every=4,
    n_labelled=500,
    n_trees=10,
    widths=(0.6, 1.0),
    margins=(16.0,),
    n_folds=1,
)

SMALL = Scale(
    name="small",
    n_train=10_000,
    n_test=2000,
    n_anchors=300,
    code_lengths=(8, 16, 32, 64),
    n_seeds=2,
    fewer_seeds={"ksh": 1, "fasthash": 1, "sih_paper": 1},
    table_sizes=((1000, 100), (1000, 300), (1000, 900), (None, 100), (None, 300)),
    more_anchors=(1000,),
    table_seeds=2,
    repeats={"sih_constants": 5, "sih_paper": 1, "sih": 2},
    class_points=(2, 5, 8),
    image_points=(0.1, 0.5, 0.9),
    n_updates=50,
    scratch_every=10,
    n_labelled=2000,
    n_trees=200,
)

FULL = Scale(
    name="full",
    n_train=None,
    n_test=None,
    n_anchors=1000,
    code_lengths=(8, 16, 24, 32, 48, 64, 96, 128),
    n_seeds=5,
    fewer_seeds={
        "ksh": 1,
        "fasthash": 1,
        "sih_paper": 1,
        "sih_gamma0": 3,
        "sih_random": 2,
        "sih_random_gamma0": 2,
    },
    table_sizes=((5000, 300), (5000, 1000), (5000, 3000), (None, 300), (None, 1000)),
    more_anchors=(3000, 6000),
    table_seeds=3,
    repeats={"sih_constants": 25, "sih": 5, "sih_paper": 1},
    class_points=(2, 4, 6, 8, 9),
    image_points=(0.1, 0.3, 0.5, 0.7, 0.9),
    n_updates=50,
    scratch_every=5,
)

SCALES = {scale.name: scale for scale in (SMOKE, SMALL, FULL)}
