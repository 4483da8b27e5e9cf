"""``sihash demo``: the whole story on the digits that scikit-learn ships, with a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from sihash._typing import Array
from sihash.cli.output import emit, errors_told, talk

if TYPE_CHECKING:
    from sihash import SIH

N_BITS, N_ANCHORS = 32, 300
FIRST = 7  # digits known at first in the second half of the story
N_QUERIES = 6  # rows of the picture
RANKS = (1, 2, 5, 10, 15, 20, 30, 40, 50)  # its columns: every digit has more than 50 images held out


@dataclass(frozen=True)
class Digits:
    """Images of digits (n × 8 × 8, greys from 0 to 255) and which digit each shows."""

    images: Array
    y: Array

    @property
    def X(self) -> Array:
        return self.images.reshape(len(self.images), -1).astype(np.float32)

    def only(self, mask: Array) -> Digits:
        return Digits(self.images[mask], self.y[mask])


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("sihash-demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Learn codes of handwritten digits, search by them, add three digits, take one away; writes a picture.

    Needs no data and no network. Takes some seconds; longer when first run, as loops are compiled then.
    """
    tell = talk if as_json else typer.echo
    with errors_told():
        train, held_out = _split_digits()
        _new_hasher().fit(
            train.X[:300], train.y[:300]
        )  # compiles the inner loops, so that no timing below has to
        hasher, learned = _learn(train, held_out, tell)
        figures = {"n_bits": N_BITS, "n_train": len(train.y), "n_held_out": len(held_out.y), "fit": learned}
        figures |= _update(train, held_out, learned, tell)
        figures["picture"] = str(_write_picture(hasher, held_out, out))
    tell(f"\nA picture of some searches: {figures['picture']}")
    if as_json:
        emit(figures, "", as_json)


def _split_digits() -> tuple[Digits, Digits]:
    """Two thirds to learn from, every third image held out."""
    from sihash.datasets import load

    data = load("digits")
    everything = Digits(
        np.concatenate([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    )
    held_out = np.arange(len(everything.y)) % 3 == 2
    return everything.only(~held_out), everything.only(held_out)


def _new_hasher() -> SIH:
    from sihash import SIH

    return SIH(n_bits=N_BITS, n_anchors=N_ANCHORS, random_state=0)


def _learn(train: Digits, held_out: Digits, tell: Callable[[str], None]) -> tuple[SIH, dict[str, Any]]:
    hasher = _new_hasher().fit(train.X, train.y)
    result = _figures(hasher, held_out)
    tell(
        f"Learned {N_BITS}-bit codes from {len(train.y):,} images of digits in {result['seconds']:.2f} s.\n"
        f"Every SVM is proved to be within {100 * result['max_gap']:.1f} % of its optimum.\n"
        f"Each of {len(held_out.y)} images that it never saw looks for its like among the others, by codes:\n"
        f"  mean average precision       {result['mAP']:.3f}\n"
        f"  precision within 2 bits      {result['precision_at_2']:.3f}"
    )
    return hasher, result


def _update(
    train: Digits, held_out: Digits, scratch: dict[str, Any], tell: Callable[[str], None]
) -> dict[str, Any]:
    """Fit on some digits, add the others, remove one again."""
    known = train.y < FIRST
    before, new = train.only(known), train.only(~known)
    hasher = _new_hasher().fit(before.X, before.y)
    passive = {**_figures(hasher, held_out), "seconds": 0.0, "n_steps": 0.0}
    hasher.add(new.X, new.y)
    incremental = _figures(hasher, held_out)
    refreshed = _figures(hasher.refresh_anchors(), held_out)
    tell(
        f"\nA hasher that knows the digits 0 to {FIRST - 1} meets {FIRST} to 9, {len(new.y)} images:\n"
        f"                         mAP on all ten digits   steps   seconds\n"
        f"  left as it was         {_table_row(passive)}\n"
        f"  updated with add()     {_table_row(incremental)}\n"
        f"  then refresh_anchors() {_table_row(refreshed)}\n"
        f"  learned from scratch   {_table_row(scratch)}\n"
        "  A step is two passes over the images. On so few images an update saves nothing;\n"
        "  the README has the figures for 50,000."
    )
    hasher.remove_classes([9])
    removed = _figures(hasher, held_out.only(held_out.y != 9))
    tell(
        f"The 9 is removed again in {removed['seconds']:.2f} s; "
        f"mAP on the nine digits that are left: {removed['mAP']:.3f}."
    )
    return {
        "passive": passive,
        "incremental": incremental,
        "refreshed": refreshed,
        "from_scratch": scratch,
        "removed": removed,
    }


def _figures(hasher: SIH, held_out: Digits) -> dict[str, Any]:
    """How well a hasher retrieves, and what its last fit or update cost."""
    from sihash.evaluation import leave_one_out

    scores = leave_one_out(hasher.transform(held_out.X), held_out.y)
    report = hasher.report_
    return {
        "mAP": scores.mAP,
        "precision_at_2": float(scores.precision[2]),
        "seconds": report.total_seconds,
        "n_steps": report.n_steps,
        "max_gap": report.max_gap,
    }


def _table_row(result: dict[str, Any]) -> str:
    return f"{result['mAP']:21.3f}   {result['n_steps']:5.0f}   {result['seconds']:7.2f}"


def _write_picture(hasher: SIH, held_out: Digits, folder: Path) -> Path:
    from sihash.cli.demo_picture import draw

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "neighbours.png"
    picture = draw(
        _searches(hasher, held_out),
        "Handwritten digits, found by 32-bit codes",
        "Left: five queries drawn at random, and the one that fared worst. Right: what they find by Hamming "
        "distance.\nStrips are codes. Red: bits that differ from the query's, and images of another digit.",
        [_ordinal(rank) for rank in RANKS],
    )
    picture.quantize(96).save(path, optimize=True)
    return path


def _ordinal(rank: int) -> str:
    return "nearest" if rank == 1 else "2nd" if rank == 2 else f"{rank}th"


def _searches(hasher: SIH, held_out: Digits) -> list[Any]:
    """Random queries of different digits, and the one that finds most wrong ones, among the others."""
    from sihash import codes
    from sihash.cli.demo_picture import Row

    rng = np.random.default_rng(0)
    packed = hasher.transform(held_out.X)
    B = codes.unpack(packed, N_BITS)
    distances = codes.hamming(packed, packed) + rng.uniform(
        size=(len(B), len(B))
    )  # equal distances in random order
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, np.array(RANKS) - 1]
    is_right = held_out.y[nearest] == held_out.y[:, None]
    digits = rng.choice(10, N_QUERIES - 1, replace=False)
    queries = [int(rng.choice(np.flatnonzero(held_out.y == digit))) for digit in sorted(digits)]
    queries.append(int(np.argmin(is_right.sum(axis=1))))
    return [
        Row(
            image=held_out.images[q],
            label=f"a {held_out.y[q]}",
            note="the worst case" if q == queries[-1] else "",
            code=B[q],
            found_images=held_out.images[nearest[q]],
            found_codes=B[nearest[q]],
            is_right=is_right[q],
        )
        for q in queries
    ]
