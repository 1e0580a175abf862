from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from serving.backends.providers import all_facts
from tests.serving.batches.emulator import emulator
from tests.serving.batches.emulators.bookkeeping import Emulator
from tests.serving.batches.harness import Reached, point_at
from tests.serving.hosted_models import KEY

Reach = Callable[..., Reached]


@pytest.fixture(params=[one.name for one in all_facts() if one.batches])
def provider_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def service(provider_name: str) -> AsyncIterator[Emulator]:
    one = emulator(provider_name)
    async with one.serving():
        yield one


@pytest.fixture
async def reach_as(
    provider_name: str, service: Emulator, monkeypatch: pytest.MonkeyPatch, hosted_allowed: None
) -> AsyncIterator[Reach]:
    """Connect with a key; the connections are closed at the end."""
    async with AsyncExitStack() as exits:

        def reach(key: str = KEY) -> Reached:
            point_at(provider_name, service, monkeypatch, key)
            reached = Reached(provider_name, service)
            exits.push_async_callback(reached.provider.aclose)
            return reached

        yield reach


@pytest.fixture
def reached(reach_as: Reach) -> Reached:
    return reach_as()
