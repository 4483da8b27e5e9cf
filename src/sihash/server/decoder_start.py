"""Runs the decoder with little in memory: ``python -P decoder_start.py SOCKET``.

The decoder forks for every image, and the cost of a fork is that of copying the page tables. The packages
above `sihash.features.images` import numba and scikit-learn, ten times the memory that decoding needs; so
they are put in place empty, and only the modules that the decoder names are loaded.
"""

import sys
import types
from pathlib import Path


def put_empty_packages_in_place() -> None:
    root = Path(__file__).parents[1]
    for name in ("sihash", "sihash.features", "sihash.server"):
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package


if __name__ == "__main__":
    put_empty_packages_in_place()
    from sihash.server.decoder import main

    main(sys.argv[1])
