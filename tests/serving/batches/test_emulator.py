"""The emulators themselves: as processes of their own, with ledgers on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from serving.batches.providers import PROVIDERS, connect
from serving.protocol.model_name import ModelName
from tests.serving.batches.emulator import EMULATORS
from tests.serving.batches.emulators.bookkeeping import BEGIN, Batch, Faults, Row
from tests.serving.batches.harness import key_of, prompt
from tests.serving.hosted_models import KEY, MODELS, call


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def address(provider_name: str, ledger: Path) -> Iterator[str]:
    command = ("-m", "tests.serving.batches.emulator", provider_name, "--ledger", str(ledger), "--step", "0")
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def steer(address: str, path: str, **body: object) -> object:
    return httpx.post(f"{address}/emulator/{path}", json=body).raise_for_status().json()


async def test_a_process_of_its_own_keeps_batches_and_a_ledger(
    provider_name: str,
    address: str,
    ledger: Path,
    monkeypatch: pytest.MonkeyPatch,
    hosted_allowed: None,
) -> None:
    monkeypatch.setenv(f"{provider_name.partition('_')[0].upper()}_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", address)

    async def with_a_new_client(batch_id: str | None) -> str:
        model = connect(ModelName(provider_name, MODELS[provider_name]))
        if batch_id is None:
            row = model.provider.row(key_of(0), replace(call(model.constraints[0]), messages=prompt(0)))
            batch = await model.provider.submit([row], {"nonce": "n1"})
        else:
            batch = await model.provider.look(batch_id)
            (result,) = [one async for one in model.provider.results(batch, lambda _: 1)]
            assert result.custom_id == key_of(0)
        await model.provider.aclose()
        return batch.id

    batch_id = await with_a_new_client(None)
    steer(address, "advance", seconds=3600)
    assert await with_a_new_client(batch_id) == batch_id
    entries = [json.loads(line) for line in ledger.read_text("utf-8").splitlines()]
    accepted = next(entry for entry in entries if entry["event"] == "accepted")
    (billed,) = (entry for entry in entries if entry["event"] == "billed")
    assert (accepted["batch"], billed["batch"]) == (batch_id, batch_id)
    assert accepted["body"] == billed["body"]
    assert steer(address, "faults", every={"7": "overloaded"}, shuffled=True)


def test_a_batch_is_worked_off_row_by_row() -> None:
    batch = Batch("b", "a", [Row(str(n), {}) for n in range(4)], created=BEGIN, work_s=400.0)
    assert [batch.done(BEGIN + seconds) for seconds in (0, 10, 110, 209, 410, 9999)] == [0, 0, 1, 1, 4, 4]
    assert (batch.end, batch.ends) == ("completed", BEGIN + 420)
    batch.cancelled = BEGIN + 215
    assert (batch.end, batch.done(BEGIN + 9999)) == ("cancelled", 2)


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="no_such"):
        Faults().change({"no_such": 1})


def test_every_provider_has_an_emulator() -> None:
    assert set(PROVIDERS) <= set(EMULATORS)
