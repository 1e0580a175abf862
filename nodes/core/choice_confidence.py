"""How likely each of several words was at the place of a reply where one of them had to stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from serving.messages import TokenLogprob


def token_at(tokens: Sequence[TokenLogprob], position: int) -> tuple[TokenLogprob, str]:
    """The token that holds a character of the reply, and its text before that character."""
    starts = [0, *accumulate(len(token.token) for token in tokens)]
    at = next(index for index in range(len(tokens)) if starts[index + 1] > position)
    return tokens[at], tokens[at].token[: position - starts[at]]


def choice_shares(token: TokenLogprob, before: str, choices: Sequence[str]) -> dict[str, float] | None:
    """Probabilities of the choices at one token, normalised to 1; None where none of them can be seen.

    Args:
        token: The token that holds the first letter of the choice.
        before: Its text before that letter, such as a space and a quote.
        choices: Words that differ from their first letter on.
    """
    probabilities = dict.fromkeys(choices, 0.0)
    # The token itself may also be among the likeliest: a mapping counts it once.
    for text, logprob in {**dict(token.top), token.token: token.logprob}.items():
        choice = _begun(text, before, choices)
        if choice is not None:
            probabilities[choice] += math.exp(min(logprob, 0.0))
    total = sum(probabilities.values())
    return {choice: share / total for choice, share in probabilities.items()} if total > 0 else None


def _begun(text: str, before: str, choices: Sequence[str]) -> str | None:
    """Which choice a token begins, given the characters that come before it; white space may differ."""
    squeezed, prefix = "".join(text.split()), "".join(before.split())
    if not squeezed.startswith(prefix):
        return None
    rest = squeezed[len(prefix) :]
    for choice in choices:
        whole = f'{choice}"'
        if rest and (whole.startswith(rest) or rest.startswith(whole)):
            return choice
    return None
