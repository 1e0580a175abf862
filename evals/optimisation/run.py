"""An optimisation: proposals, candidates on the search cases, the best one and the given one on the others.

Every candidate is a run folder, as a cell of an experiment is, and all share one journal: what two candidates
have in common is asked once, and an optimisation that was killed asks nothing again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cases.texts import plural
from evals.optimisation.candidates import HEADLINE, CandidateRuns, Wanted, evidence_scores
from evals.optimisation.errors import OptimisationError
from evals.optimisation.preparation import Preparation
from evals.optimisation.search import Attempt, Ended, Search
from evals.optimisation.space import Space
from evals.optimisation.split import Split, split_cases
from evals.pages.tables import SHARES
from evals.scoring.measures import TaskScores
from graph.recipe import RecipeError
from prompts import PromptError
from runs.execute.servers import Servers
from runs.execute.watcher import Watcher
from serving.backends import demand_allowed
from serving.policy.gate import hold_for, take_cases
from serving.policy.policy import keep_beside
from serving.protocol.errors import ModelError

EndedBy = Literal["trials", "space", "budget", "stop"]
"""What ended the search: as many trials as were asked for, no candidate left, the budget, or a signal."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an optimisation.

    Attributes:
        best: The candidate that did best on the search cases, maybe the given recipe; None before any ended.
        judged: Scores of the given recipe and of the best one on the cases that the search never saw; None
            where these runs have not ended, or the best one is the given one.
        spent: Tokens.
    """

    wanted: Wanted
    space: Space
    split: Split
    trials: tuple[Ended, ...]
    best: Ended | None
    ended_by: EndedBy
    judged: tuple[TaskScores, TaskScores] | None
    spent: int
    notes: tuple[str, ...]

    @property
    def unchanged(self) -> bool:
        """Whether no candidate did better than the given recipe."""
        return self.best is not None and self.best.number == 0

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do but a longer search."""
        return self.ended_by != "stop" and (self.unchanged or self.judged is not None)


async def optimise(wanted: Wanted, out: Path, *, stop: asyncio.Event, watcher: Watcher) -> Outcome:
    """Run or go on with an optimisation.

    Raises:
        OptimisationError: The recipe has no evidence, cases are too few, the budget is too small, or the
            folder is of another optimisation.
        InputError, RecipeError, PromptError, ModelError, PolicyError, RunError: As for any run.
    """
    _ = wanted.given.evidence
    wanted = replace(wanted, policies=hold_for(_files(wanted)))
    for files in wanted.given_files:
        take_cases(files.cases, files.keys)
    for name in wanted.models.values():
        demand_allowed(name)
    out.mkdir(parents=True, exist_ok=True)
    split = split_cases(wanted.files, wanted.test, wanted.seed, out / "cases")
    keep_beside(out / "cases", wanted.policies)
    with Servers(watcher.notify, stop) as servers:
        work = _Work(wanted, out, split, servers, stop, watcher)
        return await work.run()


def _files(wanted: Wanted) -> Iterator[Path | str]:
    """All whose texts are sent."""
    for files in wanted.given_files:
        yield from (*files.cases, *files.keys)
    if wanted.demos is not None:
        yield wanted.demos


class _Work:
    """One session of an optimisation."""

    def __init__(
        self,
        wanted: Wanted,
        out: Path,
        split: Split,
        servers: Servers,
        stop: asyncio.Event,
        watcher: Watcher,
    ) -> None:
        self._wanted = wanted
        self._out = out
        self._split = split
        self._servers = servers
        self._stop = stop
        self._watcher = watcher
        self._notes: list[str] = []
        self._runs = CandidateRuns(wanted, out, split.search, servers, stop, watcher)

    async def run(self) -> Outcome:
        """Proposals, search, judgement."""
        wanted, split = self._wanted, self._split
        prepared = Preparation(wanted, split, self._out, self._runs, self._servers, self._stop, self._watcher)
        space = await prepared.space()
        self._notes += prepared.notes
        search = Search(self._out, space.dimensions, len(split.search.cases), wanted.seed)
        ended_by: EndedBy = "stop" if self._stop.is_set() else await self._search(space, search)
        judged = None
        if ended_by != "stop" and search.best is not None and search.best.number > 0:
            judged = await self._judge(space, search.best)
        return Outcome(
            wanted=wanted,
            space=space,
            split=split,
            trials=tuple(search.ended),
            best=search.best,
            ended_by="stop" if self._stop.is_set() and judged is None else ended_by,
            judged=judged,
            spent=self._runs.spent(),
            notes=(*self._notes, *self._runs.notes),
        )

    async def _search(self, space: Space, search: Search) -> EndedBy:
        """Try candidates until one of the ends."""
        while sum(one.state != "refused" for one in search.ended) <= self._wanted.trials:
            attempt = search.begin(space.own)
            if attempt is None:
                return "space"
            try:
                ended_by = await self._try(space, search, attempt)
            except (RecipeError, PromptError, ModelError) as error:
                # A model may lack what another form of reply needs; an error of the given form is of all.
                other_form = space.has_other_form(attempt.choices)
                if attempt.number == 0 or (isinstance(error, ModelError) and not other_form):
                    raise
                self._watcher.notify(f"candidate {attempt.number} is refused: {error}")
                attempt.end(refused=str(error))
                continue
            if ended_by is not None:
                return ended_by
        return "trials"

    async def _try(self, space: Space, search: Search, attempt: Attempt) -> EndedBy | None:
        """Run one candidate; what ended the search, if anything did."""
        number, split = attempt.number, self._split
        # What was spent when it began: a candidate that was interrupted is not judged by its own calls.
        begun = search.noted(f"spent before {number}")
        before = self._runs.spent() if begun is None else begun
        candidate = space.candidate(attempt.choices)
        each = await self._runs.estimate(candidate)
        of_best = await self._runs.estimate(space.candidate((search.best or attempt).choices))
        of_given = await self._runs.estimate(space.candidate(space.own))
        kept = round((of_given + max(each, of_best)) * len(split.test.cases))
        needed = round(each * len(split.search.cases))
        if number and before + needed + kept > self._wanted.budget:
            self._notes.append(
                f"The next candidate would take about {plural(needed, 'token')} and the held-out cases"
                f" {kept:,}, and"
                f" {max(0, self._wanted.budget - before):,} are left: the budget ended the search."
            )
            return "budget"
        search.note(f"spent before {number}", before)
        self._watcher.notify(
            f"candidate {number} of {self._wanted.trials}: {space.in_words(attempt.choices)}"
            if number
            else "the given recipe"
        )
        for cases in search.rungs:
            folder = self._out / "trials" / f"{number:03}" / f"{cases}-cases"
            # What is kept for the end is no part of what candidates may take.
            run = await self._runs.run(
                candidate, split.search, folder, self._wanted.budget - kept, limit=cases
            )
            if run is None:
                return "stop" if self._stop.is_set() else "budget"
            scored, failed = evidence_scores(run, split.search, cases)
            if number == 0 and failed == cases:
                raise OptimisationError(
                    f"the given recipe failed on each of {plural(cases, 'case')}; see why: evigraph"
                    f" show {folder}"
                )
            if attempt.is_behind(cases, scored.values[HEADLINE]):
                break
        ended = attempt.end(failed=failed, tokens=self._runs.spent() - before)
        name = f"candidate {number}" if number else "the given recipe"
        self._watcher.notify(f"{name}: {_so_far(ended, search.best)}")
        return None

    async def _judge(self, space: Space, best: Ended) -> tuple[TaskScores, TaskScores] | None:
        """The given recipe and the best one on the cases that the search never saw."""
        test = self._split.test
        scored = []
        for name, choices in (("given", space.own), (f"candidate-{best.number:03}", best.choices)):
            self._watcher.notify(f"held-out cases: {name}")
            folder = self._out / "test" / name
            run = await self._runs.run(space.candidate(choices), test, folder, self._wanted.budget)
            if run is None:
                self._notes.append(
                    "The held-out cases are not finished; the same command, with a larger --budget if that"
                    " is why, goes on."
                )
                return None
            scores, failed = evidence_scores(run, test, len(test.cases))
            if failed:
                self._notes.append(
                    f"{failed} held-out cases failed with {name}, and count as without labels."
                )
            scored.append(scores)
        return scored[0], scored[1]


def _so_far(ended: Ended, best: Ended | None) -> str:
    shown = [f"F1 {SHARES.number(ended.score or 0)} on {plural(ended.cases, 'case')}"]
    if ended.state == "given up":
        shown.append("given up")
    if best is not None and best != ended:
        shown.append(f"best so far {SHARES.number(best.score or 0)}")
    return ", ".join(shown)
