"""How sure a model was of each label, from the probabilities of its own reply.

The two labels differ from their first letter on, so the token that holds that letter decides. The
probabilities of its alternatives that begin as `essential` are held against those that begin as
`not-essential`; everything else that the model might have written there is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from nodes.core.choice_confidence import choice_shares
from serving.protocol.messages import TokenLogprob

_ESSENTIAL, _NOT_ESSENTIAL = "essential", "not-essential"
_STRING = r'"(?:[^"\\]|\\.)*"'
_PAIR = re.compile(rf'({_STRING})\s*:\s*"({_ESSENTIAL}|{_NOT_ESSENTIAL})"')


def label_confidence(tokens: Sequence[TokenLogprob], sentence_ids: Sequence[str]) -> dict[str, float | None]:
    """P(essential) of each sentence, from one reply that is a full map of labels.

    Args:
        tokens: Of the reply; their texts together are the reply.
        sentence_ids: In note order.

    Returns:
        Between 0 and 1, the probabilities of both labels normalised to 1. None for a sentence whose label the
        reply does not hold, or at whose place neither label can be seen.
    """
    starts = [0, *accumulate(len(token.token) for token in tokens)]
    deciding = _deciding_characters("".join(token.token for token in tokens))
    found: dict[str, float | None] = dict.fromkeys(sentence_ids)
    at = 0
    for position, id_ in sorted((position, id_) for id_, position in deciding.items()):
        while starts[at + 1] <= position:
            at += 1
        if id_ in found:
            token = tokens[at]
            found[id_] = _share(token, token.token[: position - starts[at]])
    return found


def mean_confidence(
    votes: Iterable[Mapping[str, float]], sentence_ids: Sequence[str]
) -> dict[str, float | None]:
    """Mean P(essential) over the votes that tell it; None for a sentence on which none does."""
    told = list(votes)
    by_id = {id_: [vote[id_] for vote in told if id_ in vote] for id_ in sentence_ids}
    return {id_: _mean(values) if values else None for id_, values in by_id.items()}


def _mean(values: Sequence[float]) -> float:
    """As it is where one vote tells it: rounded, sentences that were asked for by themselves would tie."""
    return values[0] if len(values) == 1 else round(sum(values) / len(values), 4)


def _deciding_characters(text: str) -> dict[str, int]:
    """Sentence id to the place of its label's first letter; the last label of an id counts, as in JSON."""
    found = {}
    for match in _PAIR.finditer(text, *_object_span(text)):
        try:
            found[str(json.loads(match[1]))] = match.start(2)
        except ValueError:
            # A control character or half an escape: no key that a parser would have read.
            continue
    return found


def _object_span(text: str) -> tuple[int, int]:
    """Begin and end of the first JSON object, nothing where there is none; a model may write around it."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            return start, decoder.raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
    return 0, 0


def _share(token: TokenLogprob, before: str) -> float | None:
    shares = choice_shares(token, before, (_ESSENTIAL, _NOT_ESSENTIAL))
    return None if shares is None else shares[_ESSENTIAL]
