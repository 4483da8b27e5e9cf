"""Public names of a package that are imported when first asked for: `sihash --version` must not wait."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_attributes(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: names, and the modules in which they are."""

    def find(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
