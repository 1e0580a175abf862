"""From a recipe, model strings and case files to everything that a run needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from cases.load import CaseSource, find_cases
from cases.records import Case
from graph.recipe import Recipe, RecipeError, check_prompts
from graph.systems import build_system
from prompts import OPTIONAL, PromptSet, load_prompts, replace_prompts
from ranking.load import load_ranker
from ranking.ranker import Ranker
from retrieval.demonstrations import MANIFEST as POOL_MANIFEST
from retrieval.demonstrations import DemonstrationPool, build_pool
from retrieval.embeddings import connect_embedder
from runs.case_run import Graph
from runs.graph_shape import graph_shape
from runs.literature import Sources, describe_sources, open_sources
from runs.manifest import (
    Demonstrations,
    EvidenceRanker,
    Inputs,
    Manifest,
    Model,
    own_version,
    versions,
)
from runs.retrieval_tools import RetrievalTools, load_retrieval
from runs.servers import Servers
from runs.shots import Shots, describe_shots, open_shots
from runs.unread_sections import refuse_unread_sections, shows_demonstrations
from serving.backends import Backend, connect
from serving.errors import CallError, ModelError
from serving.model_name import ModelName, Role
from serving.probe import Findings, probe
from weights.registry import cache_root

Report = Callable[[str], None]

VOTE_CHECK = "check_votes"
"""The node that a range of votes needs."""

INTERPRETATION = "interpret_question"
ALIGNMENT = "align_answer"
RANKING = "rank_evidence"
REVIEW = "await_review"
RETRIEVAL = "retrieve_documents"
SNIPPETS = "adopt_snippets"


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for.

    Attributes:
        overrides: Values of the recipe that its origin does not have, by dotted field.
        demonstrations: A pool's folder, None for the packaged sample pool.
        corpus: Folder of published documents, for graphs that search them.
        index: Folder of an index of their vectors, for recipes that compare those.
        shots: File of answered questions, for graphs that show them; None for the packaged samples.
        prompt_files: Files that replace prompts of the recipe's version, by name.
    """

    recipe: Recipe
    recipe_origin: str
    inputs: tuple[Path, ...]
    keys: tuple[Path, ...]
    models: Mapping[Role, ModelName]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    demonstrations: Path | None = None
    corpus: Path | None = None
    index: Path | None = None
    shots: Path | None = None
    limit: int | None = None
    prompt_files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assembly:
    """A request made ready: everything is found, opened and checked, and nothing is asked yet."""

    recipe: Recipe
    source: CaseSource
    graph: Graph
    prompts: PromptSet
    pool: DemonstrationPool | None
    ranker: Ranker | None
    retrieval: RetrievalTools
    sources: Sources
    shots: Shots
    backends: Mapping[Role, Backend]
    manifest: Manifest


async def assemble(
    request: Request,
    report: Report,
    servers: Servers,
    *,
    probing: bool = True,
    recorded: Mapping[Role, Model] | None = None,
) -> Assembly:
    """Make a request ready; the first thing that is wrong is raised.

    Args:
        request: What the user asked for.
        report: Told of what takes long, and of what was found out of the models.
        servers: Start what is missing.
        probing: Whether servers may be asked what they can do.
        recorded: The models of the run that goes on.

    Raises:
        InputError: The case or key files.
        UnknownSystem, PromptError, RecipeError: The recipe.
        RankerError: A ranker, or the classifier that reads passages.
        ModelError: A model, the embedding or the pool.
    """
    recipe = request.recipe
    graph = build_system(recipe.system, checkpointer=InMemorySaver() if recipe.reviews else None)
    _refuse_missing_nodes(recipe, graph, request.recipe_origin)
    refuse_unread_sections(recipe, graph.nodes, request.recipe_origin)
    source = find_cases(request.inputs, request.keys)
    summary = source.check()
    prompts = replace_prompts(load_prompts(recipe.prompts), request.prompt_files)
    check_prompts(recipe, prompts, request.recipe_origin)
    sources = open_sources(recipe, graph.nodes, request.corpus, request.index, request.recipe_origin)
    running = islice(source, request.limit)
    shots = open_shots(recipe, graph.nodes, request.shots, running, request.recipe_origin)
    connected = connect_roles(request.models, await servers.addresses(request.models.values()))
    pool = None
    if recipe.needs_demonstrations and shows_demonstrations(graph.nodes):
        pool = await open_pool(request.demonstrations, recipe.embedding, report)
    ranker = load_ranker(recipe.evidence.ranker) if recipe.ranks else None
    retrieval = load_retrieval(recipe, graph.nodes)
    # Last, because a model may take minutes to load, and is to be closed by the run.
    backends, findings = await _probe_roles(connected, probing, recorded, report)
    found = summary.cases + summary.invalid
    cases = found if request.limit is None else min(found, request.limit)
    manifest = Manifest(
        evigraph=own_version(),
        system=recipe.system,
        graph=graph_shape(graph),
        recipe=recipe.model_dump(mode="json"),
        recipe_sha256=recipe.sha256,
        recipe_origin=request.recipe_origin,
        recipe_overrides=dict(request.overrides),
        # Those that are not read shape nothing, and may come later than the run. Optional ones are named
        # like the nodes that read them.
        prompts={
            name: sha256
            for name, sha256 in prompts.hashes.items()
            if name not in OPTIONAL or (name in graph.nodes and name not in recipe.switched_off)
        },
        inputs=Inputs(
            paths=[str(path.resolve()) for path in request.inputs],
            keys=[str(path.resolve()) for path in request.keys],
            sha256=summary.sha256,
            cases=cases,
            limit=request.limit,
        ),
        models={
            role: Model(
                name=str(backend.name),
                revision=backend.revision,
                context_length=backend.context_length,
                constraint=findings[role].constraint,
                many_samples=findings[role].many_samples,
                takes_seed=_recorded_seed(recorded, role, backend.takes_seed or findings[role].takes_seed),
                logprobs=findings[role].logprobs,
                probed=findings[role].tried,
            )
            for role, backend in backends.items()
        },
        demonstrations=_describe(pool),
        ranker=_describe_ranker(recipe, ranker),
        retrieval=retrieval.describe(),
        document_reranker=retrieval.document_reranker.identity if retrieval.document_reranker else None,
        literature=describe_sources(recipe, sources),
        shots=describe_shots(shots),
        versions=versions(),
    )
    return Assembly(
        recipe, source, graph, prompts, pool, ranker, retrieval, sources, shots, backends, manifest
    )


def _refuse_missing_nodes(recipe: Recipe, graph: Graph, origin: str) -> None:
    """What a recipe asks for and no node of its graph does.

    Raises:
        RecipeError: Names the field, the missing node and a value that needs none.
    """
    wanted = (
        (recipe.evidence.adaptive, VOTE_CHECK, f"evidence.votes is {recipe.evidence.votes}", "a number"),
        (recipe.interprets, INTERPRETATION, f"question.interpret is {recipe.question.interpret}", "never"),
        (recipe.aligns, ALIGNMENT, f"alignment.answer is {recipe.alignment.answer}", "none"),
        (recipe.reviews, REVIEW, f"review.disagreement is {recipe.review.disagreement}", "null"),
        (recipe.ranks, RANKING, f"evidence.voters is {recipe.evidence.voters}", "llm"),
        (
            recipe.documents.finds and SNIPPETS in graph.nodes,
            RETRIEVAL,
            f"documents.phase is {recipe.documents.phase}",
            "b",
        ),
    )
    for asked, node, field_, instead in wanted:
        if asked and node not in graph.nodes:
            raise RecipeError(
                f"recipe {origin}: {field_}, but the graph {recipe.system!r} has no {node} for that;"
                f" give {instead}"
            )


def connect_roles(
    models: Mapping[Role, ModelName], addresses: Mapping[ModelName, str] | None = None
) -> dict[Role, Backend]:
    """One backend for each distinct model, shared by its roles.

    `addresses` says where models are served that name no server. They keep their names: a resumed run
    starts a server of its own, at another address.

    Raises:
        ModelError: One cannot be used.
    """
    connected: dict[ModelName, Backend] = {}
    for name in models.values():
        if name not in connected:
            address = (addresses or {}).get(name)
            connected[name] = replace(connect(replace(name, base_url=address or name.base_url)), name=name)
    return {role: connected[name] for role, name in models.items()}


async def _probe_roles(
    backends: Mapping[Role, Backend],
    probing: bool,
    recorded: Mapping[Role, Model] | None,
    report: Report,
) -> tuple[dict[Role, Backend], dict[Role, Findings]]:
    """Each distinct model is probed once; a run that goes on keeps sending a seed or none, as it began."""
    probed: dict[int, tuple[Backend, Findings]] = {}
    for role, backend in backends.items():
        if id(backend) in probed:
            continue
        if probing:
            await _start(backend, report)
        seed = _recorded_seed(recorded, role, backend.takes_seed) if role in (recorded or {}) else None
        able, findings = await probe(backend, takes_seed=seed, requests=probing)
        probed[id(backend)] = able, findings
        if findings.tried:
            report(f"{backend.name}: {findings}")
        for server in backend.servers:
            if not server.reached:
                report(f"{server.endpoint} does not answer; it is used once it does")
    pairs = {role: probed[id(backend)] for role, backend in backends.items()}
    return {role: pair[0] for role, pair in pairs.items()}, {role: pair[1] for role, pair in pairs.items()}


async def _start(backend: Backend, report: Report) -> None:
    """Make servers ready that need time for it, so that no request's time limit is spent on that.

    Raises:
        ModelError: One does not start.
    """
    for server in backend.servers:
        if server.start is None:
            continue
        report(f"{server.endpoint}: loading the weights")
        try:
            await server.start()
        except CallError as error:
            raise ModelError(str(error)) from error


def _recorded_seed(recorded: Mapping[Role, Model] | None, role: Role, otherwise: bool | None) -> bool | None:
    """What the run has recorded, or `otherwise` where it has recorded nothing."""
    found = recorded[role].takes_seed if recorded and role in recorded else None
    return otherwise if found is None else found


async def open_pool(folder: Path | None, embedding: str, report: Report) -> DemonstrationPool:
    """The pool in a folder, or the packaged sample pool, which is built once for each embedding.

    Raises:
        ModelError: The embedding or the pool cannot be used.
    """
    embedder = connect_embedder(embedding)
    if folder is None:
        source = sample_cases("pool.xml")
        identity = f"{embedder.identity}-{source.check().sha256[:12]}"
        safe = "".join(letter if letter.isalnum() else "-" for letter in identity)
        folder = cache_root() / "demonstrations" / safe
        if not (folder / POOL_MANIFEST).is_file():
            report("building the sample pool of demonstrations (once)")
            await build_pool(folder, _valid(source), embedder)
    return DemonstrationPool(folder, embedder)


def sample_cases(file: str) -> CaseSource:
    """The invented cases that come with the package: a file of `cases/samples/`, such as `batch.xml`."""
    path = Path(str(resources.files("cases").joinpath("samples", *file.split("/"))))
    return find_cases([path], [])


def _valid(source: CaseSource) -> Sequence[Case]:
    return [case for case in source if isinstance(case, Case)]


def _describe(pool: DemonstrationPool | None) -> Demonstrations | None:
    if pool is None:
        return None
    return Demonstrations(
        folder=str(pool.folder.resolve()),
        sha256=pool.sha256,
        embedder=str(pool.metadata["embedder"]),
        count=len(pool),
    )


def _describe_ranker(recipe: Recipe, ranker: Ranker | None) -> EvidenceRanker | None:
    if ranker is None:
        return None
    return EvidenceRanker(
        name=recipe.evidence.ranker,
        identity=ranker.identity,
        cutoff=(recipe.evidence.cutoff or ranker.cutoff).model_dump(),
    )
