"""The rules of an answer, what breaks them, and the repair of last resort. Pure functions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from pydantic import Field, model_validator

from cases.texts import plural
from nodes.core.dry_run import DryCall, made_up_sentences
from nodes.core.recipe import RecipeSection
from nodes.core.records import AnswerEvidence, AnswerLine

_CITATION = re.compile(
    r"\s*(?:"
    r"\|\s*\d+(?:\s*[-\u2013,;]\s*\d+)*\s*\|"  # | 1, 2 |
    r"|\|[^|\s](?:[^|\n]{0,40}[^|\s])?\|"  # |a1| but not a padded cell as in `Na 140 | K 4.0 | Cl 100`
    r"|\[\s*\d+(?:\s*[-\u2013,;]\s*\d+)*\s*\]"  # [1-3]
    r"|\(\s*\d+(?:\s*[,;]\s*\d+)*\s*\)"  # (4)
    r")"
)
_SENTENCE_ENDS = (".", "!", "?", '."', ".)", "?)")


class AnswerRules(RecipeSection):
    """Rules of an answer, and settings of its request.

    Attributes:
        max_words: Most words of the answer.
        min_sentences: Fewest sentences of the answer.
        max_sentences: Most sentences of the answer.
        corrections: How often a faulty answer is sent back before it is repaired and flagged.
    """

    max_words: int = Field(75, ge=1)
    min_sentences: int = Field(2, ge=1)
    max_sentences: int = Field(4, ge=1)
    corrections: int = Field(1, ge=0, le=5)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(256, ge=16)

    @model_validator(mode="after")
    def _sentences_in_order(self) -> AnswerRules:
        if self.min_sentences > self.max_sentences:
            raise ValueError("min_sentences is above max_sentences")
        return self


class AnswerSettings(AnswerRules):
    """Answer demonstrations, the evidence of the answer, and its rules.

    Attributes:
        demonstrations: K of section 4.2.2.
        selection: `tiered` fills from the primary intent, then the secondary, then any; `union` ranks both
            intents together (equation 25 read literally); `similarity` looks at no intent.
        evidence: Which sentences count as evidence: those of the vote `threshold`, of any vote
            (`high_recall`), or of all votes but one (`low_recall`).
        context: Text for the model: the whole `note` with the ids of that evidence, or only the sentences of
            the `evidence` (the whole note if a case has none), from which small models invent less.
    """

    demonstrations: int = Field(3, ge=0, le=50)
    selection: Literal["tiered", "union", "similarity"] = "tiered"
    evidence: AnswerEvidence = "high_recall"
    context: Literal["note", "evidence"] = "note"

    @property
    def unused_prompts(self) -> frozenset[str]:
        return frozenset({"generate_answer" if self.context == "evidence" else "answer_from_evidence"})


def strip_citations(text: str) -> str:
    """Remove `|1,2|`, `[3]` and `(4)`, and the white space before them."""
    return " ".join(_CITATION.sub("", text).split())


def split_sentences(text: str) -> list[str]:
    """Sentences of an answer, stripped."""
    return [sentence.strip() for sentence in _segment(text) if sentence.strip()]


def numbered_sentences(answer: str) -> list[AnswerLine]:
    """The sentences of an answer with the ids "1", "2" and so on."""
    return [AnswerLine(id=str(n), text=text) for n, text in enumerate(split_sentences(answer), start=1)]


def find_faults(text: str, rules: AnswerRules) -> list[str]:
    """Broken rules, in words that can be quoted to the model."""
    words, sentences = len(text.split()), len(split_sentences(text))
    if words == 0:
        return ["it is empty"]
    faults = broken_limits(words, sentences, rules)
    if not text.rstrip().endswith(_SENTENCE_ENDS):
        faults.append("it does not end with a whole sentence")
    return faults


def broken_limits(words: int, sentences: int, rules: AnswerRules, counted: str = "") -> list[str]:
    """What is wrong with numbers of words and sentences; `counted` says more of the words."""
    faults = []
    if words > rules.max_words:
        faults.append(f"it has {plural(words, 'word')}{counted} and the limit is {rules.max_words}")
    if not rules.min_sentences <= sentences <= rules.max_sentences:
        wanted = f"{rules.min_sentences} to {rules.max_sentences}"
        faults.append(f"it has {plural(sentences, 'sentence')} and needs {wanted}")
    return faults


def all_faults(rules: AnswerRules) -> list[str]:
    """All faults that an answer can have, in words."""
    too_many = (rules.max_sentences + 1) * f"It said {'so ' * rules.max_words}again. "
    return find_faults(f"{too_many}And then", rules)


def made_up_answer(call: DryCall) -> str:
    """An answer that keeps the rules of the recipe."""
    rules = call.recipe.section(AnswerRules)
    return " ".join(made_up_sentences(rules.max_words, rules.max_sentences, rules.min_sentences))


def shorten(text: str, rules: AnswerRules) -> str:
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
