"""An optimisation: proposals, candidates on the search cases, the best one and the given one on the others.

Every candidate is a run folder, as a cell of an experiment is, and all share one journal: what two candidates
have in common is asked once, and an optimisation that was killed asks nothing again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from cases.scans import keep_scans_of_parts
from cases.selection import Selection
from cases.submissions.archehr import Prediction
from cases.texts import plural
from evals.compare.differences import MetricDifference, Settings, compare_scores
from evals.errors import OptimisationError
from evals.experiments.run import PlannedCell, run_cell
from evals.optimisation.instructions import DESCRIPTION, Instruction, proposals, propose
from evals.optimisation.search import Attempt, Ended, Search
from evals.optimisation.space import REPLY, Given, Space, differences, drawn_orders
from evals.optimisation.split import CaseFiles, Part, Split, split_cases
from evals.pages.tables import SHARES
from evals.scoring.gold import predictions
from evals.scoring.score import score
from evals.scoring.scored_task import ScoredTask
from graph.note_resources import PoolRecipe, open_pool
from graph.recipe import Recipe, RecipeError
from graph.resource import used_places
from prompts import PromptError
from retrieval.pools.pool import DemonstrationPool
from runs.estimate.dry_run import dry_run
from runs.execute.assemble import Request, connect_roles
from runs.execute.batch import Options
from runs.execute.servers import Servers
from runs.execute.watcher import SilentWatcher, Watcher
from runs.record.folder import CALLS, RunFolder
from runs.record.manifest import BudgetCaps
from serving.backends import demand_allowed
from serving.journal.journal import Journal
from serving.policy.gate import hold_for, take_cases
from serving.policy.policy import HeldPolicy, keep_beside
from serving.protocol.budget import Budget, BudgetSpent, Spend
from serving.protocol.errors import ModelError
from serving.protocol.messages import max_prompt_tokens
from serving.protocol.model_name import ModelName, Role
from serving.protocol.request import Request as ModelRequest
from serving.requests.client import ModelClient
from storage.files import json_bytes, write_atomically

HEADLINE = "strict_micro_f1"
PLAN = "optimise.json"
_REHEARSED = 12
"""Cases of a dry run."""

EndedBy = Literal["trials", "space", "budget", "stop"]
"""Reason why the search ended: trials used up, no candidate left, budget, or signal."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The user's request.

    Attributes:
        test: Share of the cases that the search never sees, or files of them.
        demos: Folder or URL of the pool; None is the packaged samples.
        budget: Tokens read and written, by proposals, search and judgement together.
        trials: Candidates, the given recipe not counted.
        variants: Instructions to ask for, of each prompt.
        options: Of every run.
        description: Of the task, for the model that proposes.
        policies: Data policies of the files; the search keeps its own parts of them elsewhere.
    """

    given: Given
    files: CaseFiles
    models: Mapping[Role, ModelName]
    budget: int
    options: Options
    trials: int = 20
    variants: int = 4
    test: float | CaseFiles = 0.5
    demos: Path | None = None
    seed: int = 42
    description: str = DESCRIPTION
    policies: tuple[HeldPolicy, ...] = ()

    @property
    def given_files(self) -> list[CaseFiles]:
        return [files for files in (self.files, self.test) if isinstance(files, CaseFiles)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of an optimisation.

    Attributes:
        best: The candidate that did best on the search cases, maybe the given recipe; None before any ended.
        gain: Strict micro F1 of the given recipe and of the best one on the cases that the search never saw,
            0 to 100; None where these runs have not ended, or the best one is the given one.
        spent: Tokens.
    """

    wanted: Wanted
    space: Space
    split: Split
    trials: tuple[Ended, ...]
    best: Ended | None
    ended_by: EndedBy
    gain: MetricDifference | None
    spent: int
    notes: tuple[str, ...]

    @property
    def unchanged(self) -> bool:
        """Whether no candidate did better than the given recipe."""
        return self.best is not None and self.best.number == 0

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do but a longer search."""
        return self.ended_by != "stop" and (self.unchanged or self.gain is not None)


async def optimise(wanted: Wanted, out: Path, *, stop: asyncio.Event, watcher: Watcher) -> Outcome:
    """Run or go on with an optimisation.

    Raises:
        OptimisationError: The recipe has no evidence, cases are too few, the budget is too small, or the
            folder is of another optimisation.
        InputError, RecipeError, PromptError, ModelError, PolicyError, RunError: As for any run.
    """
    _ = wanted.given.evidence
    sent = [path for files in wanted.given_files for path in (*files.cases, *files.keys)]
    wanted = replace(wanted, policies=hold_for([*sent, *filter(None, (wanted.demos,))]))
    for files in wanted.given_files:
        take_cases(files.cases, files.keys)
    for name in wanted.models.values():
        demand_allowed(name)
    out.mkdir(parents=True, exist_ok=True)
    split = split_cases(wanted.files, wanted.test, wanted.seed, out / "cases")
    keep_beside(out / "cases", wanted.policies)
    with Servers(watcher.notify, stop) as servers:
        return await _Optimisation(wanted, out, split, servers, stop, watcher).run()


@dataclass(slots=True)
class _Optimisation:
    """One session of an optimisation."""

    wanted: Wanted
    out: Path
    split: Split
    servers: Servers
    stop: asyncio.Event
    watcher: Watcher
    notes: list[str] = field(default_factory=list)
    estimates: dict[str, float] = field(default_factory=dict)

    async def run(self) -> Outcome:
        space = await self._space()
        search = Search(self.out, space.dimensions, len(self.split.search.cases), self.wanted.seed)
        ended_by: EndedBy = "stop" if self.stop.is_set() else await self._search(space, search)
        gain = None
        if ended_by != "stop" and search.best is not None and search.best.number > 0:
            gain = await self._judge(space, search.best)
        return Outcome(
            wanted=self.wanted,
            space=space,
            split=self.split,
            trials=tuple(search.ended),
            best=search.best,
            ended_by="stop" if self.stop.is_set() and gain is None else ended_by,
            gain=gain,
            spent=self._spent(),
            notes=tuple(self.notes),
        )

    async def _space(self) -> Space:
        """Check, write the plan, request proposals."""
        wanted, split, folder = self.wanted, self.split, self.out / "variants"
        recipe = wanted.given.loaded
        assert isinstance(recipe, PoolRecipe)
        pool = await open_pool(wanted.demos, recipe.embedding, self.watcher.notify)
        held_out = self._shown_test_cases(pool)
        self._keep_plan(pool)
        split.write()
        sources = [files.source for files in wanted.given_files]
        keep_scans_of_parts(
            [path for source in sources for path in (*source.paths, *source.keys)],
            [split.search.path, split.test.path],
        )
        if split.left_out:
            self.notes.append(f"Left out: {plural(split.left_out, 'case')} without labels or sentences.")
        if split.weak:
            self.notes.append(
                f"Of a weak kind, made by a model: labels of {plural(split.weak, 'case')}: a gain on"
                " them may not be a gain on gold."
            )
        bare = Space(wanted.given, {}, {}, held_out, folder)
        await self._demand_budget(bare.candidate(bare.own))
        variants = await self._variants() if wanted.variants else {}
        orders = drawn_orders(pool, {*recipe.held_out, *held_out}, max(1, wanted.variants), wanted.seed)
        most = min((len(ids) for ids in orders.values()), default=0)
        return Space(wanted.given, variants, orders if wanted.variants else {}, held_out, folder, most)

    def _shown_test_cases(self, pool: DemonstrationPool) -> tuple[str, ...]:
        """Ids in the pool of cases that judge the result: their labels must not reach a prompt."""
        ids = {one.case_id for one in pool.neighbours()}
        found = ids & {id_ for case in self.split.test.cases for id_ in pool.twins(case)}
        found -= {*self.wanted.given.loaded.held_out}
        if found:
            self.notes.append(
                f"{len(found)} held-out cases are in the pool; no prompt showed them, and the result keeps"
                " them in held_out."
            )
        return tuple(sorted(found))

    def _keep_plan(self, pool: DemonstrationPool) -> None:
        """Write the plan, or refuse a plan other than the one begun here."""
        wanted, path = self.wanted, self.out / PLAN
        current = {
            "recipe": wanted.given.loaded.model_dump(mode="json"),
            "prompts": wanted.given.prompts.hashes,
            "models": {role: name.identity for role, name in wanted.models.items()},
            "cases": self.split.sha256,
            "test": "file" if isinstance(wanted.test, CaseFiles) else wanted.test,
            "demonstrations": pool.sha256,
            "seed": wanted.seed,
            "instructions": wanted.variants,
            "description": wanted.description,
        }
        if not path.is_file():
            write_atomically(path, [json_bytes(current, indent=2)])
            return
        try:
            recorded = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise OptimisationError(f"{path}: cannot be read: {error}; give another --out") from None
        changed = [name for name in current if recorded.get(name) != current[name]]
        if changed:
            raise OptimisationError(
                f"{path.parent}: changed since this optimisation began: {', '.join(changed)}. Undo the"
                " change, or give another --out"
            )

    async def _demand_budget(self, given: Recipe) -> None:
        """Refuse a budget that could not carry a single comparison, before anything is asked."""
        asks = [ask for one in self.wanted.given.instructions() for ask in self._asks(one)]
        proposing = sum(max_prompt_tokens(ask.messages) + ask.max_tokens for ask in asks)
        cases = len(self.split.search.cases) + len(self.split.test.cases)
        comparing = round(2 * await self._estimate(given) * cases)
        if proposing + comparing > self.wanted.budget:
            raise OptimisationError(
                f"--budget {self.wanted.budget:,} is too small: {len(asks)} proposals take up to"
                f" {plural(proposing, 'token')}, and the given recipe and one candidate on"
                f" {plural(cases, 'case')} about {comparing:,}; give at least {proposing + comparing:,}"
            )

    def _asks(self, present: Instruction) -> list[ModelRequest[str]]:
        wanted = self.wanted
        return proposals(present, wanted.variants, self.split.search.cases, wanted.description, wanted.seed)

    async def _variants(self) -> dict[str, list[str]]:
        """Further instructions by prompt, from the journal where they have been proposed before."""
        wanted, recipe = self.wanted, self.wanted.given.loaded
        found: dict[str, list[str]] = {}
        addresses = await self.servers.addresses(wanted.models.values())
        backends = {
            role: one.at_effort(recipe.effort_of(role))
            for role, one in connect_roles(wanted.models, addresses).items()
        }
        budget = Budget(max_tokens=wanted.budget, spent=Spend(self._spent()))
        with closing(Journal(self.out / CALLS)) as journal:
            client = ModelClient(backends, journal, wanted.options.limits, budget=budget)
            async with aclosing(client):
                for present in wanted.given.instructions():
                    if self.stop.is_set():
                        break
                    name = present.prompt.name
                    self.watcher.notify(f"asking for {wanted.variants} instructions of {name}")
                    try:
                        found[name] = await propose(client, self._asks(present), present.text)
                    except BudgetSpent as error:
                        fault = f"the proposals did not fit into the budget: {error}"
                        raise OptimisationError(fault) from error
        for name, texts in found.items():
            if len(texts) < wanted.variants:
                self.notes.append(
                    f"{len(texts)} of {wanted.variants} proposed instructions of {name} are usable and unlike"
                    " one another."
                )
        return found

    async def _search(self, space: Space, search: Search) -> EndedBy:
        """Try candidates until one of the ends."""
        while sum(one.state != "refused" for one in search.ended) <= self.wanted.trials:
            attempt = search.begin(space.own)
            if attempt is None:
                return "space"
            try:
                ended_by = await self._try(space, search, attempt)
            except (RecipeError, PromptError, ModelError) as error:
                # A model may lack what another form of reply needs; an error of the given form is of all.
                own_form = attempt.choices[REPLY] == space.own[REPLY]
                if attempt.number == 0 or (isinstance(error, ModelError) and own_form):
                    raise
                self.watcher.notify(f"candidate {attempt.number} rejected: {error}")
                search.end(attempt, refused=str(error))
                continue
            if ended_by is not None:
                return ended_by
        return "trials"

    async def _try(self, space: Space, search: Search, attempt: Attempt) -> EndedBy | None:
        """Run one candidate; what ended the search, if anything did."""
        number, split = attempt.number, self.split
        name = f"candidate {number}" if number else "the given recipe"
        # Spending when it began, so an interrupted candidate is not charged for its earlier calls.
        begun = search.noted(f"spent before {number}")
        before = self._spent() if begun is None else begun
        candidate = space.candidate(attempt.choices)
        each, of_best, of_given = [
            await self._estimate(space.candidate(choices))
            for choices in (attempt.choices, (search.best or attempt).choices, space.own)
        ]
        kept = round((of_given + max(each, of_best)) * len(split.test.cases))
        needed = round(each * len(split.search.cases))
        if number and before + needed + kept > self.wanted.budget:
            self.notes.append(
                f"The next candidate would take about {plural(needed, 'token')} and the held-out cases"
                f" {kept:,}, and {max(0, self.wanted.budget - before):,} are left: the budget ended the"
                " search."
            )
            return "budget"
        if begun is None:
            search.note(f"spent before {number}", before)
        self.watcher.notify(
            f"{name} of {self.wanted.trials}: {space.in_words(attempt.choices)}" if number else name
        )
        for cases in search.rungs:
            folder = self.out / "trials" / f"{number:03}" / f"{cases}-cases"
            # Candidates may not use the budget reserved for the end.
            run = await self._run_on(candidate, split.search, folder, self.wanted.budget - kept, cases)
            if run is None:
                return "stop" if self.stop.is_set() else "budget"
            scored, failed = evidence_scores(run, split.search, cases)
            if number == 0 and failed == cases:
                raise OptimisationError(
                    f"the given recipe failed on each of {plural(cases, 'case')}; see why: evigraph"
                    f" show {folder}"
                )
            if search.is_behind(attempt, cases, scored.values[HEADLINE]):
                break
        ended = search.end(attempt, failed=failed, tokens=self._spent() - before)
        shown = [f"F1 {SHARES.number(ended.score or 0)} on {plural(ended.cases, 'case')}"]
        shown += ["given up"] if ended.state == "given up" else []
        if search.best is not None and search.best != ended:
            shown.append(f"best so far {SHARES.number(search.best.score or 0)}")
        self.watcher.notify(f"{name}: {', '.join(shown)}")
        return None

    async def _judge(self, space: Space, best: Ended) -> MetricDifference | None:
        """The given recipe and the best one on the cases that the search never saw."""
        judged: list[ScoredTask] = []
        for name, choices in (("given", space.own), (f"candidate-{best.number:03}", best.choices)):
            self.watcher.notify(f"held-out cases: {name}")
            folder, test = self.out / "test" / name, self.split.test
            run = await self._run_on(space.candidate(choices), test, folder, self.wanted.budget)
            if run is None:
                self.notes.append(
                    "The held-out cases are not finished; continue with the same command, with a larger"
                    " --budget if the budget ran out."
                )
                return None
            scores, failed = evidence_scores(run, test, len(test.cases))
            judged.append(scores)
            if failed:
                self.notes.append(f"{failed} held-out cases failed with {name}, and count as without labels.")
        (task,) = compare_scores(judged[:1], judged[1:], Settings())
        return next(one for one in task.metrics if one.name == HEADLINE)

    async def _run_on(
        self, candidate: Recipe, part: Part, folder: Path, budget: int, limit: int | None = None
    ) -> RunFolder | None:
        """A run of a candidate; None where the budget or a signal ended it early."""
        cell = PlannedCell(folder.name, folder, self._request(candidate, part, limit), "")
        options = replace(self.wanted.options, budget=BudgetCaps(max_tokens=max(1, budget)))
        journal = self.out / CALLS
        Journal(journal).close()
        if self.stop.is_set():
            return None
        run = await run_cell(cell, options, journal, self.servers, self.stop, self.watcher)
        if run.manifest.status == "finished":
            return run
        if (reason := run.manifest.sessions[-1].stopped_by) is not None:
            self.notes.append(f"Stopped: {reason}.")
        return None

    def _request(self, candidate: Recipe, part: Part, limit: int | None) -> Request:
        wanted = self.wanted
        shows_pool = "demos" in used_places(wanted.given.system.resources, candidate)
        return Request(
            recipe=candidate,
            recipe_origin=wanted.given.origin,
            inputs=(part.path,),
            keys=(),
            models=wanted.models,
            overrides=differences(wanted.given.loaded, candidate),
            places={"demos": wanted.demos} if wanted.demos is not None and shows_pool else {},
            selection=Selection(limit=limit),
            policies=wanted.policies,
        )

    async def _estimate(self, candidate: Recipe) -> float:
        """Tokens of a case, by a dry run of the first search cases."""
        key = candidate.sha256
        if key not in self.estimates:
            request = self._request(candidate, self.split.search, _REHEARSED)
            options = Options("run", limits=self.wanted.options.limits)
            found = await dry_run(
                request, options, stop=asyncio.Event(), watcher=SilentWatcher(), servers=self.servers
            )
            self.estimates[key] = found.tokens / max(1, found.ended)
        return self.estimates[key]

    def _spent(self) -> int:
        """Tokens of all calls so far."""
        if not (self.out / CALLS).is_file():
            return 0
        with closing(Journal(self.out / CALLS, read_only=True)) as journal:
            return sum(read + written for read, written, _ in journal.tokens().values())


def evidence_scores(run: RunFolder, part: Part, cases: int) -> tuple[ScoredTask, int]:
    """Scores of the first cases of a part, and how many of them failed.

    A case that failed counts as one without an essential sentence: a candidate must not gain by failing
    where it is hard.
    """
    made = {one.case_id: one for one in predictions(run) if one.evidence is not None}
    wanted = part.cases[:cases]
    failed = sum(case.id not in made for case in wanted)
    every = [made.get(case.id, Prediction(case.id, evidence=())) for case in wanted]
    return score("2026-2", every, part.gold, refuse_unknown=False), failed
