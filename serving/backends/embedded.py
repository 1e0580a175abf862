"""The embedded model as a backend: real weights, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from serving.backends.backend import Backend, CallParameters, Server
from serving.backends.langchain_model import chat_messages, completer
from serving.errors import ModelError
from serving.messages import Message
from serving.model_name import ModelName

MAX_CONNECTIONS = 8
"""Requests at once; the engine decodes them in one batch."""


def connect_embedded(name: ModelName) -> Backend:
    """Find the weights of an embedded model; they are loaded at the first request.

    Raises:
        ModelError: The extra is not installed.
        WeightsError: The name is unknown, or the weights are not there.
    """
    try:
        from serving.embedded.chat_model import EmbeddedChatModel
        from weights.registry import fingerprint
    except ImportError as error:
        raise _needs_extra(str(name), error) from None
    model = EmbeddedChatModel(model_path=name.name)

    async def count_tokens(messages: Sequence[Message]) -> int:
        return await asyncio.to_thread(model.count_tokens, chat_messages(messages))

    return Backend(
        name=name,
        servers=(Server(str(name), completer(model, _arguments)),),
        revision=fingerprint(model.folder),
        constraints=("grammar",),
        many_samples=True,
        takes_seed=True,
        start_connections=MAX_CONNECTIONS,
        max_connections=MAX_CONNECTIONS,
        context_length=model.context_length,
        count_tokens=count_tokens,
    )


def _arguments(call: CallParameters) -> dict[str, Any]:
    return {
        "sample_indices": call.samples,
        "response_schema": call.schema,
        "temperature": call.temperature,
        "max_tokens": call.max_tokens,
        "seed": call.seed,
    }


def _needs_extra(name: str, error: ImportError) -> ModelError:
    return ModelError(f"{name!r} needs an extra ({error.name} is missing): pip install 'evigraph[embedded]'")
