"""How far undoing goes back over updates: the models of earlier versions are let go of.

Models are the large part of a database with few items, and every file makes the next writer slower. So an
update keeps those of the versions that up to `UNDOABLE` undoings of updates lead to.
"""

from __future__ import annotations

from collections import defaultdict

from sihash.store.catalogue import Catalogue
from sihash.store.log import Log

UNDOABLE = 10  # updates


def let_go(catalogue: Catalogue, log: Log, version: int, words: int) -> int:
    """Take the files of older versions out of the catalogue, while ``version`` comes into force.

    ``words`` is the version at which its words were drawn. Returns the oldest version that is kept.
    """
    words_of = {earlier: log.words_from(earlier) for earlier in log.versions_in_force()[-UNDOABLE:]}
    words_of[version] = words
    codes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    gone = []
    for kind, segment, own, file in catalogue.files("version IS NOT NULL"):
        if kind == "codes":
            codes[segment].append((own, file.path))
        elif own not in words_of:
            gone.append(file.path)
    for found in codes.values():
        valid = [[f for f in found if log.is_valid(f[0], own, now)] for now, own in words_of.items()]
        used = {max(each) for each in valid if each}
        gone += [path for own, path in found if (own, path) not in used]
    for path in gone:
        catalogue.delete("files", f"path = '{path}'")
    return max(min(words_of), log.oldest_version)
