"""Citations in square brackets, held against what was shown."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

_BRACKETS = re.compile(r"[ \t]*\[\s*(\w+(?:\s*[,;]\s*\w+)*)\s*\]")
_BETWEEN = re.compile(r"\s*[,;]\s*")


class CitedText(NamedTuple):
    """A text whose citations all exist.

    Attributes:
        cited: Ids in the order of their first citation.
        unknown: Ids that were cited and never shown; they are taken out of the text.
    """

    text: str
    cited: list[str]
    unknown: list[str]


def check_citations(text: str, shown: Collection[str]) -> CitedText:
    """Take ids that were not shown out of `[1]` and `[1, 2]`; brackets with other words in them stay.

    Args:
        text: As a model wrote it.
        shown: Ids that may be cited; all are numbers.
    """
    cited: dict[str, None] = {}
    unknown: dict[str, None] = {}

    def checked(match: re.Match[str]) -> str:
        ids = _BETWEEN.split(match[1])
        if not all(id_.isdigit() for id_ in ids):
            return match[0]
        known = [id_ for id_ in ids if id_ in shown]
        cited.update(dict.fromkeys(known))
        unknown.update(dict.fromkeys(id_ for id_ in ids if id_ not in shown))
        return f" [{', '.join(known)}]" if known else ""

    return CitedText(_BRACKETS.sub(checked, text).strip(), list(cited), list(unknown))
