"""Runs in batches from the command line, against an emulated provider: detached, resumed, killed, retried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.running.status import _print_away
from runs.upkeep.away import Away
from storage.locks import FileLock
from tests.evigraph import Ended, evigraph, write_cases, write_recipe

CASES = 3
ROUNDS = 3


MODELS = {
    "openai": "openai:gpt-4o-mini",
    "anthropic": "anthropic:claude-haiku-4-5",
    "google_genai": "google_genai:gemini-2.5-flash",
}


class Service:
    """An emulator of a provider's batches in a separate process, and commands that call it."""

    def __init__(self, folder: Path, provider: str) -> None:
        self.folder = folder
        self.model = MODELS[provider]
        self.ledger = folder / "ledger.jsonl"
        words = ("tests.serving.batches.emulator", provider, "--ledger", str(self.ledger), "--step", "700")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        write_cases(folder / "cases.jsonl", CASES)
        write_recipe(folder)

    def run(self, model: str, out: str, *more: str) -> Ended:
        given = ("--recipe", "lexical.yaml", "--model", model, "--no-probe", "--allow-hosted", "--out", out)
        return self.ask("run", "tamu", "cases.jsonl", *given, *more)

    def ask(self, *words: str) -> Ended:
        environment = {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "ANTHROPIC_BASE_URL": self.url,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            **{f"{name}_API_KEY": "a-key" for name in ("OPENAI", "ANTHROPIC", "GOOGLE")},
        }
        return evigraph(*words, folder=self.folder, environment=environment)

    def faults(self, **faults: Any) -> None:
        httpx.post(f"{self.url}/emulator/faults", json=faults).raise_for_status()

    def billed(self) -> Counter[str]:
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return Counter(one["body"] for one in map(json.loads, lines) if one["event"] == "billed")

    def results(self, out: str) -> bytes:
        return (self.folder / out / "cases.jsonl").read_bytes()


@pytest.fixture
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Service]:
    """Of OpenAI, unless a test names another."""
    one = Service(tmp_path, getattr(request, "param", "openai"))
    yield one
    one.process.kill()
    one.process.communicate()


@pytest.mark.parametrize("service", MODELS, indirect=True)
def test_a_run_that_detaches_in_every_round_equals_the_run_online(service: Service) -> None:
    assert service.run(service.model, "online").code == 0
    online = service.billed()
    started = service.run(f"batch:{service.model}", "run", "--detach", "--json")
    assert (started.code, started.summary["status"]) == (0, "interrupted")
    assert started.err.count(" stores the requests") == 1

    status = service.ask("status", "run", "--json").summary
    ((batch,), calls) = status["batches"], status["calls_away"]
    assert batch["state"] in ("preparing", "running")
    assert (calls, status["open"]) == (4 * CASES, CASES)
    # Google does not say when a batch expires.
    assert (batch["left"] is None) == (service.model == MODELS["google_genai"])
    assert 0 < (batch["left"] or 1) <= 24 * 3600
    shown = service.ask("status", "run")
    assert batch["id"][:8] in shown.out and "next: evigraph resume run" in shown.out

    # A second session is refused while one has the lock.
    lock = FileLock(service.folder / "run" / ".lock")
    assert "another process is writing" in service.ask("resume", "run", "--no-probe").line
    lock.close()

    for _ in range(2 * ROUNDS):
        ended = service.ask("resume", "run", "--no-probe", "--detach", "--json")
        assert ended.code == 0
    assert (ended.summary["status"], ended.summary["calls"]) == ("finished", 8 * CASES)
    assert service.results("run") == service.results("online")
    twice = service.billed()
    twice.subtract(online)
    assert twice == online


def test_rows_that_fail_are_asked_again_online(service: Service) -> None:
    assert service.run("openai:gpt-4o-mini", "online").code == 0
    service.faults(rows={0: "invalid"}, missing=[1])
    failed = service.run("batch:openai:gpt-4o-mini", "run", "--poll", "0.05", "--json")
    assert (failed.code, failed.summary["failed"] > 0) == (1, True)
    batches = failed.err.count(" submitted to openai")
    service.faults(rows={}, missing=[])
    again = service.ask("retry", "run", "--no-probe", "--retry-online", "--json")
    assert (again.code, again.summary["done"]) == (0, CASES)
    assert " submitted to openai" not in again.err and batches
    assert service.results("run") == service.results("online")
    # The next session sends batches again.
    recorded = json.loads((service.folder / "run" / "run.json").read_text())["models"]["label"]["name"]
    assert recorded == "batch:openai:gpt-4o-mini"


def test_a_dry_run_tells_half_the_price_and_the_hours_of_a_round(service: Service) -> None:
    (service.folder / "prices.yaml").write_text('models: {"openai:gpt-4o-mini": {input: 1, output: 2}}\n')
    dry = service.run("batch:openai:gpt-4o-mini", "never", "--dry-run", "--prices", "prices.yaml", "--json")
    found = dry.summary
    assert found["calls"] == 8 * CASES
    assert found["cost"] == pytest.approx(found["online_cost"] / 2) and found["hours_a_round"] == 24
    assert not service.ledger.exists()


@pytest.mark.parametrize(
    "model", ["batch:embedded:smollm2-135m", "batch:scripted:auto", "batch:vllm:tiny", "batch:"]
)
def test_a_model_without_batches_is_refused_in_one_line(tmp_path: Path, model: str) -> None:
    write_cases(tmp_path / "cases.jsonl", 1)
    refused = evigraph("run", "tamu", "cases.jsonl", "--model", model, folder=tmp_path)
    assert refused.code == 2 and "batch" in refused.line


def test_batches_that_ended_and_calls_that_failed_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    _print_away(
        Away(ended=2, rows={"succeeded": 1_000}, failures={"timeout": 2, "refusal": 1}), Path("a run")
    )
    assert capsys.readouterr().out.splitlines() == [
        "2 batches ended; requests: 1,000 succeeded",
        "calls that failed in batches: 1 refusal, 2 timeout; ask again: evigraph retry 'a run'",
    ]
    _print_away(Away(ended=1), Path("run"))
    _print_away(Away(), Path("run"))
    assert capsys.readouterr().out == "1 batch ended; requests: none\n"
