"""Which column of texts is the title of an item, where items are no pictures that speak for themselves."""

from __future__ import annotations

from sihash.database import Database

# Names that such columns have, the likeliest first.
USUAL = ("title", "name", "caption", "text", "sentence", "headline", "question", "description", "content")
N_LOOKED_AT = 200  # items to guess by
MOST_ALIKE = 0.5  # of them with a text that another has, too: then it says what they are, not which


class Titles:
    """The column given, or a guess that is made again when there are other columns."""

    def __init__(self, database: Database, given: str | None) -> None:
        self._database, self._given = database, given
        self._guess: tuple[dict[str, str], str | None] = {}, None

    def column(self, columns: dict[str, str]) -> str | None:
        """The name of the column, of those that there are (kinds by name)."""
        if self._given is not None or self._guess[0] == columns:
            return self._given or self._guess[1]
        self._guess = columns, self._guessed([name for name, kind in columns.items() if kind == "text"])
        return self._guess[1]

    def _guessed(self, names: list[str]) -> str | None:
        for usual in USUAL:
            for name in names:
                if name.lower() == usual:
                    return name
        items = self._database.sample(N_LOOKED_AT) if names else []
        distinct = {name: len({item.columns.get(name) for item in items}) for name in names}
        best = max(names, key=lambda each: distinct[each], default="")
        return best if best and distinct[best] > (1 - MOST_ALIKE) * len(items) else None
