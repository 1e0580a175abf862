"""A provider's real client, connected to its emulator, and shortcuts to outcomes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from serving.batches.providers import connect
from serving.protocol.batch_provider import BatchModel, BatchProvider, BatchRow, RemoteBatch, RowResult
from serving.protocol.errors import CallError
from serving.protocol.messages import Answer, Message
from serving.protocol.model_name import ModelName
from tests.serving.batches.emulators.bookkeeping import Emulator
from tests.serving.hosted_models import KEY, MODELS, call

OTHER_KEY = "a-key-of-another-account"
HOUR_S = 3600.0


def point_at(provider: str, emulator: Emulator, monkeypatch: pytest.MonkeyPatch, key: str = KEY) -> None:
    """Set the key, and the variable with which the provider's own library finds its service."""
    monkeypatch.setenv(f"{provider.partition('_')[0].upper()}_API_KEY", key)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{emulator.url}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", emulator.url)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", emulator.url)


def key_of(index: int) -> str:
    return hashlib.sha256(str(index).encode()).hexdigest()


def prompt(index: int) -> tuple[Message, ...]:
    """A conversation unlike the others; with a line separator other than a line feed, and an emoji."""
    return (
        Message("system", "Answer with one word."),
        Message("user", f"Was drug {index} stopped?\u2028Say so. \U0001f48a"),
    )


@dataclass
class Reached:
    """An emulator with a model that is connected to it."""

    name: str
    emulator: Emulator
    model: BatchModel = field(init=False)

    def __post_init__(self) -> None:
        self.model = connect(ModelName(self.name, MODELS[self.name]))

    @property
    def provider(self) -> BatchProvider:
        return self.model.provider

    def rows(self, count: int, samples: int = 1) -> list[BatchRow]:
        constraint = self.model.constraints[0]
        parameters = call(constraint, samples=samples)
        return [
            self.provider.row(key_of(index), replace(parameters, messages=prompt(index)))
            for index in range(count)
        ]

    async def metadata(self, nonce: str = "n1", rows: int | None = None) -> dict[str, str]:
        counted = {} if rows is None else {"rows": str(rows)}
        return {"nonce": nonce, **counted, **await self.provider.mark()}

    async def submit(self, count: int = 4, *, nonce: str = "n1", samples: int = 1) -> RemoteBatch:
        return await self.provider.submit(self.rows(count, samples), await self.metadata(nonce, count))

    async def finished(self, count: int = 4, *, samples: int = 1) -> RemoteBatch:
        """Submitted, and looked at once its time is over."""
        batch = await self.submit(count, samples=samples)
        self.emulator.now += HOUR_S
        return await self.provider.look(batch.id)

    async def results(self, batch: RemoteBatch, asked: int = 1) -> list[RowResult]:
        return [one async for one in self.provider.results(batch, lambda _: asked)]

    async def found(self, metadata: Mapping[str, str]) -> list[RemoteBatch]:
        return [one async for one in self.provider.found(metadata)]


def by_key(results: Iterable[RowResult]) -> dict[str, RowResult]:
    return {one.custom_id: one for one in results}


def failures(results: Iterable[RowResult]) -> dict[int, CallError]:
    indices = {key_of(index): index for index in range(100)}
    return {indices[one.custom_id]: one.failure for one in results if one.failure is not None}


def texts(answers: Iterable[Answer]) -> list[str]:
    return [answer.text for answer in answers]


def moment(emulator: Emulator, seconds: float = 0.0) -> datetime:
    return datetime.fromtimestamp(emulator.now + seconds, UTC)
