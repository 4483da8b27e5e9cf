"""Labels written as text, on a command line or in an address: which labels of a database they stand for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from sihash.database.answers import Label

WHOLE_NUMBER = re.compile(r"-?[0-9]{1,15}")


def written_labels(known: Collection[Label], texts: Iterable[str | None]) -> list[Label]:
    """Which of the ``known`` labels texts stand for: a class may be the number 9 where a user writes "9".

    A text that is no label yet is a number if all labels are, and it looks like one.
    """
    by_text = {str(label): label for label in known}
    by_text |= {label: label for label in known if isinstance(label, str)}  # "9" is itself before it is 9
    all_numbers = bool(known) and all(isinstance(label, int) for label in known)

    def label_of(text: str | None) -> Label:
        if text is None or text in by_text:
            return None if text is None else by_text[text]
        return int(text) if all_numbers and WHOLE_NUMBER.fullmatch(text) else text

    return [label_of(text) for text in texts]
