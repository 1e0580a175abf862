"""What an emulated model says: the same to the same conversation, online and in a batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from serving.protocol.made_up_replies import made_up_text
from serving.protocol.reply import CITED_TEXT, JsonSchema

_LANGCHAIN = {"user": "human", "assistant": "ai", "model": "ai"}


_noted: dict[str, tuple[JsonSchema | None, str]] = {}


def note(texts: Sequence[str], schema: JsonSchema | None, form: str) -> None:
    """Remember what a prompt asks for in words, where a request has no room for it: no emulator can read.

    Args:
        texts: Of the turns.
        schema: Of the reply.
        form: Name of the reply's format.
    """
    _noted[_of_texts(texts)] = schema, form


def _of_texts(texts: Sequence[str]) -> str:
    return digest([" ".join(text.split()) for text in texts])


def said(prompt: Sequence[tuple[str, str]], sample: int, schema: JsonSchema | None) -> str:
    """A valid reply, made up from a hash of the prompt and the sample's index.

    A probe for the schema is answered by its only allowed word, as an obedient model would.
    """
    named = [(_LANGCHAIN.get(role, role), text) for role, text in prompt]
    noted, form = _noted.get(_of_texts([text for _, text in prompt]), (None, CITED_TEXT))
    return made_up_text(named, sample, form, schema or noted)


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)
