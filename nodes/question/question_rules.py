"""The rules of a clinician question, what breaks them, and the repair of last resort. Pure functions."""

from __future__ import annotations

import re

_LABEL = re.compile(r"(?:the )?(?:clinician(?:['\u2019]s)? )?question(?:\*\*)?:", re.IGNORECASE)
_AROUND = " \n\"'`*\u201c\u201d\u2018\u2019"


def bare_question(text: str) -> str:
    """A reply without quotation marks around it and without a label such as `Question:` before it."""
    bare = text.strip(_AROUND)
    label = _LABEL.match(bare)
    return bare[label.end() :].strip(_AROUND) if label else bare


def find_question_faults(question: str, max_words: int) -> list[str]:
    """What breaks the rules, in words that can be quoted to the model."""
    lines = [line for line in question.splitlines() if line.strip()]
    words = len(question.split())
    if not words:
        return ["it is empty"]
    faults = []
    if len(lines) > 1:
        faults.append(f"it has {len(lines)} lines and must be one line")
    if words > max_words:
        faults.append(f"it has {words} words and the limit is {max_words}")
    return faults


def cut_question(question: str, max_words: int) -> str:
    """One line of at most so many words: the first that asks, else the first one; empty if there is none.

    Models like to announce a question on a line of its own, and to explain it on another.
    """
    lines = [bare for line in question.splitlines() if (bare := bare_question(line))]
    line = next((line for line in lines if line.endswith("?")), lines[0] if lines else "")
    words = line.split()
    if len(words) <= max_words:
        return " ".join(words)
    return " ".join(words[:max_words]).rstrip(",;:.") + "?"
