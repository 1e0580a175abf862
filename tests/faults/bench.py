"""A folder with cases, the commands on it, and the books that must balance afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs import RunFolder
from runs.record.folder import CALLS, CASES
from serving.journal.journal import Journal, text_hash
from tests.evigraph import Ended, evigraph, write_cases, write_recipe
from tests.faults.faulty_server import FaultyServer

CASES_IN_BATCH = 20
ANSWERS_A_CASE = 8
"""An intent, three votes, their three reflections, an answer."""

TIMEOUT_S = 2.0
RETRIES = 1
OUTAGE_S = 1.0
OUT = "out"

MAX_REPLY_CHARACTERS = 100_000
"""Characters. What a good reply never has; the journal keeps replies that were sent back, too."""


@dataclass
class Bench:
    """Runs the command line on its own folder."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout: float = TIMEOUT_S
    retries: int = RETRIES
    outage: float = OUTAGE_S
    connections: int = 4

    def __post_init__(self) -> None:
        write_recipe(self.folder)
        write_cases(self.folder / "cases.jsonl", CASES_IN_BATCH)

    def arguments(self, command: str, model: str) -> list[str]:
        """Of `run`, or of a command on the run that began."""
        first = ["cases.jsonl", "--recipe", "lexical.yaml", "--out", OUT, "--model", model]
        limits = [
            "--timeout",
            str(self.timeout),
            "--max-retries",
            str(self.retries),
            "--max-outage",
            str(self.outage),
            "--max-connections",
            str(self.connections),
        ]
        return [*(["run", "tamu", *first] if command == "run" else [command, OUT]), *limits, "--json"]

    def do(self, command: str, model: str) -> Ended:
        return evigraph(*self.arguments(command, model), folder=self.folder, environment=self.environment)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / OUT / CASES).read_text().splitlines()]

    def messages(self) -> list[str]:
        return [line["error"]["message"] for line in self.lines() if line["error"]]

    def check_summary(self, ended: Ended) -> None:
        """No case is lost, none ends twice, and the summary says what the folder holds."""
        lines = self.lines()
        assert sorted(line["case_id"] for line in lines) == sorted(f"k{n}" for n in range(CASES_IN_BATCH))
        errors = Counter(line["error"]["class"] for line in lines if line["error"])
        said = ended.summary
        assert (said["done"], said["failed"]) == (CASES_IN_BATCH - errors.total(), errors.total())
        assert said["errors"] == dict(errors)
        assert said["status"] == "finished"
        assert ended.code == (1 if errors else 0)

    def check_calls(self, *servers: FaultyServer) -> None:
        """Every reply that went out whole was stored, and was never asked for again."""
        answered = sum((server.answered for server in servers), Counter[str]())
        assert self.stored() == answered

    def check_all_done(self, ended: Ended, *servers: FaultyServer) -> None:
        """The batch is complete, and was paid for once."""
        self.check_summary(ended)
        assert ended.code == 0
        self.check_calls(*servers)
        if not any(line["flags"] for line in self.lines()):
            # A vote whose reflection failed counts as it was; its case is done with a flag and asks less.
            assert self.stored().total() == CASES_IN_BATCH * ANSWERS_A_CASE
        sessions = RunFolder(self.folder / OUT).manifest.sessions
        assert ended.summary["last_session"]["calls"] == sessions[-1].calls

    def stored(self) -> Counter[str]:
        journal = Journal(self.folder / OUT / CALLS, read_only=True)
        with closing(journal):
            return Counter(
                json.dumps([(turn.role, text_hash(turn.text)) for turn in prompt])
                for *prompt, reply in journal.conversations()
                if len(reply.text) < MAX_REPLY_CHARACTERS and "\n\n" not in reply.text
            )
