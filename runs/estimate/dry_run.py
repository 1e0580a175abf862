"""A dry run: the real graph over the real cases, with no model called and nothing kept."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace

from cases.records import InvalidCase
from runs.estimate.estimate import Correction, Estimate
from runs.execute.assemble import Assembly, Request, assemble
from runs.execute.batch import MAX_NOTICES, Options, all_ended
from runs.execute.case_run import invalid_case
from runs.execute.rehearsal import rehearse, rehearsed, writer
from runs.execute.servers import Servers
from runs.execute.watcher import Progress, Watcher
from serving.backends import Backend
from serving.journal.journal import Journal
from serving.protocol.limits import Limits
from serving.protocol.messages import Message
from serving.requests.client import ModelClient
from serving.requests.dry_run import Tallies, TokenCounter, added, without_model

CASES_AT_ONCE = 16
"""Enough to keep a server's tokenizer busy."""


async def dry_run(
    request: Request,
    options: Options,
    *,
    stop: asyncio.Event,
    watcher: Watcher,
    servers: Servers | None = None,
) -> Estimate:
    """Check everything as for a run, then count its calls without sending any.

    A `stop` ends it early, with an estimate from the cases that had ended. Servers that are given are left
    running.

    Raises:
        InputError, RecipeError, PromptError, ModelError: As for a run.
        JournalError: The temporary folder cannot be written.
    """
    with Servers(watcher.notify, stop) if servers is None else contextlib.nullcontext(servers) as started:
        assembly = await assemble(request, watcher.notify, started, probing=False)
        return await _count_calls(request, assembly, options, stop, watcher)


async def _count_calls(
    request: Request, assembly: Assembly, options: Options, stop: asyncio.Event, watcher: Watcher
) -> Estimate:
    tallies: Tallies = {}
    foreseen: dict[str, dict[str, str]] = {}
    assembly = replace(assembly, recipe=rehearsed(assembly.recipe))
    write = writer(assembly.system, assembly.recipe, foreseen)
    # One backend without a model each, however many roles share it.
    dry = {id(one): without_model(one, write, tallies) for one in assembly.backends.values()}
    backends = {role: dry[id(one)] for role, one in assembly.backends.items()}
    progress = Progress(total=assembly.manifest.inputs.cases)
    journal = Journal(None)
    limits = Limits(max_connections=options.limits.max_connections, max_retries=0)
    client = ModelClient(backends, journal, limits, progress.usage)
    try:
        asked = replace(assembly, backends=backends)
        failed = await _rehearse_all(asked, client, foreseen, progress, watcher, stop)
        correction = await _correction(assembly, backends["answer"], tallies)
    finally:
        await client.aclose()
        journal.close()
    inputs, whole = assembly.manifest.inputs, assembly.source.selection.takes_all
    limits_of = [one.batches.provider.limits for one in assembly.backends.values() if one.batches]
    return Estimate(
        system=assembly.recipe.system,
        cases=inputs.cases,
        input_cases=inputs.cases if whole else await asyncio.to_thread(_count, assembly),
        ended=progress.done + progress.failed,
        failed=failed,
        models={role: str(one.name) for role, one in backends.items()},
        priced_as={role: one.name.identity for role, one in backends.items()},
        tallies={
            role: added(part for (asked, _), part in tallies.items() if asked == role)
            for role in backends
            if any(asked == role for asked, _ in tallies)
        },
        budget=options.budget,
        correction=correction,
        batched=frozenset(role for role, one in assembly.backends.items() if one.batches is not None),
        price_share=max((one.price_share for one in limits_of), default=1.0),
        hours=max((one.hours for one in limits_of), default=0.0),
        not_sent=tuple(dict.fromkeys(text for one in backends.values() for text in one.abilities.not_sent)),
    )


async def _rehearse_all(
    assembly: Assembly,
    client: ModelClient,
    foreseen: dict[str, dict[str, str]],
    progress: Progress,
    watcher: Watcher,
    stop: asyncio.Event,
) -> Counter[str]:
    """Rehearse the cases side by side; how many failed, by class of error.

    Memory stays flat, as each is let go when it has ended.
    """
    waiting = iter(assembly.source)
    failed: Counter[str] = Counter()

    async def work() -> None:
        for case in waiting:
            if isinstance(case, InvalidCase):
                line = invalid_case(case, assembly.system.results).line
            else:
                line = (await rehearse(assembly, client, case, foreseen)).line
            error = line["error"]
            if error is None:
                progress.done += 1
            else:
                progress.failed += 1
                failed[error["class"]] += 1
                if progress.failed <= MAX_NOTICES:
                    watcher.notify(f"case {line['case_id']} would fail: {error['class']}: {error['message']}")
            watcher.update(progress)
            if isinstance(case, InvalidCase):
                # A long row of them must not hold up the event loop.
                await asyncio.sleep(0)

    await all_ended((work() for _ in range(CASES_AT_ONCE)), stop)
    return failed


async def _correction(assembly: Assembly, backend: Backend, tallies: Tallies) -> Correction | None:
    """The last correction of an answer that is as long as its token limit, with all faults quoted."""
    declared = (node.corrected for node in assembly.system.nodes if not node.is_off(assembly.recipe))
    form = next((one for one in declared if one is not None and ("answer", one.reply) in tallies), None)
    if form is None or form.settings(assembly.recipe).corrections == 0:
        return None
    rules = form.settings(assembly.recipe)
    answers = tallies["answer", form.reply]
    quoted = assembly.prompts[form.prompt].render_correction("; ".join(form.faults(assembly.recipe)))
    turn = await TokenCounter(backend.count_tokens).conversation([Message("user", quoted)])
    prompt = -(-answers.input_tokens // answers.calls)
    turns = rules.corrections * (rules.max_tokens + turn.tokens)
    return Correction(prompt + turns, rules.max_tokens, rules.corrections * answers.calls)


def _count(assembly: Assembly) -> int:
    return sum(1 for _ in assembly.source.unselected)
