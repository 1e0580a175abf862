"""Any LangChain chat model as the place where a model answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult

from serving.backends.backend import Arguments, Complete
from serving.backends.openai_protocol import shares, token_logprobs
from serving.protocol.messages import UNKNOWN, Answer, Message, token_count
from serving.protocol.request import AnyRequest
from serving.protocol.thinking import Thought, split_thinking

_MESSAGE_TYPES: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}


def completer(chat_model: BaseChatModel, arguments: Arguments, max_samples: int | None = None) -> Complete:
    """Ask a chat model for all samples in one request, or in as few as its provider allows."""

    async def complete(request: AnyRequest) -> list[Answer]:
        turns = chat_messages(request.messages)
        size = max_samples or len(request.samples)
        answers: list[Answer] = []
        for start in range(0, len(request.samples), size):
            part = replace(request, samples=request.samples[start : start + size])
            result = await chat_model.agenerate([turns], **arguments(part))
            answers += answers_of(result, len(part.samples))
        return answers

    return complete


def chat_messages(messages: Sequence[Message]) -> list[BaseMessage]:
    """Our turns as LangChain's."""
    return [_MESSAGE_TYPES[message.role](message.text) for message in messages]


def answers_of_chat(result: ChatResult, asked: int) -> list[Answer]:
    """Read the result of a class's `agenerate`."""
    if len(result.generations) == 1 and result.llm_output is not None:
        # langchain-core does so there.
        message = result.generations[0].message
        message.response_metadata = {**result.llm_output, **message.response_metadata}
    return answers_of(LLMResult(generations=[list(result.generations)]), asked)


def answers_of(result: LLMResult, asked: int) -> list[Answer]:
    """Read a chat model's result for one conversation with `asked` requested samples."""
    generations = [item for item in result.generations[0] if isinstance(item, ChatGeneration)]
    usages = [getattr(item.message, "usage_metadata", None) or {} for item in generations]
    reads = [token_count(usage.get("input_tokens")) for usage in usages]
    writes = [token_count(usage.get("output_tokens")) for usage in usages]
    # OpenAI's and Google's classes write the usage of the whole request on each of its samples.
    of_request = len(usages) > 1 and reads[1] > 0
    read = reads[0] if of_request else UNKNOWN if UNKNOWN in reads else sum(reads)
    written = shares(writes[0], len(writes)) if of_request else writes
    cached = token_count((usages[0].get("input_token_details") or {}).get("cache_read")) if usages else 0
    thoughts = [
        max(0, token_count((one.get("output_token_details") or {}).get("reasoning"))) for one in usages
    ]
    if of_request:
        thoughts = shares(thoughts[0], len(thoughts))
    if not generations:
        return [Answer("", "length", UNKNOWN if index == 0 else 0, UNKNOWN) for index in range(asked)]
    answers = []
    for index, generation in enumerate(generations):
        info = {**generation.message.response_metadata, **(generation.generation_info or {})}
        (text, thinking), reason = _text(generation.message), _reason(info)
        if not text and not reason:
            # Google leaves out the candidates of a request whose thinking used up the limit.
            reason = "length"
        # LangChain passes on the refusal of OpenAI's first sample; of the others no text is left.
        unsaid = of_request and reason == "stop" and not text and not thoughts[index]
        refused = unsaid or bool(generation.message.additional_kwargs.get("refusal"))
        answers.append(
            Answer(
                text=text,
                finish_reason="refusal" if refused else reason,
                input_tokens=read if index == 0 else 0,
                output_tokens=written[index],
                cached_tokens=cached if index == 0 else 0,
                logprobs=token_logprobs(info.get("logprobs")),
                thinking_tokens=thoughts[index],
                thinking=thinking,
            )
        )
    if len(answers) == 1 and (answers[0].finish_reason == _BLOCKED or answers[0].is_unwritten):
        # Google reports these once, however many samples were asked for.
        uncounted = replace(answers[0], input_tokens=0, output_tokens=0, cached_tokens=0)
        answers += [uncounted] * (asked - 1)
    return answers


def _text(message: BaseMessage) -> Thought:
    """The reply, and the thinking before it; if a tool was forced, its input as JSON."""
    blocks = [one for one in message.content if isinstance(one, dict)] if message.content else []
    thinking = "".join(str(one.get("thinking") or one.get("reasoning") or "") for one in blocks)
    thinking = thinking or str(message.additional_kwargs.get("reasoning_content") or "")
    if isinstance(message, AIMessage) and message.tool_calls:
        return Thought(json.dumps(message.tool_calls[0]["args"], ensure_ascii=False), thinking)
    if isinstance(message, AIMessage) and message.invalid_tool_calls:
        return Thought(message.invalid_tool_calls[0]["args"] or "", thinking)
    text, tagged = split_thinking(message.text or str(message.additional_kwargs.get("refusal") or ""))
    return Thought(text, thinking or tagged)


_BLOCKED = "content_filter"

_REASONS = {
    # Anthropic
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    # Google
    "MAX_TOKENS": "length",
    "SAFETY": _BLOCKED,
    "PROHIBITED_CONTENT": _BLOCKED,
    "BLOCKLIST": _BLOCKED,
    "RECITATION": _BLOCKED,
    "SPII": _BLOCKED,
}
"""Providers' words for a reply that was cut or blocked, in OpenAI's. SPII is personal data."""


def _reason(info: dict[str, Any]) -> str:
    """Why the reply ends, in OpenAI's words where it was cut or blocked."""
    if (info.get("prompt_feedback") or {}).get("block_reason"):
        return _BLOCKED
    # Anthropic has `stop_reason` where the others have `finish_reason`.
    reason = str(info.get("finish_reason") or info.get("stop_reason") or "")
    return _REASONS.get(reason, reason)
