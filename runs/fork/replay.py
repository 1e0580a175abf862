"""A case through its graph once more from the journal, up to where a fork begins. Nothing is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

from cases.records import Case
from graph.resource import Opened, Resource, ResourceRequest, open_resources
from graph.system import System
from nodes.core.context import Context
from nodes.core.failure import NodeFailure, as_failure
from nodes.core.recipe import Recipe
from prompts import load_prompts, replace_prompts
from runs.execute.assemble import Assembly, Prepared, Report, close_backends, recorded_places
from runs.execute.case_run import case_config
from runs.fork.forks import ForkPoint
from runs.record.folder import CALLS, RunFolder
from runs.record.manifest import Manifest, Model, RunError
from runs.record.trace_file import CaseTrace, Line
from serving.backends import Backend, connect
from serving.backends.backend import Server
from serving.journal.journal import Journal
from serving.protocol.errors import CallError, ModelError
from serving.protocol.limits import Limits
from serving.protocol.messages import Answer
from serving.protocol.model_name import Role, parse_model_name, recorded_name
from serving.protocol.request import AnyRequest
from serving.requests.client import ModelClient
from weights.registry import WeightsError

Event = Mapping[str, Any]


class RecordedCalls(Journal):
    """The journal of a run that may still be going on: nothing is written."""

    def reject(self, keys: Sequence[str]) -> None:
        """Leave it: the run itself has marked them."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """The beginning of a case as a fork takes it over.

    Attributes:
        checkpointer: Holds one checkpoint, with the writes of nodes that ran in parallel to the fork's.
        events: LangGraph's task events of all inherited executions.
        tasks: Ids of those that began together with the fork's node.
        steps: Their steps in the recorded trace, in order.
    """

    checkpointer: InMemorySaver
    events: Sequence[Event]
    tasks: frozenset[str]
    steps: Sequence[int]


def recorded_backends(models: Mapping[Role, Model], connected: Mapping[Role, Backend]) -> dict[Role, Backend]:
    """Stand-ins for the models of a run: they make the same prompts and keys, and answer nothing.

    Those of `connected` that can be had now count tokens.
    """
    backends: dict[Role, Backend] = {}
    for role, model in models.items():
        name = recorded_name(model.name)
        backends[role] = replace(
            connected.get(role, Backend(name, ())),
            name=name,
            servers=(Server("journal", _not_in_the_journal),),
            revision=model.revision,
            takes_seed=bool(model.takes_seed),
            context_length=model.context_length,
            effort=model.effort,
        )
    return backends


async def replay(
    system: System, context: Context, case: Case, point: ForkPoint, recorded: Sequence[Line]
) -> Inherited:
    """Replay a case until the node that a fork begins with; the models of `context` answer nothing.

    Raises:
        RunError: The replay of inherited steps does not match the trace.
    """
    saver = InMemorySaver()
    graph = system.build(checkpointer=saver)
    taken = _Taken(point)
    trace = CaseTrace(case.id, system.successors)
    failure: NodeFailure | None = None
    events: Any = graph.astream(
        {"case_id": case.id}, case_config(case.id), context=context, stream_mode="debug", durability="sync"
    )
    try:
        # Closed early, LangGraph still saves ended tasks.
        async with aclosing(events):
            async for event in events:
                if event["type"] == "checkpoint":
                    continue
                if not taken.take(event):
                    break
                trace.record(event["payload"], event["step"])
    except Exception as error:
        # The border of a case, as in a batch. What fails at the fork's node or later is what runs again.
        failure = as_failure(error)
    lines = trace.lines(failure)
    steps = taken.inherited_steps()
    _demand_equal(case.id, recorded, lines, steps, point)
    begun = (taken.begun[step] for step in steps)
    tasks = frozenset(event["payload"]["id"] for event in begun if event["step"] == taken.last)
    saved = await _checkpoint_before(saver, case.id, taken.last)
    return Inherited(
        checkpointer=await _branch_off(saved, tasks, case.id),
        events=[event for event in taken.events if taken.stays(event, tasks)],
        tasks=tasks,
        steps=steps,
    )


@dataclass(slots=True)
class _Taken:
    """The events of a replay up to the end of the superstep that holds the fork's node.

    Attributes:
        last: That superstep; -1 before it is reached.
        begun: Those with which an execution begins, in the order of steps, as the trace counts them.
        whole: Ids of tasks that have ended well.
    """

    point: ForkPoint
    last: int = -1
    events: list[Event] = field(default_factory=list)
    begun: list[Event] = field(default_factory=list)
    whole: set[str] = field(default_factory=set)

    def take(self, event: Event) -> bool:
        """Keep an event; false once past the fork."""
        if event["type"] == "task":
            if -1 < self.last < event["step"]:
                return False
            if len(self.begun) == self.point.step:
                self.last = event["step"]
            self.begun.append(event)
        elif not _failed(event["payload"]):
            self.whole.add(event["payload"]["id"])
        self.events.append(event)
        return True

    def inherited_steps(self) -> list[int]:
        """All before the superstep, and of those in it all that do not run again."""
        return [
            step
            for step, event in enumerate(self.begun)
            if self.last == -1
            or event["step"] < self.last
            or (event["step"] == self.last and self._stands(step, event["payload"]))
        ]

    def _stands(self, step: int, task: Mapping[str, Any]) -> bool:
        if step == self.point.step or (task["name"] == self.point.node and not self.point.alone):
            return False
        # A parallel task that failed has left nothing to inherit.
        return task["id"] in self.whole

    def stays(self, event: Event, tasks: frozenset[str]) -> bool:
        """Whether an event belongs to an inherited execution; `tasks` are from the last superstep."""
        return event["step"] < self.last or event["payload"]["id"] in tasks


def _failed(task: Mapping[str, Any]) -> bool:
    """Whether a task raised, or its node continued without a requested reply."""
    result = task.get("result")
    decisions = result.get("decisions", ()) if isinstance(result, dict) else ()
    return task.get("error") is not None or any("error_class" in one["facts"] for one in decisions)


def _demand_equal(
    case_id: str,
    recorded: Sequence[Line],
    replayed: Sequence[Line],
    steps: Sequence[int],
    point: ForkPoint,
) -> None:
    """Compare inherited steps with the trace: the same nodes, built on the same replies.

    A reply that could not be used may have been forgotten by a retry. It shaped nothing.

    Raises:
        RunError: Names the first step that comes out otherwise.
    """
    for step in steps:
        known = recorded[step] if step < len(recorded) else None
        line = replayed[step]
        found = {call["key"] for call in line["calls"]}
        if known is not None and known["node"] == line["node"]:
            used = {call["key"] for call in known["calls"] if call["fault"] is None}
            if used <= found <= {call["key"] for call in known["calls"]}:
                continue
        node = known["node"] if known else line["node"]
        raise RunError(
            f"case {case_id}: step {step} ({node}) cannot be replayed: its calls are not in the run's journal"
            " as the trace has them. Were prompts, demonstrations or a model changed, or replies forgotten by"
            " a retry? Run the case anew"
        )
    if len(replayed) <= point.step:
        raise RunError(
            f"case {case_id}: the replay ended before step {point.step} ({point.node}); run the case anew"
        )


async def _checkpoint_before(saver: InMemorySaver, case_id: str, superstep: int) -> CheckpointTuple:
    async for saved in saver.alist(case_config(case_id)):
        if saved.metadata["step"] == superstep - 1:
            return saved
    raise AssertionError("a superstep begins with a checkpoint")


async def _branch_off(saved: CheckpointTuple, tasks: frozenset[str], case_id: str) -> InMemorySaver:
    """A new thread that continues from a checkpoint as if all but `tasks` had not run yet.

    LangGraph reruns all nodes of a superstep when it goes back to a checkpoint by its id. A thread whose
    latest checkpoint has some writes is one that was cut off in the middle: their tasks are done.
    """
    branch = InMemorySaver()
    config = await branch.aput(
        case_config(case_id), saved.checkpoint, saved.metadata, saved.checkpoint["channel_versions"]
    )
    for task in tasks:
        writes = [(channel, value) for id_, channel, value in saved.pending_writes or () if id_ == task]
        await branch.aput_writes(config, writes, task)
    return branch


async def _not_in_the_journal(request: AnyRequest) -> list[Answer]:
    raise CallError("internal", f"sample {request.samples[0]} is not in the journal")


async def replay_run(
    run: RunFolder,
    recipe: Recipe,
    assembly: Assembly,
    case: Case,
    point: ForkPoint,
    recorded: Sequence[Line],
    report: Report,
) -> Inherited:
    """Replay a case with its run's assembly, which it shares with the fork where equal.

    Raises:
        RunError: The replay of inherited steps does not match the trace.
    """
    manifest = run.manifest
    resources = await _resources(manifest, recipe, assembly, report)
    connected = _connect_recorded(manifest, assembly)
    journal = RecordedCalls(run.path / CALLS, read_only=True)
    try:
        contracts = assembly.system.contracts
        prompts = replace_prompts(load_prompts(recipe.prompts, contracts), manifest.prompt_files, contracts)
        backends = recorded_backends(manifest.models, connected)
        client = ModelClient(backends, journal, Limits(max_retries=0))
        prepared = Prepared(recipe, assembly.system, assembly.graph, prompts, resources, backends)
        try:
            return await replay(assembly.system, prepared.context(case, client), case, point, recorded)
        finally:
            await client.aclose()
    finally:
        journal.close()
        used = {id(backend) for backend in assembly.backends.values()}
        await close_backends(backend for backend in connected.values() if id(backend) not in used)


async def _resources(
    manifest: Manifest, recipe: Recipe, assembly: Assembly, report: Report
) -> dict[Resource, Opened]:
    """Those of the run; one that the fork reads in the same way from the same place is shared."""
    places = recorded_places(manifest, recipe)
    same = places == recorded_places(assembly.manifest, assembly.recipe)
    shared = {
        resource: opened
        for resource, opened in assembly.resources.items()
        if same and resource.reads(recipe) == resource.reads(assembly.recipe)
    }
    running = assembly.source.unsharded
    request = ResourceRequest(recipe, manifest.recipe_origin, places, running, report)
    return await open_resources(assembly.system.resources, request, shared)


def _connect_recorded(manifest: Manifest, assembly: Assembly) -> dict[Role, Backend]:
    """The models of the run as far as they can be had: they are asked for lengths of prompts alone."""
    found: dict[Role, Backend] = {}
    for role, model in manifest.models.items():
        if assembly.manifest.models[role].name == model.name:
            found[role] = assembly.backends[role]
            continue
        try:
            found[role] = connect(parse_model_name(model.name))
        except (ModelError, WeightsError):
            # Its prompts are then assumed to fit, as nearly all do; the replay detects those that did not.
            continue
    return found
