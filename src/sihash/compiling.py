"""One line in the log when numba compiles: the first use after installation takes a few seconds."""

from __future__ import annotations

import logging
from typing import Any

from numba.core import event

logger = logging.getLogger("sihash.compiling")


class _Announcer(event.Listener):
    """Says once that something is compiled; what comes from numba's cache does not get here."""

    _said = False

    def on_start(self, event: Any) -> None:
        if not self._said:
            self._said = True
            logger.info("Compiling code for its first use after installation; this takes a few seconds.")

    def on_end(self, event: Any) -> None:
        pass


def announce_compiling() -> None:
    """Log the first compilation of this process."""
    if not _registered:
        _registered.append(_Announcer())
        event.register("numba:compile", _registered[0])


_registered: list[_Announcer] = []
