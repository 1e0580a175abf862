"""Kills commands at random moments, gives each again until it ends, and compares with what was never killed.

    python -m tools.kills 100 [SEED [CHAIN...]]

prints a table: by command, how many kills, what was lost, and the calls that were made twice in addition to
those in flight. Takes many minutes; `tests/runs/test_kill.py` has one kill of each kind.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from runs.move.pushed import LIST, PLAN, pull
from runs.record.audit import AUDIT
from runs.record.elsewhere import elsewhere
from runs.record.folder import CALLS, CASES, MANIFEST, RunFolder
from runs.record.publishing import settle
from runs.review.reviews import Reviews
from runs.upkeep.check import check
from serving.journal.journal import Journal
from tests.api import services
from tests.api.processes import Process
from tests.evigraph import COMMAND, Started, write_cases, write_recipe

BATCH = 40
KILLS_A_CHAIN = 5
ON_SCRATCH = ("--scratch", "disk", "--publish-every", "0.001")
"""Sixty milliseconds between publications, so that many a kill falls into one."""

SCRIPT = """\
import asyncio, os
from serving.backends.scripted import made_up_reply
from serving.protocol.errors import CallError

async def count(call):
    with open(os.environ["CALLS_FILE"], "a") as file:
        file.write(f"{call.role} {call.case_id} {call.sample}\\n")
    await asyncio.sleep(0.02)
    if os.path.exists("failing") and call.case_id.endswith("3"):
        raise CallError("timeout", "late")
    return made_up_reply(call)
"""


@dataclass(slots=True)
class Tally:
    """What became of the kills of one command."""

    kills: int = 0
    in_flight: int = 0
    twice: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """A new folder for one chain of kills."""

    folder: Path
    random: random.Random

    @property
    def calls(self) -> Counter[str]:
        """How often each call was made for a case; a session may probe the model at its start."""
        path = self.folder / "calls.txt"
        made = path.read_text().splitlines() if path.exists() else []
        return Counter(line for line in made if not line.startswith("probe"))

    def command(self, *words: str | Path, kill_within: float = 0.0) -> int:
        """Give a command; it is killed at a random moment of so many seconds, unless it has ended before."""
        process = Started(
            *words, folder=self.folder, environment={"CALLS_FILE": str(self.folder / "calls.txt")}
        )
        if kill_within:
            time.sleep(self.random.uniform(0, kill_within))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        return process.wait(timeout=300)


def run_chain(place: Place, tally: Tally, *, retrying: bool, more: tuple[str, ...] = ()) -> None:
    """A run that is killed again and again, by `resume` or `retry`, against one that never was.

    Args:
        place: Where.
        tally: What is counted.
        retrying: Whether it goes on by `retry`.
        more: Options of the killed one.
    """
    write_cases(place.folder / "cases.jsonl", BATCH)
    recipe = write_recipe(place.folder)
    (place.folder / "script.py").write_text(SCRIPT)
    given = ("cases.jsonl", "--model", "scripted:script.py:count", "--recipe", recipe, "--concurrency", "4")
    began = time.monotonic()
    place.command("run", "tamu", *given, "--out", "whole")
    seconds = time.monotonic() - began
    paid = place.calls
    (place.folder / "calls.txt").unlink()
    again = "resume"
    if retrying:
        (place.folder / "failing").touch()
        place.command("run", "tamu", *given, "--max-retries", "0", "--out", "killed", *more)
        (place.folder / "failing").unlink()
        again = "retry"
    beginning: tuple[str | Path, ...] = ("run", "tamu", *given, "--out", "killed", *more)
    going_on: tuple[str | Path, ...] = (again, "killed", *more)
    for number in range(KILLS_A_CHAIN):
        settle(place.folder / "killed")
        first = not (place.folder / "killed" / MANIFEST).exists()
        words = beginning if first else going_on
        before = sum(place.calls.values()) - _stored(place.folder / "killed")
        if place.command(*words, kill_within=seconds) == 0:
            break
        tally.kills += 1
        tally.in_flight += sum(place.calls.values()) - _stored(place.folder / "killed") - before
        if (place.folder / "killed" / MANIFEST).exists() and number % 2:
            place.command("show", "killed")
        if (place.folder / "killed" / MANIFEST).exists():
            tally.faults += check(RunFolder(place.folder / "killed")).faults if more else []
    settle(place.folder / "killed")
    first = not (place.folder / "killed" / MANIFEST).exists()
    code = place.command(*(beginning if first else going_on))
    if code != 0:
        tally.faults.append(f"{again} ended with {code}")
    if (place.folder / "killed" / CASES).read_bytes() != (place.folder / "whole" / CASES).read_bytes():
        tally.faults.append("other results")
    tally.faults += check(RunFolder(place.folder / "killed")).faults
    if not retrying:
        tally.twice += sum((place.calls - paid).values())
    elif place.calls.keys() != paid.keys():
        tally.faults.append("other calls")


def publish_chain(
    words: Callable[[str], tuple[str, ...]], broken: Callable[[Path, str], list[str]]
) -> Callable[[Place, Tally], None]:
    """A merge or a push that is killed again and again, against one that never was.

    Args:
        words: The command, by the name of what it makes; `{}` means the URL of the folder.
        broken: From a folder and such a name to the faults of what is there; nothing there is none.
    """

    def chain(place: Place, tally: Tally) -> None:
        def command(name: str, kill_within: float = 0.0) -> int:
            given = (word.format(f"file://{place.folder}") for word in words(name))
            return place.command(*given, kill_within=kill_within)

        write_cases(place.folder / "cases.jsonl", BATCH)
        recipe = write_recipe(place.folder)
        run = ("run", "tamu", "cases.jsonl", "--model", "scripted:auto", "--recipe", recipe)
        for shard in ("0/2", "1/2"):
            place.command(*run, "--shard", shard, "--out", f"shard-{shard[0]}")
        began = time.monotonic()
        if command("whole") != 0:
            tally.faults.append("what was not killed failed")
        seconds = time.monotonic() - began
        for _ in range(KILLS_A_CHAIN):
            if command("killed", seconds) != -signal.SIGKILL:
                break
            tally.kills += 1
            tally.faults += broken(place.folder, "killed")
        # A merge that was killed after it had made its run is not repeated.
        if not (place.folder / "killed" / CASES).exists() and (code := command("killed")) != 0:
            tally.faults.append(f"the last one ended with {code}")
        tally.faults += broken(place.folder, "killed")
        if not _whole(place.folder, "killed") or _left(place.folder):
            tally.faults.append("something is missing, or was left")

    return chain


def _whole(folder: Path, name: str) -> bool:
    """Whether a merge or a push made what it makes without a kill."""
    made = [folder / one / CASES for one in ("whole", name)]
    if (folder / name / LIST).exists():
        lists = [json.loads((folder / one / LIST).read_bytes())["files"] for one in ("whole", name)]
        # The audit log names each push.
        return lists[0].keys() == lists[1].keys() and all(
            lists[0][file] == lists[1][file] for file in lists[0].keys() - {AUDIT}
        )
    return made[0].read_bytes() == made[1].read_bytes()


def _left(folder: Path) -> list[str]:
    """Files and folders of a merge or a push that a kill broke off."""
    return [
        one.name for one in folder.rglob("*") if one.name.endswith((".merging", ".pushing", ".tmp", PLAN))
    ]


def _broken_merge(folder: Path, name: str) -> list[str]:
    return check(RunFolder(folder / name)).faults if (folder / name).exists() else []


def _broken_push(folder: Path, name: str) -> list[str]:
    """Pulls what was pushed: the run of before, or none."""
    if not (folder / name / LIST).exists():
        return []
    pulled = folder / "pulled"
    shutil.rmtree(pulled, ignore_errors=True)
    pull(f"file://{folder}/{name}", pulled, lambda *_: None)
    return check(RunFolder(pulled)).faults


def api_chain(place: Place, tally: Tally) -> None:
    """A service that is killed while a run of it is under way, and started again."""
    served = services.Place(place.folder)
    (place.folder / "script.py").write_text(f"{SCRIPT}\nreply = count\n")
    write_cases(place.folder / "cases.jsonl", BATCH)
    with (place.folder / "cases.jsonl").open() as file:
        cases = {"cases": [json.loads(line) for line in file]}
    with mock.patch.dict(os.environ, {"CALLS_FILE": str(place.folder / "calls.txt")}):
        service = Process(served)
        began = time.monotonic()
        whole = service.submit(cases)
        service.until(whole, "finished")
        seconds = time.monotonic() - began
        paid = place.calls
        killed = service.submit(cases)
        for _ in range(KILLS_A_CHAIN):
            time.sleep(place.random.uniform(0, seconds / 3))
            if service.end(signal.SIGKILL) == -signal.SIGKILL:
                tally.kills += 1
            lost = sum(place.calls.values()) - sum(paid.values()) - _stored(served.root / killed)
            service = Process(served)
        service.until(killed, "finished")
        service.end(signal.SIGTERM)
    tally.in_flight += lost
    tally.twice += sum(place.calls.values()) - 2 * sum(paid.values())
    tally.faults += check(RunFolder(served.root / killed)).faults
    if (served.root / killed / CASES).read_bytes() != (served.root / whole / CASES).read_bytes():
        tally.faults.append("other results")


def _stored(run: Path) -> int:
    if (left := elsewhere(run)) is not None:
        run = Path(left.folder)
    if not (run / CALLS).exists():
        return 0
    journal = Journal(run / CALLS)
    try:
        return journal.count()
    finally:
        journal.close()


def build_chain(words: Callable[[str], tuple[str, ...]]) -> Callable[[Place, Tally], None]:
    """A build that is killed again and again, against one that never was."""

    def chain(place: Place, tally: Tally) -> None:
        folder = place.folder
        documents = [
            {
                "id": f"d{n}",
                "title": f"Trial {n} of marrowroot",
                "text": f"Word{n} word{n % 97}. " * 40,
                "year": 2001,
            }
            for n in range(3000)
        ]
        (folder / "documents.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
        write_cases(folder / "plain.jsonl", 400)
        cases = [
            json.loads(line) | {"answer": "It was done for a leak."}
            for line in (folder / "plain.jsonl").open()
        ]
        (folder / "answered.jsonl").write_text("".join(json.dumps(one) + "\n" for one in cases))
        place.command("corpus", "build", "documents.jsonl", "--part-size", "300", "--out", "corpus")
        began = time.monotonic()
        if place.command(*words("whole")) != 0:
            tally.faults.append("the build that was not killed failed")
        seconds = time.monotonic() - began
        for _ in range(KILLS_A_CHAIN):
            if place.command(*words("killed"), kill_within=seconds) == 0:
                break
            tally.kills += 1
        if (code := place.command(*words("killed"))) != 0:
            tally.faults.append(f"the build ended with {code}")
        found = [_said(place, words(name)[0], name) for name in ("whole", "killed")]
        if found[0] != found[1]:
            tally.faults.append("another content")

    return chain


def _said(place: Place, kind: str, name: str) -> str:
    """What searches find, with their scores."""
    asked = {
        "corpus": ("corpus", "search", name, "word7 marrowroot", "--json"),
        "index": ("index", "search", name, "word7 marrowroot", "--json"),
        "demos": ("demos", "query", "procedure 7", name, "--embedding", "lexical:256", "--json"),
    }[kind]
    ended = subprocess.run([*COMMAND, *asked], cwd=place.folder, capture_output=True, text=True, check=False)
    said = ended.stdout.replace(name, "").replace(str(place.folder), "")
    return hashlib.sha256(said.encode()).hexdigest() if ended.returncode == 0 else ended.stderr


def review_chain(place: Place, tally: Tally) -> None:
    """Reviews that are killed: those that ended are there, and the file can be read."""
    write_cases(place.folder / "cases.jsonl", 6)
    recipe = write_recipe(place.folder)
    place.command(
        "run", "tamu", "cases.jsonl", "--model", "scripted:auto", "--recipe", recipe, "--out", "run"
    )
    saved, began = 0, time.monotonic()
    place.command("review", "run", "k5", "--by", "Ann", "--confirm")
    seconds = time.monotonic() - began
    for number in range(KILLS_A_CHAIN):
        words = ("review", "run", f"k{number}", "--by", "Ann", "--confirm")
        if place.command(*words, kill_within=seconds) == 0:
            saved += 1
        else:
            tally.kills += 1
    kept = sum(map(len, Reviews(place.folder / "run").histories().values()))
    if kept < saved:
        tally.faults.append(f"{saved} reviews saved, {kept} kept")
    if place.command("review", "run", "k5", "--by", "Ann", "--confirm") != 0:
        tally.faults.append("no review can be added")


CHAINS: dict[str, Callable[[Place, Tally], None]] = {
    "run, resume": lambda place, tally: run_chain(place, tally, retrying=False),
    "run --scratch": lambda place, tally: run_chain(place, tally, retrying=False, more=ON_SCRATCH),
    "retry": lambda place, tally: run_chain(place, tally, retrying=True),
    "corpus build": build_chain(
        lambda name: ("corpus", "build", "documents.jsonl", "--part-size", "300", "--out", name)
    ),
    "index build": build_chain(
        lambda name: ("index", "build", "corpus", "--embedding", "lexical:256", "--out", name)
    ),
    "pool build": build_chain(
        lambda name: ("demos", "build", "answered.jsonl", "--embedding", "lexical:256", "--to", name)
    ),
    "review": review_chain,
    "merge": publish_chain(lambda name: ("merge", "shard-0", "shard-1", "--out", name), _broken_merge),
    "push": publish_chain(lambda name: ("runs", "push", "shard-0", f"{{}}/{name}"), _broken_push),
    "api": api_chain,
}


def chains(seed: int, wanted: Sequence[str]) -> Iterator[tuple[str, Place]]:
    """Endless chains, each in its own folder; runs and resumes every second time."""
    source = random.Random(seed)
    names = wanted or [name for other in list(CHAINS)[1:] for name in ("run, resume", other)]
    while True:
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                yield name, Place(Path(folder), random.Random(source.random()))


def main(kills: int, seed: int = 1, *names: str) -> int:
    """Print what became of so many kills, or of those until an interrupt; 1 if there was a fault, else 0."""
    tallies = {name: Tally() for name in CHAINS}
    with contextlib.suppress(KeyboardInterrupt):
        # Else the first command would take as long as all imports.
        Started("--version", folder=Path.cwd()).wait(timeout=300)
        for name, place in chains(seed, names):
            CHAINS[name](place, tallies[name])
            made = sum(one.kills for one in tallies.values())
            sys.stderr.write(f"{made} of {kills} kills\n")
            if made >= kills:
                break
    sys.stdout.write(f"{'command':<14}{'kills':>6}{'in flight':>11}{'made twice':>12}  faults\n")
    for name, one in tallies.items():
        faults = "; ".join(f"{count} x {fault}" for fault, count in Counter(one.faults).items()) or "none"
        sys.stdout.write(f"{name:<14}{one.kills:>6}{one.in_flight:>11}{one.twice:>12}  {faults}\n")
    return int(any(one.faults for one in tallies.values()))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int((sys.argv[2:] or ["1"])[0]), *sys.argv[3:]))
