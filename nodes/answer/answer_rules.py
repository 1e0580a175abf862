"""The rules of an answer, what breaks them, and the repair of last resort. Pure functions."""

from __future__ import annotations

import re
from functools import lru_cache

from nodes.core.settings import AnswerSettings

_CITATION = re.compile(
    r"\s*(?:"
    r"\|\s*\d+(?:\s*[-\u2013,;]\s*\d+)*\s*\|"  # | 1, 2 |
    r"|\|[^|\s](?:[^|\n]{0,40}[^|\s])?\|"  # |a1| but not a padded cell as in `Na 140 | K 4.0 | Cl 100`
    r"|\[\s*\d+(?:\s*[-\u2013,;]\s*\d+)*\s*\]"  # [1-3]
    r"|\(\s*\d+(?:\s*[,;]\s*\d+)*\s*\)"  # (4)
    r")"
)
_SENTENCE_ENDS = (".", "!", "?", '."', ".)", "?)")


def strip_citations(text: str) -> str:
    """Remove `|1,2|`, `[3]` and `(4)`, and the white space before them."""
    return " ".join(_CITATION.sub("", text).split())


def split_sentences(text: str) -> list[str]:
    """Sentences of an answer, stripped."""
    return [sentence.strip() for sentence in _segment(text) if sentence.strip()]


def find_faults(text: str, rules: AnswerSettings) -> list[str]:
    """What breaks the rules, in words that can be quoted to the model."""
    words, sentences = len(text.split()), len(split_sentences(text))
    if words == 0:
        return ["it is empty"]
    faults = []
    if words > rules.max_words:
        faults.append(f"it has {words} words and the limit is {rules.max_words}")
    if not rules.min_sentences <= sentences <= rules.max_sentences:
        wanted = f"{rules.min_sentences} to {rules.max_sentences}"
        faults.append(
            f"it has {sentences} {'sentence' if sentences == 1 else 'sentences'} and needs {wanted}"
        )
    if not text.rstrip().endswith(_SENTENCE_ENDS):
        faults.append("it does not end with a whole sentence")
    return faults


def shorten(text: str, rules: AnswerSettings) -> str:
    """Drop trailing sentences until the answer keeps its limits; cut a single long sentence by words."""
    sentences = split_sentences(text)[: rules.max_sentences]
    if len(sentences) > 1 and not sentences[-1].endswith(_SENTENCE_ENDS):
        sentences.pop()
    while len(sentences) > 1 and len(" ".join(sentences).split()) > rules.max_words:
        sentences.pop()
    words = " ".join(sentences).split()
    cut = " ".join(words[: rules.max_words])
    return cut if not cut or cut.endswith(_SENTENCE_ENDS) else cut.rstrip(",;:") + "."


@lru_cache(maxsize=64)
def _segment(text: str) -> tuple[str, ...]:
    import sentencex

    return tuple(sentencex.segment("en", text))
