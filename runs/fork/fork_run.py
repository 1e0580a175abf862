"""The new part of a fork: run it, and write its folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

from cases.records import Case
from nodes.core.failure import NodeFailure, as_failure
from runs.execute.assemble import Assembly
from runs.execute.case_run import CaseResult, case_line, end_line, successors
from runs.execute.watcher import Progress, Watcher
from runs.fork.replay import Inherited, thread
from runs.record.audit import record_end, record_if_possible, record_start
from runs.record.folder import CALLS, Line, RunFolder, RunWriter
from runs.record.manifest import Counts, Session, Status, utc_now
from runs.record.trace_file import CaseTrace
from serving.journal.journal import Journal
from serving.policy.traffic import since, so_far
from serving.protocol.limits import Limits
from serving.requests.client import ModelClient


async def run_fork(
    folder: RunWriter,
    run: RunFolder,
    assembly: Assembly,
    inherited: Inherited,
    recorded: Sequence[Line],
    case: Case,
    limits: Limits,
    stop: asyncio.Event,
    watcher: Watcher,
) -> None:
    """Run a fork to its end or to a stop, and leave its folder readable however that ends.

    `recorded` is the case's trace in the original, without its end line.
    """
    manifest = folder.manifest
    session = Session(command="rerun", started=utc_now())
    manifest.sessions.append(session)
    progress = Progress(total=1)
    status: Status = "stopped"
    journal, sent_before = Journal(folder.path / CALLS), so_far()
    try:
        _copy_calls(run, [recorded[step] for step in inherited.steps], journal)
        client = ModelClient(
            assembly.backends,
            journal,
            limits,
            progress.usage,
            prices=manifest.budget.prices,
        )
        folder.save_manifest()
        record_if_possible(run.path, "forked", case=case.id, fork=folder.path.name)
        record_start(folder.path, manifest, "rerun", journal)
        watcher.update(progress)
        try:
            result = await _until_stopped(_run_case(assembly, client, inherited, recorded, case), stop)
        finally:
            await client.aclose()
        status = "interrupted"
        if result is not None:
            folder.append(result.line, result.trace)
            status, manifest.counts = "finished", _counts(result.line)
            progress.done, progress.failed = manifest.counts.done, manifest.counts.failed
            watcher.update(progress)
    finally:
        journal.close()
        manifest.status = status
        session.end(progress.usage)
        folder.save_manifest()
        record_end(folder.path, status, manifest.counts.total, since(sent_before, so_far()))


def _copy_calls(run: RunFolder, lines: Sequence[Line], journal: Journal) -> None:
    """Prompts and replies of the inherited steps, so that the fork can be read and moved by itself."""
    source = Journal(run.path / CALLS, read_only=True)
    try:
        source.copy_calls((call["key"] for line in lines for call in line["calls"]), journal)
    finally:
        source.close()


async def _run_case(
    assembly: Assembly, client: ModelClient, inherited: Inherited, recorded: Sequence[Line], case: Case
) -> CaseResult:
    graph = assembly.system.build(checkpointer=inherited.checkpointer)
    context = assembly.context(case, client)
    trace = CaseTrace(case.id, successors(graph))
    for event in inherited.events:
        trace.record(event["payload"], event["step"])
    config = thread(case.id)
    state: Any = (await graph.aget_state(config)).values
    failure: NodeFailure | None = None
    stream: AsyncIterator[Any] = graph.astream(None, config, context=context, stream_mode=["debug", "values"])
    try:
        async for mode, event in stream:
            if mode == "values":
                state = event
            elif event["type"] != "checkpoint" and event["payload"]["id"] not in inherited.tasks:
                trace.record(event["payload"], event["step"])
    except Exception as error:
        # The border of a case, as in a batch.
        failure = as_failure(error)
    lines = _after(inherited.steps, recorded, trace.lines(failure))
    line = case_line(case.id, case.sentence_ids, state, lines, failure, assembly.system.results)
    end = end_line(line, len(lines), trace)
    end["seconds"] = round(end["seconds"] + _end_of(lines), 4)
    return CaseResult(line, [*lines, end])


def _after(steps: Sequence[int], recorded: Sequence[Line], lines: Sequence[Line]) -> list[Line]:
    """The inherited steps as the original has them, with the route from there, and the new ones after them.

    New steps begin when the inherited ones had ended.
    """
    kept = [
        {**recorded[step], "step": number, "next": lines[number]["next"], "inherited": True}
        for number, step in enumerate(steps)
    ]
    end = _end_of(kept)
    new = [{**line, "started": round(line["started"] + end, 4)} for line in lines[len(steps) :]]
    return [*kept, *new]


def _end_of(lines: Sequence[Line]) -> float:
    """When the last of the inherited steps had ended, in seconds since its case began."""
    inherited = (line for line in lines if line.get("inherited"))
    return max((line["started"] + line["seconds"] for line in inherited), default=0.0)


async def _until_stopped(work: Coroutine[Any, Any, CaseResult], stop: asyncio.Event) -> CaseResult | None:
    """The result, or None if a stop came first."""
    running = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else None
    finally:
        running.cancel()
        stopped.cancel()
        await asyncio.gather(running, stopped, return_exceptions=True)


def _counts(line: Line) -> Counts:
    if line["error"] is None:
        return Counts(done=1)
    return Counts(failed=1, errors={line["error"]["class"]: 1})
