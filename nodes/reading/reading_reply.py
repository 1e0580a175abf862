"""The reply in which a model says what a passage makes of a question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nodes.core.choice_confidence import choice_shares, token_at
from nodes.reading.literature_records import Reading
from nodes.reading.verdict_votes import READINGS
from serving.errors import InvalidReply
from serving.reply import ReplyFormat, TokenLogprob, first_json_object

_FIELD = "reading"
_SAID = re.compile(rf'"{_FIELD}"\s*:\s*"({"|".join(READINGS)})"')
_DIGITS = 4


def parse_reading(text: str) -> Reading:
    """Read a reply strictly.

    Raises:
        InvalidReply: No JSON, or none of the three words.
    """
    said = first_json_object(text).get(_FIELD)
    for reading in READINGS:
        if said == reading:
            return reading
    raise InvalidReply(f"{_FIELD!r} must be one of {', '.join(READINGS)}")


# No rescue: a reading that nobody gave is missing, never neutral.
READING_REPLY = ReplyFormat(
    name=_FIELD,
    schema={
        "type": "object",
        "properties": {_FIELD: {"type": "string", "enum": list(READINGS)}},
        "required": [_FIELD],
        "additionalProperties": False,
    },
    parse=parse_reading,
)


def reading_probabilities(tokens: Sequence[TokenLogprob]) -> dict[Reading, float] | None:
    """Probabilities of the three readings, from the token with the first letter of the one that is said.

    Args:
        tokens: Of one reply; their texts together are the reply.

    Returns:
        They sum to 1 but for rounding. None where the reply shows no reading, or came without
        log-probabilities.
    """
    match = _SAID.search("".join(token.token for token in tokens))
    if match is None:
        return None
    shares = choice_shares(*token_at(tokens, match.start(1)), READINGS)
    return None if shares is None else {name: round(shares[name], _DIGITS) for name in READINGS}
