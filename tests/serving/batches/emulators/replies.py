"""What an emulated model says: the same to the same conversation, online and in a batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from serving.made_up_replies import made_up_text
from serving.reply import CITED_TEXT, JsonSchema

PROBE_WORDS = ("banana", "random letters")
"""Of the small requests with which a run finds out what a server can do."""

_LANGCHAIN = {"user": "human", "assistant": "ai", "model": "ai"}


def said(prompt: Sequence[tuple[str, str]], sample: int, schema: JsonSchema | None) -> str:
    """A valid reply, made up from a hash of the prompt and the sample's index.

    A probe for the schema is answered by its only allowed word, as an obedient model would.
    """
    named = [(_LANGCHAIN.get(role, role), text) for role, text in prompt]
    return made_up_text(named, sample, CITED_TEXT, schema)


def digest(value: Any) -> str:
    """The same for the same body."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def text_of(content: Any) -> str:
    """The text of a turn, which may come in parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def words(*texts: str) -> int:
    """Words are an emulated model's tokens."""
    return sum(len(text.split()) for text in texts)
