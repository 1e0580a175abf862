"""Valid replies without a model: for `scripted:auto`, dry runs and benchmarks of prompts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from serving.protocol.errors import CallError
from serving.protocol.reply import CITED_TEXT, JsonSchema

_WORDS = ("made-up word", "invented name", "scripted entry", "drawn text", "no real answer")
_LINE = re.compile(r"^(\S{1,80}): '", re.MULTILINE)


def numbered_ids(turns: Sequence[str]) -> list[str]:
    """Ids of the lines `id: '...'`, in order.

    Only the last turn that has such lines counts: those before it show examples.
    """
    return next((ids for text in reversed(turns) if (ids := _LINE.findall(text))), [])


def made_up_text(
    prompt: Sequence[tuple[str, str]],
    sample: int,
    format_: str,
    schema: JsonSchema | None,
    choices: Sequence[str] = (),
) -> str:
    """A valid reply, drawn from a hash of the prompt and the sample.

    Args:
        prompt: Roles and texts of the conversation.
        sample: Index of the sample.
        format_: Name of the reply's format.
        schema: Of the reply, None for free text.
        choices: Words of which one is asked for; the reply gives the probability of each.
    """
    seed = hashlib.sha256(json.dumps([prompt, sample]).encode()).digest()
    if choices:
        weights = [1 + int.from_bytes(_drawn(seed, choice)[:4]) for choice in choices]
        return json.dumps({c: w / sum(weights) for c, w in zip(choices, weights, strict=True)})
    if schema is not None:
        return json.dumps(_made_up_value(schema, seed))
    if format_ == CITED_TEXT:
        return _made_up_citations([text for _, text in prompt], seed)
    # Two sentences, as answers are to have, and fewer words than a question may have.
    return "These words were made up by a script. No language model wrote them."


def _made_up_citations(turns: Sequence[str], seed: bytes) -> str:
    """Two sentences that each cite a numbered line of the prompt, as far as there are any."""
    ids = numbered_ids(turns)
    texts = "These words were made up by a script.", "No language model wrote them."
    if not ids:
        return " ".join(texts)
    picks = (ids[seed[place] % len(ids)] for place in range(len(texts)))
    return "\n".join(f"{text} |{id_}|" for text, id_ in zip(texts, picks, strict=True))


def _made_up_value(schema: JsonSchema, seed: bytes) -> Any:
    if "enum" in schema:
        options = schema["enum"]
        return options[int.from_bytes(seed[:4]) % len(options)]
    if schema.get("type") == "object":
        return {
            key: _made_up_value(value, hashlib.sha256(seed + key.encode()).digest())
            for key, value in schema.get("properties", {}).items()
        }
    if schema.get("type") == "array":
        return _made_up_items(schema, seed)
    raise CallError("internal", f"scripted:auto cannot make up a value for {json.dumps(schema)[:80]}")


def _made_up_items(schema: JsonSchema, seed: bytes) -> list[Any]:
    options = schema["items"].get("enum")
    if options is None:
        drawn = [word for word in _WORDS if _drawn(seed, word)[0] % 2] or [_WORDS[0]]
        least = schema.get("minItems", 1)
        return [*drawn, *(f"{_WORDS[0]} {number}" for number in range(len(drawn), least))]
    if "maxItems" in schema:
        # As many as are asked for, in an order of their own.
        return sorted(options, key=lambda item: _drawn(seed, item))[: schema["maxItems"]]
    # Each one with even odds, so that votes differ.
    return [item for item in options if _drawn(seed, item)[0] % 2]


def _drawn(seed: bytes, item: object) -> bytes:
    return hashlib.sha256(seed + str(item).encode()).digest()
