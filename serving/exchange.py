"""One request to a LangChain chat model, in our own terms."""

from __future__ import annotations

import time
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from serving.backends.backend import Backend, CallParameters
from serving.errors import CallError, classify
from serving.journal import Answer, Message

_MESSAGE_TYPES: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}


async def exchange(
    backend: Backend, messages: Sequence[Message], parameters: CallParameters, retries: int
) -> list[Answer]:
    """Ask for all samples in one request.

    Raises:
        CallError: The provider's failure, whatever its exception was.
    """
    turns = chat_messages(messages)
    started = time.perf_counter()
    try:
        result = await backend.chat_model.agenerate([turns], **backend.arguments(parameters))
    except CallError:
        raise
    except Exception as error:
        # Every provider has its own exceptions; `classify` knows them all and keeps the cause.
        failure = classify(error)
        if failure.error_class == "connection":
            raise CallError("connection", f"{backend.endpoint}: {failure}", failure.retry_after) from error
        raise failure from error
    return _answers(result, time.perf_counter() - started, retries)


def chat_messages(messages: Sequence[Message]) -> list[BaseMessage]:
    """Our turns as LangChain's."""
    return [_MESSAGE_TYPES[message.role](message.text) for message in messages]


def _answers(result: LLMResult, seconds: float, retries: int) -> list[Answer]:
    generations = [item for item in result.generations[0] if isinstance(item, ChatGeneration)]
    messages = [item.message for item in generations]
    usages = [getattr(message, "usage_metadata", None) or {} for message in messages]
    # OpenAI's client writes the usage of the whole request on each of its samples.
    of_request = len(usages) > 1 and usages[1].get("input_tokens", 0) > 0
    read = usages[0].get("input_tokens", 0) if of_request else sum(u.get("input_tokens", 0) for u in usages)
    cached = (usages[0].get("input_token_details") or {}).get("cache_read") or 0 if usages else 0
    answers = []
    for index, (generation, message, usage) in enumerate(zip(generations, messages, usages, strict=True)):
        written = usage.get("output_tokens", 0)
        if of_request:
            share, rest = divmod(written, len(generations))
            written = share + (rest if index == 0 else 0)
        reason = (generation.generation_info or {}).get("finish_reason") or message.response_metadata.get(
            "finish_reason", ""
        )
        # LangChain passes on the refusal of the first sample only; of the others an empty text is left.
        refused = bool(message.additional_kwargs.get("refusal")) or (of_request and not message.text)
        answers.append(
            Answer(
                # A model can end in half a surrogate pair, which no file can hold.
                text=message.text.encode(errors="replace").decode(),
                finish_reason="refusal" if refused else str(reason),
                input_tokens=read if index == 0 else 0,
                output_tokens=written,
                cached_tokens=cached if index == 0 else 0,
                seconds=seconds,
                retries=retries,
            )
        )
    return answers
