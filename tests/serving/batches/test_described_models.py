"""What services state about their models, before the first request to one."""

from __future__ import annotations

import pytest

from serving.protocol.thinking import Effort
from serving.requests.probe import probe
from tests.serving.batches.emulator import emulator
from tests.serving.batches.harness import point_at
from tests.serving.hosted_models import Connected

STATED: list[tuple[str, str, int, dict[Effort, str]]] = [
    (
        "anthropic",
        "claude-opus-4-5",
        64_000,
        {
            "off": "off",
            **{"minimal": "4096", "low": "4096", "medium": "10000", "high": "16000", "max": "32000"},
        },
    ),
    (
        "anthropic",
        "claude-sonnet-5",
        128_000,
        {"off": "off", "low": "low", "medium": "medium", "high": "high", "max": "max"},
    ),
    (
        "anthropic",
        "claude-opus-5-5",
        128_000,
        {"low": "low", "medium": "medium", "high": "high", "max": "max"},
    ),
]


@pytest.mark.usefixtures("hosted_allowed")
@pytest.mark.parametrize(("provider", "model", "max_output", "efforts"), STATED)
async def test_limits_and_efforts_are_those_that_the_service_states(
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    model: str,
    max_output: int,
    efforts: dict[Effort, str],
) -> None:
    one = emulator(provider)
    async with one.serving():
        point_at(provider, one, monkeypatch)
        async with Connected(provider, model) as backend:
            backend.abilities.max_output = None
            assert backend.describe is not None
            await backend.describe()
    assert backend.abilities.thinks
    assert backend.abilities.max_output == max_output
    assert backend.abilities.efforts == efforts


@pytest.mark.usefixtures("hosted_allowed")
async def test_googles_service_states_limit_and_thinking(monkeypatch: pytest.MonkeyPatch) -> None:
    one = emulator("google_genai")
    async with one.serving():
        point_at("google_genai", one, monkeypatch)
        async with Connected("google_genai", "gemini-3.5-flash") as backend:
            backend.abilities.thinks, backend.abilities.max_output = False, None
            efforts = backend.abilities.efforts
            assert backend.describe is not None
            await backend.describe()
    assert backend.abilities.thinks
    assert backend.abilities.max_output == 65_536
    assert backend.abilities.efforts == efforts


@pytest.mark.usefixtures("hosted_allowed")
async def test_a_model_that_the_list_lacks_is_probed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    one = emulator("anthropic")
    async with one.serving():
        point_at("anthropic", one, monkeypatch)
        async with Connected("anthropic", "claude-unlisted") as backend:
            _, findings = await probe(backend)
    assert findings.tried
    assert not findings.thinks
