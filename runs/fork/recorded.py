"""What a run was made of, put together once more to replay one of its cases."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.checkpoint.memory import InMemorySaver

from cases.records import Case
from graph.recipe import Recipe
from graph.resource import Opened, Resource, ResourceRequest, open_resources
from prompts import load_prompts, replace_prompts
from runs.execute.assemble import Assembly, Prepared, Report, close_backends, recorded_places
from runs.fork.forks import ForkPoint
from runs.fork.replay import Inherited, RecordedCalls, recorded_backends, replay
from runs.record.folder import CALLS, Line, RunFolder
from runs.record.manifest import Manifest
from serving.backends import Backend, connect
from serving.protocol.errors import ModelError
from serving.protocol.limits import Limits
from serving.protocol.model_name import Role, parse_model_name
from serving.requests.client import ModelClient
from weights.registry import WeightsError


async def replay_run(
    run: RunFolder,
    recipe: Recipe,
    assembly: Assembly,
    case: Case,
    point: ForkPoint,
    recorded: Sequence[Line],
    report: Report,
) -> Inherited:
    """Replay a case with what its run was made of; whatever the fork has too is shared with it.

    Raises:
        RunError: What is inherited does not come out as the trace tells.
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
        graph = assembly.system.build(checkpointer=InMemorySaver())
        prepared = Prepared(recipe, assembly.system, graph, prompts, resources, backends)
        try:
            return await replay(graph, prepared.context(case, client), case, point, recorded)
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
            # Its prompts are then taken to fit, as nearly all do; the replay tells where they did not.
            continue
    return found
