"""A dry run: the real graph over the real cases, with nobody asked and nothing kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cases.records import Case, InvalidCase
from nodes.answer.answer_ideally import IDEAL_REPLY, find_ideal_faults
from nodes.answer.answer_rules import find_faults
from nodes.answer.biomedical_settings import IdealSettings
from nodes.answer.generate_answer import ANSWER_REPLY
from nodes.answer.generate_cited_answer import CITED_ANSWER_REPLY
from nodes.core.context import Context
from nodes.core.settings import AnswerSettings, ReviewSettings
from retrieval.demonstrations import DemonstrationPool, evidence_text
from runs.assemble import Assembly, Request, assemble
from runs.batch import MOST_REMARKS, Options
from runs.case_run import CaseResult, invalid_case, run_case, successors
from runs.estimate import Correction, Estimate
from runs.folder import CALLS
from runs.node_tools import node_tools
from runs.rehearsed_replies import writer
from runs.servers import Servers
from runs.trace import Successors
from runs.watcher import Progress, Watcher
from serving.backends import Backend
from serving.client import ModelClient
from serving.errors import CallError
from serving.journal import Journal
from serving.limits import Limits
from serving.messages import Message
from serving.rehearsal import Tallies, added, rehearse
from serving.token_counter import TokenCounter

_PROMPT_OF = {
    ANSWER_REPLY: "generate_answer",
    CITED_ANSWER_REPLY: "generate_cited_answer",
    IDEAL_REPLY: "answer_ideally",
}
"""Whose correction turn sends an answer back, by the format of the answer."""

CASES_AT_ONCE = 16
"""Enough to keep a server's tokenizer busy."""


async def dry_run(request: Request, options: Options, *, stop: asyncio.Event, watcher: Watcher) -> Estimate:
    """Check everything as for a run, then count what it would ask, and ask nothing.

    A `stop` ends it early, with an estimate from the cases that had ended.

    Raises:
        InputError, RecipeError, PromptError, ModelError: As for a run.
        JournalError: The temporary folder cannot be written.
    """
    with Servers(watcher.remark, stop) as servers:
        assembly = await assemble(request, watcher.remark, servers, probing=False)
        return await _rehearse(request, assembly, options, stop, watcher)


async def _rehearse(
    request: Request, assembly: Assembly, options: Options, stop: asyncio.Event, watcher: Watcher
) -> Estimate:
    tallies: Tallies = {}
    foreseen: dict[str, dict[str, str]] = {}
    # Nobody reviews a rehearsal, and a case that waits would leave out the calls after its review.
    assembly = replace(assembly, recipe=assembly.recipe.model_copy(update={"review": ReviewSettings()}))
    write = writer(assembly.recipe, foreseen)
    # One rehearsal a model, however many roles share it.
    rehearsed = {id(one): rehearse(one, write, tallies) for one in assembly.backends.values()}
    backends = {role: rehearsed[id(one)] for role, one in assembly.backends.items()}
    progress = Progress(total=assembly.manifest.inputs.cases)
    rehearsal = _Rehearsal(replace(assembly, backends=backends), foreseen, progress, watcher)
    with TemporaryDirectory(prefix="evigraph-") as folder:
        journal = Journal(Path(folder) / CALLS)
        limits = Limits(max_connections=options.limits.max_connections, max_retries=0)
        client = ModelClient(backends, journal, limits, progress.usage)
        try:
            await rehearsal.run(client, stop)
            correction = await _correction(assembly, backends["answer"], tallies)
        finally:
            await client.aclose()
            journal.close()
    inputs = assembly.manifest.inputs
    return Estimate(
        system=assembly.recipe.system,
        cases=inputs.cases,
        input_cases=await asyncio.to_thread(_count, assembly) if inputs.limit else inputs.cases,
        ended=progress.done + progress.failed,
        failed=rehearsal.failed,
        models={role: str(one.name) for role, one in backends.items()},
        priced_as={role: one.name.identity for role, one in backends.items()},
        tallies={
            role: added(part for (asked, _), part in tallies.items() if asked == role)
            for role in backends
            if any(asked == role for asked, _ in tallies)
        },
        budget=options.budget,
        correction=correction,
    )


class _Rehearsal:
    """The cases side by side; memory stays flat, as each is let go when it has ended."""

    def __init__(
        self,
        assembly: Assembly,
        foreseen: dict[str, dict[str, str]],
        progress: Progress,
        watcher: Watcher,
    ) -> None:
        self.failed: Counter[str] = Counter()
        self._assembly = assembly
        self._foreseen = foreseen
        self._progress = progress
        self._watcher = watcher

    async def run(self, client: ModelClient, stop: asyncio.Event) -> None:
        """Until no case is left, or the stop."""
        waiting = islice(self._assembly.source, self._assembly.manifest.inputs.limit)
        following = successors(self._assembly.graph)
        workers = [asyncio.create_task(self._work(client, waiting, following)) for _ in range(CASES_AT_ONCE)]
        everything: asyncio.Future[Any] = asyncio.gather(*workers)
        stopped: asyncio.Future[Any] = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({everything, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                everything.result()
        finally:
            for task in (stopped, *workers):
                task.cancel()
            await asyncio.gather(*workers, everything, return_exceptions=True)

    async def _work(
        self, client: ModelClient, waiting: Iterator[Case | InvalidCase], following: Successors
    ) -> None:
        for case in waiting:
            if isinstance(case, InvalidCase):
                self._count(invalid_case(case))
                await asyncio.sleep(0)
                continue
            context = Context(
                cases={case.id: case},
                client=client,
                prompts=self._assembly.prompts,
                demonstrations=self._assembly.pool,
                ranker=self._assembly.ranker,
                **node_tools(self._assembly.retrieval, self._assembly.sources, self._assembly.shots),
                settings=self._assembly.recipe,
            )
            self._foreseen[case.id] = await _foresee(self._assembly.pool, case)
            self._count(await run_case(self._assembly.graph, context, case, following))
            client.forget(case.id)
            del self._foreseen[case.id]

    def _count(self, result: CaseResult) -> None:
        error = result.line["error"]
        if error is None:
            self._progress.done += 1
        else:
            self._progress.failed += 1
            self.failed[error["class"]] += 1
            if self._progress.failed <= MOST_REMARKS:
                self._watcher.remark(
                    f"case {result.line['case_id']} would fail: {error['class']}: {error['message']}"
                )
        self._watcher.update(self._progress)


async def _foresee(pool: DemonstrationPool | None, case: Case) -> dict[str, str]:
    """The intent of the nearest demonstration, which leads to answer demonstrations of likely length."""
    if pool is None:
        return {}
    try:
        nearest = await pool.nearest("evidence", evidence_text(case), 1, excluded=pool.twins(case))
    except CallError:
        # The case will meet the same failure, and tell of it.
        return {}
    return (
        {
            "primary": nearest[0].intent or "",
            "secondary": nearest[0].secondary_intent or "none",
        }
        if nearest
        else {}
    )


async def _correction(assembly: Assembly, backend: Backend, tallies: Tallies) -> Correction | None:
    """The last correction of an answer that is as long as its token limit, with all faults quoted."""
    form = next((name for name in _PROMPT_OF if ("answer", name) in tallies), None)
    rules = assembly.recipe.ideal if form == IDEAL_REPLY else assembly.recipe.answer
    if form is None or rules.corrections == 0:
        return None
    answers = tallies["answer", form]
    quoted = assembly.prompts[_PROMPT_OF[form]].render_correction("; ".join(_all_faults(rules)))
    turn = await TokenCounter(backend.count_tokens).conversation([Message("user", quoted)])
    prompt = -(-answers.input_tokens // answers.calls)
    turns = rules.corrections * (rules.max_tokens + turn.tokens)
    return Correction(prompt + turns, rules.max_tokens, rules.corrections * answers.calls)


def _all_faults(rules: AnswerSettings | IdealSettings) -> list[str]:
    if isinstance(rules, IdealSettings):
        return find_ideal_faults(f"It said {'so ' * rules.max_words}again. And then", rules.max_words)
    too_many = (rules.max_sentences + 1) * f"It said {'so ' * rules.max_words}again. "
    return find_faults(f"{too_many}And then", rules)


def _count(assembly: Assembly) -> int:
    return sum(1 for _ in assembly.source)
