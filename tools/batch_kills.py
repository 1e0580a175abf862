"""Kills runs whose calls are in batches at random moments, and compares with what was never killed.

    python -m tools.batch_kills 50 [SEED]

asks each provider at the address that its library has, and again by `@URL`. It prints what the provider's
ledger says compared with the journal: rows billed, calls stored, rows billed twice, and whether results are
equal byte for byte. Takes many minutes; `tests/runs/batched` has kills at chosen moments.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from itertools import product
from multiprocessing.context import ForkServerContext
from pathlib import Path

from runs.record.folder import CALLS, CASES, MANIFEST, RunFolder
from runs.upkeep.away import away_batches
from runs.upkeep.check import check
from serving.journal.journal import Journal
from tests.evigraph import run_command, write_cases, write_recipe

BATCH = 6
MODELS = {
    "openai": "gpt-4.1",
    "anthropic": "claude-haiku-4-5",
    "google_genai": "gemini-2.5-flash",
}
KILLS_A_CHAIN = 8


@cache
def _processes() -> ForkServerContext:
    """Processes that have imported what a run needs: in that time there is nothing to lose."""
    context = multiprocessing.get_context("forkserver")
    clients = ("langchain_openai", "langchain_anthropic", "langchain_google_genai")
    context.set_forkserver_preload(["cli.session", "runs.execute.sessions", "graph.tamu", *clients])
    return context


class Place:
    """A folder with an emulator of a provider whose ledger lies in it."""

    def __init__(self, folder: Path, provider: str, chance: random.Random, *, by_address: bool) -> None:
        self.folder = folder
        self.random = chance
        self.ledger = folder / "ledger.jsonl"
        arguments = ("tests.serving.batches.emulator", provider, "--ledger", str(self.ledger))
        self.emulator = subprocess.Popen(
            [sys.executable, "-m", *arguments, "--step", "100"], stdout=subprocess.PIPE, text=True
        )
        assert self.emulator.stdout is not None
        url = self.emulator.stdout.readline().strip()
        addresses = {"openai": f"{url}/v1", "anthropic": url, "google_genai": url}
        variables = {
            "openai": "OPENAI_BASE_URL",
            "anthropic": "ANTHROPIC_BASE_URL",
            "google_genai": "GOOGLE_GEMINI_BASE_URL",
        }
        self.model = f"{provider}:{MODELS[provider]}" + f"@{addresses[provider]}" * by_address
        keys = {f"{name}_API_KEY": "a-key" for name in ("OPENAI", "ANTHROPIC", "GOOGLE")}
        reached = {} if by_address else {variables[provider]: addresses[provider]}
        self.environment = {**os.environ, **keys, **reached}

    def command(self, *words: str, kill_within: float = 0.0) -> int:
        """Give a command; it is killed at a random moment of so many seconds, unless it has ended before."""
        streams = (self.folder / "out", self.folder / "err")
        target = (words, self.folder, self.environment, *streams, False)
        process = _processes().Process(target=run_command, args=target)
        process.start()
        process.join(self.random.uniform(0.0, kill_within) if kill_within else 900)
        process.kill()
        process.join()
        assert process.exitcode is not None
        return process.exitcode

    def billed(self) -> Counter[str]:
        """How often each request was paid for, by the provider's own ledger."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        found = (json.loads(line) for line in lines)
        return Counter(one["body"] for one in found if one["event"] == "billed")

    def close(self) -> None:
        """End the emulator."""
        self.emulator.kill()
        self.emulator.wait()


def chain(place: Place) -> tuple[int, list[str], str]:
    """A run that is killed again and again, against the same run online: kills, faults, the two books."""
    write_cases(place.folder / "cases.jsonl", BATCH)
    recipe = write_recipe(place.folder)
    given = ("cases.jsonl", "--recipe", str(recipe), "--no-probe", "--allow-hosted")
    model = f"batch:{place.model}"
    began = time.monotonic()
    place.command("run", "tamu", *given, "--model", place.model, "--out", "whole")
    seconds = 1.5 * (time.monotonic() - began)
    online = place.billed()
    run = place.folder / "killed"
    kills, faults = 0, []
    for _ in range(KILLS_A_CHAIN):
        first = not (run / MANIFEST).exists()
        start = ("run", "tamu", *given, "--model", model, "--out", "killed")
        words = start if first else ("resume", "killed", "--no-probe", "--allow-hosted")
        code = place.command(*words, "--poll", "0.2", kill_within=seconds)
        if code != -signal.SIGKILL:
            faults += [f"a session ended with {code}"] * (code != 0)
            break
        kills += 1
    start = ("run", "tamu", *given, "--model", model, "--out", "killed")
    words = ("resume", "killed", "--no-probe", "--allow-hosted") if (run / MANIFEST).exists() else start
    if (code := place.command(*words, "--poll", "0.2")) != 0:
        faults.append(f"the last resume ended with {code}")
        return kills, faults, "0 0 0 0"
    if (run / CASES).read_bytes() != (place.folder / "whole" / CASES).read_bytes():
        faults.append("other results")
    faults += check(RunFolder(run)).faults
    if away_batches(run).calls:
        faults.append("calls are still away")
    journal = Journal(run / CALLS, read_only=True)
    stored = journal.count()
    journal.close()
    # The same requests were paid for online; samples of a prompt may be equal requests.
    billed = place.billed()
    billed.subtract(online)
    twice = sum((billed - online).values())
    if online - billed:
        faults.append("fewer requests than online")
    return kills, faults, f"{sum(online.values())} {sum(billed.values())} {stored} {twice}"


def main(kills: int, seed: int = 1) -> int:
    """Print a line for each chain until so many kills were made; 1 if there was a fault, else 0."""
    source = random.Random(seed)
    made, number, failed = 0, 0, False
    sys.stdout.write("provider         kills  requests online  rows billed  calls stored  twice  faults\n")
    while made < kills:
        provider, by_address = [*product(MODELS, (False, True))][number % (2 * len(MODELS))]
        number += 1
        with tempfile.TemporaryDirectory() as folder:
            chance = random.Random(source.random())
            place = Place(Path(folder), provider, chance, by_address=by_address)
            try:
                killed, faults, books = chain(place)
            finally:
                place.close()
        made += killed
        failed = failed or bool(faults)
        online, billed, stored, twice = books.split()
        name = provider + "@URL" * by_address
        sys.stdout.write(
            f"{name:<17}{killed:>5}{online:>17}{billed:>13}{stored:>14}{twice:>7}  {faults or 'none'}\n"
        )
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
