"""Texts as heiDS embeds them (ArchEHR-QA 2025): for vectors alone, never to be shown.

Cleaned texts mislead a reader: "3.5 mg" becomes "35 mg".
"""

from __future__ import annotations

import re
import string

_ESCAPES = re.compile(r"\\[trn]")
_DROPPED = str.maketrans("", "", string.punctuation)


def clean_for_retrieval(text: str) -> str:
    """Lower case, ASCII, without punctuation, and with single spaces.

    Tabs and line ends that stand spelled out, such as a backslash before a t, are dropped with the quotes.
    A text of which nothing would be left, as in another script, keeps everything but its superfluous spaces.
    """
    spaced = _collapsed(text)
    plain = _ESCAPES.sub("", spaced).encode("ascii", "ignore").decode()
    return _collapsed(plain.lower().translate(_DROPPED)) or spaced


def _collapsed(text: str) -> str:
    return " ".join(text.split())
