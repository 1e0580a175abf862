"""Ids of the numbered lines of a prompt, for replies that are made up and have to cite some of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LINE = re.compile(r"^(\S{1,80}): '", re.MULTILINE)


def numbered_ids(turns: Sequence[str]) -> list[str]:
    """Of each line `id: '...'` the id, in the order of the lines.

    Only the last turn that has such lines counts: those before it show examples.
    """
    return next((ids for text in reversed(turns) if (ids := _LINE.findall(text))), [])
