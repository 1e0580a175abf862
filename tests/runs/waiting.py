"""A batch with cases that wait for a person, run in this process; its script counts the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graph.recipe import load_recipe
from runs.execute.assemble import Request
from runs.execute.batch import Options
from runs.execute.sessions import resume, retry, start
from runs.execute.watcher import Progress
from runs.record.folder import RunFolder
from runs.review.reviews import Reviews, make_review
from serving.protocol.limits import Limits
from serving.protocol.model_name import assign_roles
from tests.evigraph import write_cases

SCRIPT = """\
import json, os
from pathlib import Path
from serving.backends.scripted import made_up_reply
from serving.protocol.errors import CallError

HERE = Path(__file__).parent

def reply(call):
    with (HERE / "calls.txt").open("a") as file:
        file.write(f"{call.role} {call.case_id} {call.sample}\\n")
    if call.role == "answer" and (HERE / "kill").exists():
        os.kill(os.getpid(), 9)
    if call.role == "answer" and (HERE / "fail").exists():
        raise CallError("timeout", "no answer in time")
    if call.role != "label":
        return made_up_reply(call)
    first, second, *_ = call.schema_["required"]
    # Votes on even cases differ on two of six sentences.
    chosen = first if call.sample or int(call.case_id[1:]) % 2 else second
    return json.dumps({i: "essential" if i == chosen else "not-essential" for i in call.schema_["required"]})
"""
RECIPE = """\
system: tamu
evidence: {demonstrations: 0, votes: 3, threshold: 2, reflection: false}
answer: {demonstrations: 0}
review: {disagreement: 0.3}
"""


FIRM = Limits(max_retries=0)


class Watching:
    """Does something once a case waits; remembers what it was told."""

    def __init__(self, act: Callable[[], None] | None = None) -> None:
        self.notices: list[str] = []
        self.act = act

    def notify(self, text: str) -> None:
        self.notices.append(text)

    def update(self, progress: Progress) -> None:
        if progress.waiting and self.act is not None:
            self.act()
            self.act = None


class Place:
    """A folder with cases, a recipe that asks for reviews, and a script that counts its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "run"
        self.recipe = folder / "recipe.yaml"
        self.recipe.write_text(RECIPE)
        (folder / "script.py").write_text(SCRIPT)
        write_cases(folder / "cases.jsonl", 4)

    def request(self, keys: tuple[Path, ...] = ()) -> Request:
        return Request(
            recipe=load_recipe(str(self.recipe)),
            recipe_origin=str(self.recipe),
            inputs=(self.folder / "cases.jsonl",),
            keys=keys,
            models=assign_roles([f"scripted:{self.folder}/script.py:reply"], {}),
        )

    def start(
        self, out: str = "run", watcher: Watching | None = None, keys: tuple[Path, ...] = ()
    ) -> RunFolder:
        async def go() -> RunFolder:
            return await start(
                self.request(keys),
                self.folder / out,
                Options("run", concurrency=1, limits=FIRM),
                stop=asyncio.Event(),
                watcher=watcher or Watching(),
            )

        return asyncio.run(go())

    def resume(self, watcher: Watching | None = None, *, out: str = "run", again: bool = False) -> RunFolder:
        async def go() -> RunFolder:
            stop, seen = asyncio.Event(), watcher or Watching()
            if again:
                return await retry(
                    self.folder / out, Options("retry", limits=FIRM), models=None, stop=stop, watcher=seen
                )
            return await resume(
                self.folder / out,
                Options("resume", limits=FIRM),
                recipe=None,
                models=None,
                stop=stop,
                watcher=seen,
            )

        return asyncio.run(go())

    def review(self, case_id: str, out: str = "run", **labels: str) -> None:
        folder = RunFolder(self.folder / out)
        named = {id_.removeprefix("s"): label for id_, label in labels.items()}
        made = make_review(folder.require_case(case_id), reviewer="Ann", labels=named)
        Reviews(folder.path).add(made)

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls.txt").read_text().splitlines()

    def lines(self, out: str = "run") -> dict[str, dict[str, Any]]:
        return {line["case_id"]: line for line in RunFolder(self.folder / out).cases()}
