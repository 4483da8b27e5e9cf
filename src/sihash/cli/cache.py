"""``sihash cache``: the cache of image features."""

from __future__ import annotations

from typing import Annotated

import typer

from sihash.cli.options import Json
from sihash.cli.output import emit


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete everything in the cache.")] = False,
    as_json: Json = False,
) -> None:
    """Show or clear the cache of image features.

    `sihash extract` and `sihash.datasets.load` keep features of images on disk. Above the limit, the least
    recently used are deleted. SIHASH_CACHE_GB sets the limit.

    Example: sihash cache --clear
    """
    from sihash.datasets import cache as features

    freed = features.clear() if clear else 0
    n, n_bytes = features.size()
    data = {
        "folder": str(features.folder()),
        "n_entries": n,
        "bytes": n_bytes,
        "limit": features.limit(),
        "freed": freed,
    }
    cleared = f"{freed:,} bytes freed; " if clear else ""
    text = (
        f"{cleared}{n:,} collections, {n_bytes:,} bytes of at most {features.limit():,} in {data['folder']}"
    )
    emit(data, text, as_json)
