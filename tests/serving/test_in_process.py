"""A model in this process: its own queue is its only reason to take long, and it is never away."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import pytest

from serving.backends.backend import Backend, Complete, Server
from serving.protocol.errors import CallError
from serving.protocol.limits import Limits
from serving.protocol.messages import Answer
from serving.protocol.model_name import ModelName
from serving.protocol.request import AnyRequest, Failure
from tests.serving.asks import Connect, said, word_ask, words

NO_TIME = 0.0
"""A limit that is over when a request first waits for anything."""


async def slow(request: AnyRequest) -> list[Answer]:
    for _ in range(100):
        await asyncio.sleep(0)
    return [Answer(said("yes"), "stop", 1, 1)]


@dataclass
class Breaking:
    """Fails as an engine that broke a request off, then answers."""

    failures: int
    attempts: int = 0

    async def __call__(self, request: AnyRequest) -> list[Answer]:
        self.attempts += 1
        if self.attempts <= self.failures:
            raise CallError("connection", "the engine broke the request off")
        return [Answer(said("yes"), "stop", 1, 1)]


def backend(complete: Complete, *, in_process: bool) -> Backend:
    return Backend(ModelName("embedded", "any"), (Server("embedded:any", complete, in_process=in_process),))


@pytest.mark.parametrize("in_process", [True, False])
async def test_the_time_limit_is_for_servers(connect_client: Connect, in_process: bool) -> None:
    limits = Limits(max_retries=0, timeout=NO_TIME)
    (outcome,) = await connect_client(backend=backend(slow, in_process=in_process), limits=limits).ask(
        word_ask()
    )
    if in_process:
        assert words([outcome]) == ["yes"]
    else:
        assert isinstance(outcome, Failure) and outcome.error.error_class == "timeout"


async def test_failures_in_a_row_cost_their_cases_and_no_other(
    connect_client: Connect, no_backoff: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "evigraph.serving")
    engine = Breaking(failures=7)
    client = connect_client(backend=backend(engine, in_process=True), limits=Limits(max_retries=2))
    for case in ("1", "2"):
        (outcome,) = await client.ask(word_ask(case_id=case))
        assert isinstance(outcome, Failure)
        assert str(outcome.error) == "embedded:any: the engine broke the request off"
    # The next case has all its attempts: 7 failures are 3 of each case before, and 1 of this one.
    assert words(await client.ask(word_ask(case_id="3"))) == ["yes"]
    assert engine.attempts == 8
    assert "away" not in caplog.text
