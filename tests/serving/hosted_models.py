"""Each hosted provider's real class, turned to the server on loopback."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType

import pytest

from serving.backends import Backend, connect
from serving.backends.backend import exchange
from serving.backends.providers import all_facts
from serving.protocol.messages import Answer
from serving.protocol.model_name import ModelName
from serving.protocol.request import AnyRequest, Constraint
from tests.serving.asks import SCHEMA, as_sent
from tests.serving.hosted_server import HostedServer

MODELS = {one.name: one.example for one in all_facts()}
KEY = "a-key"


def point_at(server: HostedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set keys, and the variables with which the providers' own libraries find their service."""
    for facts in all_facts():
        path = "/v1" if facts.speaks_openai else ""
        monkeypatch.setenv(facts.key, KEY)
        monkeypatch.setenv(facts.service_variables[-1], f"{server.url}{path}")


class Connected:
    """A backend that gives its connections back."""

    def __init__(self, provider: str, model: str | None = None, url: str | None = None) -> None:
        self.backend: Backend = connect(ModelName(provider, model or MODELS[provider], url))
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Backend:
        for server in self.backend.servers:
            if server.close is not None:
                self._exits.push_async_callback(server.close)
        return self.backend

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exits.aclose()


def call(
    constraint: Constraint = "none",
    *,
    samples: int = 1,
    seed: int | None = None,
    logprobs: bool = False,
    temperature: float = 0.5,
) -> AnyRequest:
    return as_sent(
        SCHEMA,
        samples=tuple(range(samples)),
        temperature=temperature,
        seed=seed,
        constraint=constraint,
        logprobs=logprobs,
    )


async def answers(provider: str, parameters: AnyRequest, model: str | None = None) -> list[Answer]:
    async with Connected(provider, model) as backend:
        shaped = backend.abilities.shaped(parameters, backend.constraints)
        return await exchange(backend.servers[0], shaped, limit_s=10, retries=0)
