"""What all compiled loops share: a line in the log when numba compiles, and the count of set bits."""

from __future__ import annotations

import logging
from typing import Any

import numba
import numpy as np
from numba.core import event

logger = logging.getLogger("sihash.compiling")


class _Announcer(event.Listener):
    """Says once that loops of this package are compiled; what comes from numba's cache does not get here."""

    _said = False

    def on_start(self, event: Any) -> None:
        ours = event.data["dispatcher"].py_func.__module__.startswith("sihash.")
        if ours and not self._said:
            self._said = True
            logger.warning(  # which a script shows, too: nobody else would say why it takes so long
                "Compiling the inner loops of sihash for their first use after installation; this takes a "
                "few seconds."
            )

    def on_end(self, event: Any) -> None:
        pass


def announce_compiling() -> None:
    """Log the first compilation of this process."""
    if not _registered:
        _registered.append(_Announcer())
        event.register("numba:compile", _registered[0])


_registered: list[_Announcer] = []


@numba.njit(nogil=True, cache=True, inline="always")
def popcount(x):  # type: ignore[no-untyped-def]
    """How many bits of a uint64 are set, as uint16; LLVM recognises it and counts several words at a time."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.uint16((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
