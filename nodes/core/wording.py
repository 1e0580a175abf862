"""How a case and a demonstration are put into words for a prompt."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import lru_cache

from cases.records import Case, Sentence

CASE_VARIABLES = frozenset({"narrative", "question", "sentences"})
"""Variables of `case_variables`."""


def case_variables(case: Case, question: str) -> dict[str, str]:
    """Narrative, question and numbered note of a case."""
    return {
        "narrative": one_line(case.narrative),
        "question": one_line(question),
        "sentences": _numbered_note(case.sentences),
    }


@lru_cache(maxsize=256)
def _numbered_note(sentences: tuple[Sentence, ...]) -> str:
    """Each sentence on a line after its id. Cached: every prompt of a case has its note."""
    return "\n".join(f"{sentence.id}: {one_line(sentence.text)}" for sentence in sentences)


def essential_ids(case: Case) -> list[str]:
    """Ids of the sentences that the key calls essential, in note order; none without labels."""
    labels = case.gold.labels or {}
    return [id_ for id_ in case.sentence_ids if labels.get(id_) == "essential"]


def label_map(sentence_ids: Sequence[str], essential: Collection[str]) -> str:
    """Labels of all sentences as the JSON that a model is asked for."""
    return json.dumps(
        {id_: "essential" if id_ in essential else "not-essential" for id_ in sentence_ids},
        ensure_ascii=False,
    )


def essential_list(sentence_ids: Sequence[str], essential: Collection[str]) -> str:
    """Ids of the essential sentences, in note order, as the JSON that a model is asked for."""
    chosen = frozenset(essential)
    return json.dumps({"essential": [id_ for id_ in sentence_ids if id_ in chosen]}, ensure_ascii=False)


def id_list(sentence_ids: Sequence[str]) -> str:
    """Sentence ids in brackets, as the paper's prompt shows them."""
    return f"[{', '.join(sentence_ids)}]"


def one_line(text: str) -> str:
    """Text without line breaks, so that no text can look like a further numbered sentence."""
    return " ".join(text.split())
