"""Runs of a system whose models answer in batches of an account in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from graph.recipe import load_recipe
from runs.execute.assemble import Request
from runs.execute.batch import Options
from runs.execute.rounds import BatchOptions
from runs.execute.sessions import resume, retry, start
from runs.execute.watcher import Progress
from runs.record.folder import CALLS, RunFolder
from runs.record.manifest import BudgetCaps
from serving.batches import providers
from serving.journal.journal import Journal
from serving.policy import gate
from serving.protocol.batch_provider import BatchModel, BatchProvider
from serving.protocol.limits import Limits
from serving.protocol.model_name import assign_roles
from tests.evigraph import write_cases, write_recipe
from tests.runs.batched.account import Account, Provider

MODEL = "batch:openai:m"


class Lines:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stop_at = "no line has this"
        self.stop = asyncio.Event()

    def notify(self, text: str) -> None:
        """Keep it, and stop the run at the line that a test names."""
        self.lines.append(text)
        if self.stop_at in text:
            self.stop.set()

    def update(self, progress: Progress) -> None:
        """Nothing is shown."""


class Runs:
    """Sessions of runs in one folder."""

    def __init__(self, folder: Path, account: Account) -> None:
        self.folder = folder
        self.account = account
        self.watcher = Lines()
        self.recipe = write_recipe(folder)

    def options(
        self, command: str, budget: BudgetCaps | None = None, *, keep_going: bool = True, **batches: Any
    ) -> Options:
        """With short pauses."""
        return Options(
            command,
            batches=BatchOptions(**{"poll": 0.01, **batches}),
            budget=budget or BudgetCaps(),
            probe=False,
            limits=Limits(max_retries=0),
            keep_going=keep_going,
        )

    def start(
        self,
        cases: int = 4,
        *,
        model: str = MODEL,
        models: Sequence[str] = (),
        out: str = "run",
        **options: Any,
    ) -> RunFolder:
        """A new run."""
        request = Request(
            recipe=load_recipe(str(self.recipe)),
            recipe_origin=str(self.recipe),
            inputs=(write_cases(self.folder / "cases.jsonl", cases),),
            keys=(),
            models=assign_roles(models or [model], {}),
        )
        given = self.options("run", **options)
        stop = self.watcher.stop = asyncio.Event()
        return asyncio.run(start(request, self.folder / out, given, stop=stop, watcher=self.watcher))

    def resume(self, out: str = "run", *, models: Any = None, **options: Any) -> RunFolder:
        """Go on."""
        given = self.options("resume", **options)
        stop = asyncio.Event()
        return asyncio.run(
            resume(self.folder / out, given, recipe=None, models=models, stop=stop, watcher=self.watcher)
        )

    def retry(self, out: str = "run", **options: Any) -> RunFolder:
        """Ask again for what failed."""
        given = self.options("retry", **options)
        stop = asyncio.Event()
        return asyncio.run(retry(self.folder / out, given, models=None, stop=stop, watcher=self.watcher))

    def results(self, out: str = "run") -> list[dict[str, Any]]:
        """Lines of the cases, without tokens, which each model counts in its own way."""
        lines = (self.folder / out / "cases.jsonl").read_text().splitlines()
        return [
            {name: value for name, value in json.loads(line).items() if name not in ("usage", "crc32")}
            for line in lines
        ]

    def journal(self, out: str = "run") -> Journal:
        """Of a run, to be read."""
        return Journal(self.folder / out / CALLS, read_only=True)


@pytest.fixture
def account() -> Account:
    return Account()


@pytest.fixture
def runs(tmp_path: Path, account: Account, monkeypatch: pytest.MonkeyPatch) -> Runs:
    def connect(_: object) -> BatchModel:
        return BatchModel(cast(BatchProvider, Provider(account)), max_samples=8)

    monkeypatch.setattr(providers, "connect", connect)
    monkeypatch.setattr("serving.batches.desk.GRACE_S", 0.0)
    gate.choose(None, allow_hosted=True)
    return Runs(tmp_path, account)


Start = Callable[..., RunFolder]
