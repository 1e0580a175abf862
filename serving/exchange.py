"""One request to one server: its time limit, its failures classed and named, its answers checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from serving.backends.backend import CallParameters, Server
from serving.errors import CallError, classify
from serving.journal import Answer
from serving.messages import Message


async def exchange(
    server: Server, messages: Sequence[Message], call: CallParameters, *, limit_s: float, retries: int
) -> list[Answer]:
    """Ask for all samples in one request.

    Args:
        server: Who is asked.
        messages: The conversation.
        call: What is asked for.
        limit_s: Seconds for the whole exchange: a server that sends a byte now and then ends there too.
        retries: How many attempts went before this one.

    Raises:
        CallError: The provider's failure, whatever its exception was.
    """
    started = time.perf_counter()
    deadline = asyncio.timeout(limit_s)
    try:
        async with deadline:
            answers = await server.complete(messages, call)
    except Exception as error:
        if deadline.expired():
            raise CallError("timeout", f"{server.endpoint}: no complete reply in {limit_s:g} s") from error
        # Every provider has its own exceptions; `classify` knows them all and keeps the cause.
        failure = classify(error)
        place = f"{server.endpoint}: {failure}"
        raise CallError(failure.error_class, place, failure.retry_after, curable=failure.curable) from error
    seconds = time.perf_counter() - started
    return [
        # A model can end in half a surrogate pair, which no file can hold.
        replace(
            answer,
            text=answer.text.encode(errors="replace").decode(),
            seconds=seconds,
            retries=retries,
            server=server.endpoint,
        )
        for answer in answers
    ]
