"""Candidates as runs over one journal: their cost foreseen, run or gone on with, scored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cases.selection import Selection
from cases.submissions.archehr import Prediction
from evals.experiments.run import PlannedCell, run_cell
from evals.optimisation.given import Given
from evals.optimisation.instructions import DESCRIPTION
from evals.optimisation.space import Candidate
from evals.optimisation.split import CaseFiles, Part
from evals.scoring.gold import predictions
from evals.scoring.measures import TaskScores
from evals.scoring.score import score
from graph.resource import used_places
from runs.estimate.dry_run import dry_run
from runs.execute.assemble import Request
from runs.execute.batch import Options
from runs.execute.servers import Servers
from runs.execute.watcher import Progress, Watcher
from runs.record.folder import CALLS, RunFolder
from runs.record.manifest import BudgetCaps
from serving.journal.journal import Journal
from serving.policy.policy import HeldPolicy
from serving.protocol.limits import Limits
from serving.protocol.model_name import ModelName, Role

HEADLINE = "strict_micro_f1"
_REHEARSED = 12
"""Cases of a dry run."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for.

    Attributes:
        test: Share of the cases that the search never sees, or files of them.
        demos: Folder or URL of the pool; None is the packaged samples.
        budget: Tokens read and written, by proposals, search and judgement together.
        trials: Candidates, the given recipe not counted.
        variants: Instructions to ask for, of each prompt.
        description: Of the task, for the model that proposes.
        policies: Data policies of the files; the search's own parts of them lie elsewhere.
    """

    given: Given
    files: CaseFiles
    models: Mapping[Role, ModelName]
    budget: int
    trials: int = 20
    variants: int = 4
    test: float | CaseFiles = 0.5
    demos: Path | None = None
    seed: int = 42
    description: str = DESCRIPTION
    limits: Limits = field(default_factory=Limits)
    concurrency: int | None = None
    probe: bool = True
    policies: tuple[HeldPolicy, ...] = ()

    @property
    def given_files(self) -> list[CaseFiles]:
        """The files of both parts."""
        return [files for files in (self.files, self.test) if isinstance(files, CaseFiles)]


class _Silent:
    """Watches dry runs, which say nothing that the run itself does not."""

    def notify(self, text: str) -> None:
        pass

    def update(self, progress: Progress) -> None:
        pass


class CandidateRuns:
    """Runs of candidates in the folder of an optimisation.

    Attributes:
        notes: Why runs ended early.
    """

    def __init__(
        self,
        wanted: Wanted,
        out: Path,
        search: Part,
        servers: Servers,
        stop: asyncio.Event,
        watcher: Watcher,
    ) -> None:
        """Nothing runs yet."""
        self.notes: list[str] = []
        self._wanted = wanted
        self._out = out
        self._search = search
        self._servers = servers
        self._stop = stop
        self._watcher = watcher
        self._estimates: dict[str, float] = {}

    async def run(
        self, candidate: Candidate, part: Part, folder: Path, budget: int, limit: int | None = None
    ) -> RunFolder | None:
        """A run of a candidate; None where the budget or a signal ended it early."""
        cell = PlannedCell(folder.name, folder, self._request(candidate, part, limit), "")
        options = Options(
            "run",
            self._wanted.concurrency,
            self._wanted.limits,
            BudgetCaps(max_tokens=max(1, budget)),
            self._wanted.probe,
        )
        journal = self._out / CALLS
        Journal(journal).close()
        if self._stop.is_set():
            return None
        run = await run_cell(cell, options, journal, self._servers, self._stop, self._watcher)
        if run.manifest.status == "finished":
            return run
        if (reason := run.manifest.sessions[-1].stopped_by) is not None:
            self.notes.append(f"Stopped: {reason}.")
        return None

    def _request(self, candidate: Candidate, part: Part, limit: int | None) -> Request:
        recipe, wanted = candidate.recipe, self._wanted
        places = {} if wanted.demos is None else {"demos": wanted.demos}
        used = used_places(wanted.given.system.resources, recipe)
        return Request(
            recipe=recipe,
            recipe_origin=wanted.given.origin,
            inputs=(part.path,),
            keys=(),
            models=wanted.models,
            overrides=candidate.overrides,
            places={place: path for place, path in places.items() if place in used},
            selection=Selection(limit=limit),
            policies=wanted.policies,
        )

    async def estimate(self, candidate: Candidate) -> float:
        """Tokens of a case, by a dry run of the first search cases."""
        key = candidate.recipe.sha256
        if key not in self._estimates:
            request = self._request(candidate, self._search, _REHEARSED)
            options = Options("run", limits=self._wanted.limits)
            found = await dry_run(
                request, options, stop=asyncio.Event(), watcher=_Silent(), servers=self._servers
            )
            self._estimates[key] = found.tokens / max(1, found.ended)
        return self._estimates[key]

    def spent(self) -> int:
        """Tokens of all calls so far."""
        path = self._out / CALLS
        if not path.is_file():
            return 0
        journal = Journal(path, read_only=True)
        try:
            return sum(read + written for read, written, _ in journal.tokens().values())
        finally:
            journal.close()


def evidence_scores(run: RunFolder, part: Part, cases: int) -> tuple[TaskScores, int]:
    """Scores of the first cases of a part, and how many of them failed.

    A case that failed counts as one without an essential sentence: a candidate must not gain by failing
    where it is hard.
    """
    made = {one.case_id: one for one in predictions(run) if one.evidence is not None}
    wanted = part.cases[:cases]
    failed = sum(case.id not in made for case in wanted)
    every = [made.get(case.id, Prediction(case.id, evidence=())) for case in wanted]
    return score("2026-2", every, part.gold, refuse_unknown=False), failed
