"""Prompts and replies as attributes, for those who ask for payloads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from evals.spans import names
from evals.spans.span import Value
from serving.journal import Journal
from serving.messages import Message


def conversation_attributes(journal: Journal, key: str) -> dict[str, Value]:
    """The prompt and the reply of a call in both vocabularies; nothing if the journal has it no more.

    A retry deletes the replies that no parser could use, and the trace of the earlier pass still names them.
    """
    try:
        *prompt, reply = journal.conversation(key)
        finish_reason = journal.finish_reason(key)
    except KeyError:
        return {}
    sent = [_turn(message) for message in prompt]
    received = [{**_turn(reply), "finish_reason": finish_reason}]
    return {
        names.INPUT_MESSAGES: json.dumps(sent, ensure_ascii=False),
        names.OUTPUT_MESSAGES: json.dumps(received, ensure_ascii=False),
        **_flattened(names.LLM_INPUT_MESSAGES, prompt),
        **_flattened(names.LLM_OUTPUT_MESSAGES, [reply]),
        names.OUTPUT: reply.text,
    }


def _turn(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": [{"type": "text", "content": message.text}]}


def _flattened(name: str, messages: Sequence[Message]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for number, message in enumerate(messages):
        found[f"{name}.{number}.message.role"] = message.role
        found[f"{name}.{number}.message.content"] = message.text
    return found
