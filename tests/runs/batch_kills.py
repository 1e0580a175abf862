"""Kills runs whose calls are in batches at random moments, and compares with what was never killed.

    python -m tests.runs.batch_kills 50

prints what the provider's ledger says beside the journal: rows billed, calls stored, rows billed twice, and
whether results are equal byte for byte. Takes many minutes; `tests/runs/batched` has kills at chosen moments.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from runs.away import away_batches
from runs.check import check
from runs.folder import CALLS, CASES, MANIFEST, RunFolder
from serving.journal import Journal
from tests.evigraph import COMMAND, write_cases, write_recipe

BATCH = 12
MODELS = {"openai": "batch:openai:gpt-4o-mini", "anthropic": "batch:anthropic:claude-haiku-4-5"}
KILLS_A_CHAIN = 5


class Place:
    """A folder with an emulator of a provider whose ledger lies in it."""

    def __init__(self, folder: Path, provider: str, chance: random.Random) -> None:
        self.folder = folder
        self.provider = provider
        self.random = chance
        self.ledger = folder / "ledger.jsonl"
        arguments = ("tests.serving.batches.emulator", provider, "--ledger", str(self.ledger))
        self.emulator = subprocess.Popen(
            [sys.executable, "-m", *arguments, "--step", "700"], stdout=subprocess.PIPE, text=True
        )
        assert self.emulator.stdout is not None
        url = self.emulator.stdout.readline().strip()
        self.environment = {
            **os.environ,
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "a-key",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "a-key",
        }

    def command(self, *words: str, kill_within: float = 0.0) -> int:
        """Give a command; it is killed at a random moment of so many seconds, unless it has ended before."""
        process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if not kill_within:
            return process.wait(timeout=900)
        # The first quarter goes to imports, in which there is nothing to lose.
        time.sleep(self.random.uniform(kill_within / 4, kill_within))
        process.kill()
        return process.wait()

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
    model = MODELS[place.provider]
    began = time.monotonic()
    place.command("run", "tamu", *given, "--model", model.removeprefix("batch:"), "--out", "whole")
    seconds = 1.5 * (time.monotonic() - began)
    online = place.billed()
    run = place.folder / "killed"
    kills, faults = 0, []
    for _ in range(KILLS_A_CHAIN):
        first = not (run / MANIFEST).exists()
        start = ("run", "tamu", *given, "--model", model, "--out", "killed")
        words = start if first else ("resume", "killed", "--no-probe", "--allow-hosted")
        if place.command(*words, "--poll", "0.2", kill_within=seconds) == 0:
            break
        kills += 1
    start = ("run", "tamu", *given, "--model", model, "--out", "killed")
    words = ("resume", "killed", "--no-probe", "--allow-hosted") if (run / MANIFEST).exists() else start
    if (code := place.command(*words, "--poll", "0.2")) != 0:
        faults.append(f"the last resume ended with {code}")
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


def main(kills: int, seed: int = 1) -> None:
    """Print a line for each chain until so many kills were made."""
    source = random.Random(seed)
    made, number = 0, 0
    sys.stdout.write("provider   kills  requests online  rows billed  calls stored  twice  faults\n")
    while made < kills:
        provider = list(MODELS)[number % len(MODELS)]
        number += 1
        with tempfile.TemporaryDirectory() as folder:
            place = Place(Path(folder), provider, random.Random(source.random()))
            try:
                killed, faults, books = chain(place)
            finally:
                place.close()
        made += killed
        online, billed, stored, twice = books.split()
        sys.stdout.write(
            f"{provider:<11}{killed:>5}{online:>17}{billed:>13}{stored:>14}{twice:>7}  {faults or 'none'}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
