"""Rows counted in and out, where they lie: what they add to the risk and to the planes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sihash import memory
from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks
from sihash.threads import map_threads

Sums = tuple[Array, Array, Array]
"""Risk (m), Σ π (slots × m) and Σ π y φ (slots × m × d); one slot stands for all where they are equal."""


@dataclass(frozen=True)
class Snapshot:
    """What a block has to know of the machines; it travels to wherever the block lies.

    ``W`` is (d, m) in float32, ``n_slots`` the number of planes that the rows hold shares of.
    """

    W: Array
    n_slots: int

    def scores(self, block: Block, rows: slice | Array = slice(None)) -> Array:
        """Scores of rows by the present weights, rows × m."""
        return block["Phi"][rows] @ self.W

    def shares(self, margins: Array) -> Array:
        """Shares that make a plane touch the risk at these margins: 1 for every violated one."""
        return (margins < 1).astype(np.float32)

    def enter(self, block: Block, rows: slice | Array) -> Sums | None:
        """Count rows in that were just written to a block, or whose signs were."""
        Phi, Y = block["Phi"][rows], block["Y"][rows]
        if not len(Y):
            return None
        margins = Y * self.scores(block, rows)
        shares = self.shares(margins)
        for slot in range(self.n_slots):
            block[f"pi{slot}"][rows] = shares
        a = shares.sum(axis=0, dtype=np.float64)
        return hinge(margins), a[None], ((shares * Y).T @ Phi)[None]

    def leave(self, block: Block, rows: slice | Array) -> Sums | None:
        """Count rows out, before they are dropped or their signs change."""
        Phi, Y = block["Phi"][rows], block["Y"][rows]
        if not len(Y):
            return None
        held = [block[f"pi{slot}"][rows].astype(np.float32) for slot in range(self.n_slots)]
        a = np.array([shares.sum(axis=0, dtype=np.float64) for shares in held])
        g = np.array([(shares * Y).T @ Phi for shares in held])
        return self.risk(block, rows), a, g

    def risk(self, block: Block, rows: slice | Array) -> Array:
        """The hinge risk of rows, a number a bit."""
        return hinge(block["Y"][rows] * self.scores(block, rows))

    def turn(self, block: Block, rows: Array, Y: Array) -> Sums | None:
        """Give rows the signs ``Y`` (rows × m); returns what this adds."""
        before = self.leave(block, rows)
        block.arrays["Y"] = block.arrays["Y"].copy()  # an earlier view of the block keeps its own
        block["Y"][rows] = Y
        after = self.enter(block, rows)
        if before is None or after is None:
            return None
        return after[0] - before[0], after[1] - before[1], after[2] - before[2]


def hinge(margins: Array) -> Array:
    """The hinge risk of rows by their margins (rows × m), a number a bit."""
    return np.maximum(1 - margins, 0).sum(axis=0, dtype=np.float64)


# What the blocks keep for a solver, besides the rows themselves.


def add_arrays(rows: RowBlocks, dtypes: dict[str, Any]) -> None:
    """Give blocks arrays of zeros, rows × m."""
    for name, dtype in dtypes.items():
        for block, room in zip(rows.blocks, rows.rooms(memory.zeros, rows.n_bits, dtype), strict=True):
            block.arrays[name] = room


def own_arrays(rows: RowBlocks, names: list[str], overwrite: bool) -> None:
    """New arrays for those that are about to be written, so that an earlier view of the rows keeps its own.

    Unless all of them is to be written, as copies.
    """
    for name in names:
        rooms = rows.rooms(memory.empty, rows.n_bits, rows.blocks[0].arrays[name].dtype)
        map_threads(partial(_move, name, overwrite), zip(rows.blocks, rooms, strict=True))


def _move(name: str, overwrite: bool, place: tuple[Block, Array]) -> None:
    block, room = place
    if not overwrite:
        room[:] = block.arrays[name]
    block.arrays[name] = room
