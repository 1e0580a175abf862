"""Damages copies of a run at random, and finds out whether that is named and what it costs.

    python -m tools.corruption 200

prints a table: by file and kind of damage, how many were named, how many changed nothing that counts, and the
replies that had to be asked for again after a repair.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from graph.recipe import make_recipe
from runs.execute.assemble import Request
from runs.execute.batch import Options
from runs.execute.sessions import resume, start
from runs.execute.watcher import SilentWatcher
from runs.record.folder import CALLS, CASES, MANIFEST, RunFolder
from runs.record.manifest import RunError
from runs.record.trace_file import TRACE
from runs.upkeep.check import check, repair_run
from serving.journal.journal import JournalError
from serving.protocol.limits import Limits
from serving.protocol.model_name import assign_roles
from tests.evigraph import write_cases

CASES_IN_RUN = 12
COPY_AFTER = 58
RECIPE = {
    "system": "tamu",
    "embedding": "lexical:256",
    "evidence": {"demonstrations": 1, "votes": 3, "threshold": 2},
    "answer": {"demonstrations": 1},
}
SCRIPT = f"""\
import os, shutil, sqlite3
from pathlib import Path
from serving.backends.scripted import made_up_reply
from serving.journal.journal import CallCount

made = 0

def copied(run, copy):
    # All that has been written so far: what a kill leaves at this moment. The journal's thread goes on until
    # its queue is empty, so only a copy whose counted calls are its rows is taken.
    opened = Path(f"{{copy}}-opened")
    while True:
        for folder, source in ((copy, run), (opened, copy)):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder)
        database = sqlite3.connect(opened / "{CALLS}")
        (rows,) = database.execute("SELECT COUNT(*) FROM calls").fetchone()
        database.close()
        if rows == CallCount(copy / "{CALLS}").read():
            return shutil.rmtree(opened)

async def reply(call):
    global made
    made += 1
    if made == {COPY_AFTER}:
        copied(Path(os.environ["EVIGRAPH_TEST_RUN"]), Path(os.environ["EVIGRAPH_TEST_COPY"]))
    return made_up_reply(call)
"""

FILES = {
    "finished": (CALLS, f"{CALLS}.count", TRACE, CASES, MANIFEST),
    "killed": (CALLS, f"{CALLS}-wal", TRACE, CASES, MANIFEST),
}


def make_runs(folder: Path) -> dict[str, Path]:
    """A finished run, and the same run as a kill in its middle would have left it."""
    cases = write_cases(folder / "cases.jsonl", CASES_IN_RUN)
    (folder / "script.py").write_text(SCRIPT)
    request = Request(
        make_recipe(RECIPE, "test"),
        "test",
        (cases,),
        (),
        assign_roles([f"scripted:{folder}/script.py:reply"], {}),
    )
    os.environ["EVIGRAPH_TEST_RUN"] = str(folder / "finished")
    os.environ["EVIGRAPH_TEST_COPY"] = str(folder / "killed")
    options = Options("run", concurrency=3, limits=Limits(), probe=False)
    asyncio.run(start(request, folder / "finished", options, stop=asyncio.Event(), watcher=SilentWatcher()))
    return {"finished": folder / "finished", "killed": folder / "killed"}


def _flip(content: bytearray, draw: random.Random) -> bytearray:
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return content


def _scatter(content: bytearray, draw: random.Random) -> bytearray:
    for _ in range(10):
        _flip(content, draw)
    return content


def _blank(content: bytearray, draw: random.Random) -> bytearray:
    start = draw.randrange(len(content))
    content[start : start + 512] = bytes(len(content[start : start + 512]))
    return content


def _cut(content: bytearray, draw: random.Random) -> bytearray:
    return content[: draw.randrange(len(content))]


def _drop(content: bytearray, draw: random.Random) -> bytearray:
    start = draw.randrange(len(content))
    del content[start : start + draw.randrange(1, 2000)]
    return content


KINDS: dict[str, Callable[[bytearray, random.Random], bytearray]] = {
    "a bit": _flip,
    "ten bits": _scatter,
    "512 zeros": _blank,
    "cut": _cut,
    "part gone": _drop,
    "deleted": lambda _, __: bytearray(),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one corruption.

    Attributes:
        kind: Which state of the run, which file, what was done to it.
        named: Message on it; empty without one.
        lost: Replies that the check said were lost.
        asked: Replies that were asked for again, beyond those that were in flight.
        equal: Whether the results are those of the undamaged run, byte by byte.
        loops: Whether damage was left after a repair.
    """

    kind: tuple[str, str, str]
    named: str
    lost: int
    asked: int
    equal: bool
    loops: bool


def corrupt(run: Path, state: str, seed: int) -> tuple[str, str, str]:
    """Damage one file of a run; what was done."""
    draw = random.Random(seed)
    name = draw.choice(FILES[state])
    kind = draw.choice([*KINDS])
    path = run / name
    if kind == "deleted":
        path.unlink()
    else:
        path.write_bytes(KINDS[kind](bytearray(path.read_bytes()), draw))
    return state, name, kind


def outcome(runs: dict[str, Path], workplace: Path, seed: int) -> Outcome:
    """Damage a copy of a run, go on with it as its user would, and compare."""
    state = ("finished", "killed")[seed % 2]
    run = workplace / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(runs[state], run)
    kind = corrupt(run, state, seed)
    named = _resumed(run)
    lost, loops = 0, False
    if named:
        found = repair_run(run).found
        lost = found.lost_calls
        loops = bool(check(RunFolder(run)).faults) or bool(_resumed(run))
    # A repaired run that is finished goes on without a word, and without a call.
    made = sum(session.calls for session in RunFolder(run).manifest.sessions[1:])
    equal = (run / CASES).read_bytes() == (runs["finished"] / CASES).read_bytes()
    return Outcome(kind, named, lost, made - (_left(runs) if state == "killed" else 0), equal, loops)


def _left(runs: dict[str, Path]) -> int:
    """Calls that an undamaged killed run has left to make."""
    total = RunFolder(runs["finished"]).manifest.sessions[0].calls
    return total - check(RunFolder(runs["killed"])).calls


def _resumed(run: Path) -> str:
    """Go on with a run; the line that refuses it, empty if none does."""
    options = Options("resume", concurrency=3, limits=Limits(), probe=False)
    try:
        asyncio.run(
            resume(run, options, recipe=None, models=None, stop=asyncio.Event(), watcher=SilentWatcher())
        )
    except (RunError, JournalError) as error:
        return str(error)
    return ""


def main(count: int, first: int = 0) -> int:
    """Print a table of so many corruptions; 1 if there was a fault, else 0."""
    table: Counter[tuple[str, ...]] = Counter()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        runs = make_runs(Path(name))
        for seed in range(first, first + count):
            one = outcome(runs, Path(name) / "work", seed)
            named = "named" if one.named else "changed nothing"
            table[(*one.kind, named)] += 1
            table["total", named] += 1
            table["total", "replies lost and named"] += one.lost
            table["total", "replies asked again"] += one.asked
            if not one.equal or one.loops or one.asked > one.lost:
                failed = True
                print(f"FAILED seed {seed}: {one}")  # noqa: T201
    for row, number in sorted(table.items()):
        print(f"{number:5}  {', '.join(row)}")  # noqa: T201
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
