"""What an optimisation begins with: the same arguments as before, a budget that suffices, proposals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases.scans import keep_scans_of_parts
from cases.texts import plural
from evals.optimisation.candidates import CandidateRuns, Wanted
from evals.optimisation.errors import OptimisationError
from evals.optimisation.instructions import Instruction, most_tokens, proposals, propose
from evals.optimisation.space import Candidate, Space, drawn_orders, make_space
from evals.optimisation.split import CaseFiles, Split
from graph.note_resources import PoolRecipe, open_pool
from prompts import load_prompts
from retrieval.pools.pool import DemonstrationPool
from runs.execute.assemble import connect_roles
from runs.execute.servers import Servers
from runs.execute.watcher import Watcher
from runs.record.folder import CALLS
from serving.journal.journal import Journal
from serving.protocol.ask import Ask
from serving.protocol.budget import Budget, BudgetSpent, Spend
from serving.requests.client import ModelClient
from storage.files import json_bytes, write_atomically

PLAN = "optimise.json"


@dataclass(slots=True)
class Preparation:
    """All that comes before the first candidate.

    Attributes:
        notes: What a reader of the result must know.
    """

    wanted: Wanted
    split: Split
    out: Path
    runs: CandidateRuns
    servers: Servers
    stop: asyncio.Event
    watcher: Watcher
    notes: list[str] = field(default_factory=list)

    async def space(self) -> Space:
        """Check, write what is begun, ask for proposals.

        Raises:
            OptimisationError: The folder is of another optimisation, or the budget is too small.
            InputError, PromptError, ModelError: As for any run.
        """
        wanted, variants_folder = self.wanted, self.out / "variants"
        pool = await self._pool()
        held_out = self._shown_test_cases(pool)
        bare = make_space(wanted.given, {}, {}, held_out, variants_folder)
        _keep_plan(self.out / PLAN, self._identity(pool))
        self.split.write()
        keep_scans_of_parts(
            [path for files in wanted.given_files for path in files.all],
            [part.path for part in (self.split.search, self.split.test)],
        )
        self._note_cases()
        await self._demand_budget(bare.candidate(bare.own))
        variants = await self._variants()
        orders: dict[str, list[str]] = {}
        if pool is not None:
            left_out = {*wanted.given.loaded.held_out, *held_out}
            orders = drawn_orders(pool, left_out, max(1, wanted.variants), wanted.seed)
        most = min((len(ids) for ids in orders.values()), default=0)
        drawn = orders if wanted.variants else {}
        return make_space(wanted.given, variants, drawn, held_out, variants_folder, most)

    async def _pool(self) -> DemonstrationPool | None:
        recipe = self.wanted.given.loaded
        if not isinstance(recipe, PoolRecipe):
            return None
        return await open_pool(self.wanted.demos, recipe.embedding, self.watcher.notify)

    def _shown_test_cases(self, pool: DemonstrationPool | None) -> tuple[str, ...]:
        """Ids in the pool of cases that judge the result: their labels must not reach a prompt."""
        if pool is None:
            return ()
        ids = {one.case_id for one in pool.neighbours()}
        found = ids & {id_ for case in self.split.test.cases for id_ in pool.twins(case)}
        found -= {*self.wanted.given.loaded.held_out}
        if found:
            self.notes.append(
                f"{len(found)} held-out cases are in the pool; no prompt showed them, and the result keeps"
                " them in held_out."
            )
        return tuple(sorted(found))

    def _note_cases(self) -> None:
        split = self.split
        if split.left_out:
            self.notes.append(f"Left out: {plural(split.left_out, 'case')} without labels or sentences.")
        if split.weak:
            self.notes.append(
                f"Of a weak kind, made by a model: labels of {plural(split.weak, 'case')}: a gain on"
                " them is no gain on gold."
            )

    def _identity(self, pool: DemonstrationPool | None) -> dict[str, Any]:
        """What must not change between two starts."""
        wanted = self.wanted
        contracts = wanted.given.system.contracts
        return {
            "recipe": wanted.given.loaded.model_dump(mode="json"),
            "prompts": load_prompts(wanted.given.loaded.prompts, contracts).hashes,
            "models": {role: name.identity for role, name in wanted.models.items()},
            "cases": self.split.sha256,
            "test": "file" if isinstance(wanted.test, CaseFiles) else wanted.test,
            "demonstrations": None if pool is None else pool.sha256,
            "seed": wanted.seed,
            "instructions": wanted.variants,
            "description": wanted.description,
        }

    async def _demand_budget(self, given: Candidate) -> None:
        """Refuse a budget that could not carry a single comparison, before anything is asked."""
        each = await self.runs.estimate(given)
        asks = [ask for one in self.wanted.given.instructions() for ask in self._asks(one)]
        proposing = most_tokens(asks)
        cases = len(self.split.search.cases) + len(self.split.test.cases)
        least = proposing + round(2 * each * cases)
        if least > self.wanted.budget:
            raise OptimisationError(
                f"--budget {self.wanted.budget:,} is too small: {len(asks)} proposals take up to"
                f" {plural(proposing, 'token')}, and the given recipe and one candidate on"
                f" {plural(cases, 'case')} about"
                f" {least - proposing:,}; give at least {least:,}"
            )

    def _asks(self, present: Instruction) -> list[Ask[str]]:
        wanted = self.wanted
        return proposals(present, wanted.variants, self.split.search.cases, wanted.description, wanted.seed)

    async def _variants(self) -> dict[str, list[str]]:
        """Further instructions by prompt, from the journal where they have been proposed before."""
        wanted = self.wanted
        found: dict[str, list[str]] = {}
        if not wanted.variants:
            return found
        addresses = await self.servers.addresses(wanted.models.values())
        journal = Journal(self.out / CALLS)
        spent = sum(read + written for read, written, _ in journal.tokens().values())
        budget = Budget(max_tokens=wanted.budget, spent=Spend(spent))
        recipe = wanted.given.loaded
        backends = {
            role: one.at_effort(recipe.effort_of(role))
            for role, one in connect_roles(wanted.models, addresses).items()
        }
        client = ModelClient(backends, journal, wanted.limits, budget=budget)
        try:
            for one in wanted.given.instructions():
                name = one.prompt.name
                self.watcher.notify(f"asking for {wanted.variants} instructions of {name}")
                proposed = await self._unless_stopped(propose(client, self._asks(one), one.text))
                if proposed is None:
                    break
                found[name] = proposed
                if len(found[name]) < wanted.variants:
                    self.notes.append(
                        f"{len(found[name])} of {wanted.variants} proposed instructions of {name} are usable"
                        " and unlike one another."
                    )
        except BudgetSpent as error:
            raise OptimisationError(f"the proposals did not fit into the budget: {error}") from error
        finally:
            await client.aclose()
            journal.close()
        return found

    async def _unless_stopped(self, work: Coroutine[Any, Any, list[str]]) -> list[str] | None:
        """What some work comes to; None where a signal ends it."""
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(self.stop.wait())
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)
        return None


def _keep_plan(path: Path, current: Mapping[str, Any]) -> None:
    """Write what the optimisation is of, or refuse one that is not what was begun here.

    Raises:
        OptimisationError: Names what has changed.
    """
    if path.is_file():
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
        return
    write_atomically(path, [json_bytes(current, indent=2)])
