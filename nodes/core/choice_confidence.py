"""Probabilities of several words at the position of a reply that requires one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from serving.protocol.messages import TokenLogprob


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


MAX_LOG_ODDS = 30.0
"""Beyond this, a model's probabilities are indistinguishable."""


def choice_log_odds(token: TokenLogprob, choice: str, other: str) -> float | None:
    """Log-odds of one word against another at one token; None where neither can be seen.

    Tokens that differ in case or in the space before them count as the same word. A word that is not among
    the tokens counts as likely as the least likely of them, which it is at most.

    Args:
        token: The first one of the reply.
        choice: A word.
        other: Another one, which differs from its first letter on.
    """
    words = (choice.casefold(), other.casefold())
    found: dict[str, list[float]] = {word: [] for word in words}
    likely = {**dict(token.top), token.token: token.logprob}
    for text, logprob in likely.items():
        word = _begun(text.casefold(), "", words)
        if word is not None:
            found[word].append(logprob)
    if not any(found.values()):
        return None
    least = min(likely.values()) if len(likely) > 1 else -MAX_LOG_ODDS
    this, that = (_log_sum(found[word]) if found[word] else least for word in words)
    return max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, this - that))


def _log_sum(logprobs: Sequence[float]) -> float:
    highest = max(logprobs)
    return highest + math.log(sum(math.exp(one - highest) for one in logprobs))


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
