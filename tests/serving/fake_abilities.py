"""How the fake server answers the small requests by which a run finds out what a server can do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

PROMPTS = ("banana", "random letters", "Reply with one word")
"""Words by which the requests are recognised."""


@dataclass(frozen=True)
class Abilities:
    """What the server can do.

    Attributes:
        obeys: The constraints that it keeps to; it passes over the others without a word.
        refuses: Fields of a request that it answers with an error: `n`, `logprobs`, `response_format`, ...
        logprobs: Whether it gives log-probabilities when asked.
        repeats: Whether the same seed brings the same reply.
        thinks: It uses up its tokens before it says anything.
        status: It answers every request with this error, if it is not 200.
        sick_after: How many requests it answers before that.
        sick_for: How many requests it answers so before it is well; None for all.
        refuses_with: Status of the error with which it answers the fields of `refuses`.
        choices: How many choices come back, if not as many as were asked for.
    """

    obeys: frozenset[str] = frozenset({"grammar", "json_schema", "json_object"})
    refuses: frozenset[str] = frozenset()
    logprobs: bool = True
    repeats: bool = False
    thinks: bool = False
    status: int = 200
    sick_after: int = 0
    sick_for: int | None = None
    refuses_with: int = 400
    choices: int | None = None


def is_probe(body: dict[str, Any]) -> bool:
    """Whether a request asks what the server can do, rather than for a case's sake."""
    text = body["messages"][-1]["content"]
    return len(body["messages"]) == 1 and any(words in text for words in PROMPTS)


def refused_field(body: dict[str, Any], abilities: Abilities) -> str | None:
    """The first field that the server does not take."""
    return next((name for name in sorted(abilities.refuses) if name in body), None)


def probe_text(body: dict[str, Any], abilities: Abilities, number: int) -> str:
    if abilities.thinks:
        return ""
    if "random letters" in body["messages"][-1]["content"]:
        return "qwertyuiop" if abilities.repeats and "seed" in body else f"abcdefghij {number}"
    constraint = _constraint(body)
    if constraint is None or (constraint == "json_object" and constraint in abilities.obeys):
        return '{"word": "banana"}'
    if constraint in abilities.obeys:
        return json.dumps({"word": "zebra-17"})
    # As models do: what the prompt asks for.
    preface = "Here you are: " if "Here you are" in body["messages"][-1]["content"] else ""
    return preface + '{"word": "banana"}'


def _constraint(body: dict[str, Any]) -> str | None:
    if "structured_outputs" in body:
        return "grammar"
    form = body.get("response_format")
    if form is not None and form["type"] == "json_object" and "schema" in form:
        return "object_schema"
    return None if form is None else str(form["type"])
