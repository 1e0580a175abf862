"""Made-up replies of dry runs: of likely length, the same for the same case."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodes.core.recipe import Recipe
from nodes.core.written_text import WritingSettings
from serving.protocol.messages import Message
from serving.protocol.reply import JsonSchema

WORDS_SHARE = 0.8
"""Words of an answer or a question as a share of the recipe's limit: models stay below it."""

_PREFERRED_SENTENCES = 3

_TEXT = (
    "the patient was treated with intravenous piperacillin-tazobactam because blood cultures on hospital"
    " day 3 grew Klebsiella pneumoniae and CT of the abdomen showed a 6 cm hepatic abscess, which needed"
    " percutaneous drainage before the fever, the leukocytosis and the creatinine of 240 improved"
)
"""About as many tokens a word as clinicians' answers take."""


@dataclass(frozen=True, slots=True)
class DryCall:
    """A call that a dry run answers itself; `schema` is None for free text."""

    recipe: Recipe
    case_id: str
    messages: Sequence[Message]
    schema: JsonSchema | None


MadeUp = Callable[[DryCall], str]
"""From a call to a valid reply of likely length."""


@dataclass(frozen=True, slots=True)
class CorrectedReply:
    """A reply that goes back with its faults quoted, for an estimate of what that adds.

    Attributes:
        reply: Name of the reply's format.
        prompt: Whose correction turn it is.
        settings: Of a recipe: limits and number of corrections.
        faults: Of a recipe: all faults that a reply can have, in words.
    """

    reply: str
    prompt: str
    settings: Callable[[Recipe], WritingSettings]
    faults: Callable[[Recipe], list[str]]


def made_up_sentences(
    max_words: int, max_sentences: int = _PREFERRED_SENTENCES, min_sentences: int = 1
) -> list[str]:
    """Plain words in as many sentences as the limits allow, three if they do."""
    sentences = min(max(min_sentences, _PREFERRED_SENTENCES), max_sentences)
    words = max(round(WORDS_SHARE * max_words), min(sentences, max_words))
    share, rest = divmod(words, sentences)
    vocabulary = itertools.cycle(_TEXT.split())
    lengths = [share + (1 if index < rest else 0) for index in range(sentences)]
    return [as_sentence(list(itertools.islice(vocabulary, length))) for length in lengths if length]


def made_up_words(count: int) -> list[str]:
    """The first words of the same text, over and over."""
    return list(itertools.islice(itertools.cycle(_TEXT.split()), max(1, count)))


def as_sentence(words: list[str]) -> str:
    """Words with a capital and a full stop."""
    return f"{words[0][0].upper()}{' '.join(words)[1:].rstrip(',')}."


def share_of(place: tuple[str, ...]) -> float:
    """A number from 0 to below 1, the same for the same place."""
    return int.from_bytes(hashlib.sha256(json.dumps(place).encode()).digest()[:4]) / 2**32
