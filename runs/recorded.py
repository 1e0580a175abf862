"""What a run was made of, put together once more to replay one of its cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from langgraph.checkpoint.memory import InMemorySaver

from cases.records import Case
from graph.recipe import Recipe
from graph.systems import build_system
from nodes.core.context import Context
from prompts import load_prompts
from ranking.load import load_ranker
from runs.assemble import Assembly, Report, open_pool
from runs.folder import CALLS, Line, RunFolder
from runs.fork_point import ForkPoint
from runs.literature import compares_vectors, open_sources, recorded_corpus, recorded_index
from runs.manifest import Manifest
from runs.node_tools import node_tools
from runs.replay import Inherited, RecordedCalls, recorded_backends, replay
from runs.retrieval_tools import load_retrieval
from runs.shots import open_shots, recorded_shots
from serving.backends import Backend, connect
from serving.client import ModelClient
from serving.errors import ModelError
from serving.limits import Limits
from serving.model_name import Role, parse_model_name
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

    Args:
        run: The original.
        recipe: Its recipe.
        assembly: What the fork is made of.
        case: The case.
        point: Where the fork begins.
        recorded: The case's trace, its end line aside.
        report: Told of what takes long.

    Raises:
        RunError: What is inherited does not come out as the trace tells.
    """
    manifest = run.manifest
    pool = assembly.pool
    if manifest.demonstrations is None:
        pool = None
    elif pool is None or recipe.embedding != assembly.recipe.embedding:
        pool = await open_pool(Path(manifest.demonstrations.folder), recipe.embedding, report)
    shared = assembly.ranker if recipe.evidence.ranker == assembly.recipe.evidence.ranker else None
    retrieval = assembly.retrieval
    if _reads(recipe) != _reads(assembly.recipe):
        retrieval = load_retrieval(recipe, assembly.graph.nodes)
    sources = assembly.sources
    if _opened(recipe) != _opened(assembly.recipe):
        corpus, index = recorded_corpus(manifest, recipe), recorded_index(manifest, recipe)
        sources = open_sources(recipe, assembly.graph.nodes, corpus, index, manifest.recipe_origin)
    shots = assembly.shots
    if recipe.exact != assembly.recipe.exact:
        running = islice(assembly.source, manifest.inputs.limit)
        nodes = assembly.graph.nodes
        shots = open_shots(recipe, nodes, recorded_shots(manifest), running, manifest.recipe_origin)
    connected = _connect_recorded(manifest, assembly)
    journal = RecordedCalls(run.path / CALLS, read_only=True)
    try:
        client = ModelClient(
            recorded_backends(manifest.models, connected), journal, Limits(max_retries=0), report=report
        )
        context = Context(
            cases={case.id: case},
            client=client,
            prompts=load_prompts(recipe.prompts),
            demonstrations=pool,
            ranker=(shared or load_ranker(recipe.evidence.ranker)) if recipe.ranks else None,
            **node_tools(retrieval, sources, shots),
            settings=recipe,
        )
        graph = build_system(recipe.system, checkpointer=InMemorySaver())
        try:
            return await replay(graph, context, case, point, recorded)
        finally:
            await client.aclose()
    finally:
        journal.close()
        used = {id(backend) for backend in assembly.backends.values()}
        await close_backends(backend for backend in connected.values() if id(backend) not in used)


def _opened(recipe: Recipe) -> tuple[object, ...]:
    """What decides which sources are open: a fork that changes no more has those of the run."""
    return recipe.reading, recipe.documents.finds, compares_vectors(recipe)


def _reads(recipe: Recipe) -> tuple[object, ...]:
    """What decides which rankers and vectors a run needs."""
    return recipe.retrieval, recipe.citation, recipe.documents.reranker


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


async def close_backends(backends: Iterable[Backend]) -> None:
    """Give their connections back."""
    for server in {id(one): one for backend in backends for one in backend.servers}.values():
        if server.close is not None:
            await server.close()
