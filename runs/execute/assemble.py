"""From a recipe, model strings and case files to everything that a run needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from cases.load import CaseSource, find_cases
from cases.records import Case
from cases.selection import EVERYTHING, Selection
from graph.recipe import Recipe, check_prompts, make_recipe, override
from graph.resource import Opened, Resource, ResourceRequest, open_resources
from graph.system import System, find_system
from nodes.core.context import Context
from nodes.evidence.calibration import settled_reply
from nodes.evidence.label_evidence import LABEL_EVIDENCE, CaseKeys, demonstration_keys
from nodes.evidence.settings import EvidenceSettings
from prompts import PromptSet, load_prompts, replace_prompts
from runs.execute.calibration import CALIBRATION, calibration_warning, compare_with_calibration
from runs.execute.case_run import CaseResult, Graph, Tell, run_case
from runs.execute.servers import Servers
from runs.record.manifest import Edge, GraphShape, Inputs, Manifest, Model, own_version, versions
from runs.review.reviews import Review
from serving.backends import Backend, addresses, connect, demand_allowed, unasked
from serving.policy.gate import hold_for, public_hosts, take_cases
from serving.policy.policy import HeldPolicy
from serving.protocol.errors import ModelError
from serving.protocol.limits import Limits
from serving.protocol.model_name import ModelName, Role, parse_model_name
from serving.requests.client import ModelClient
from serving.requests.probe import Findings, probe
from storage.url_names import name_of

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    """The user's request.

    Attributes:
        overrides: Values of the recipe that its origin does not have, by dotted field.
        places: Files, folders and URLs of resources, by the name of their option; packaged samples, if any,
            replace missing ones.
        prompt_files: Files that replace prompts of the recipe's version, by name.
        policies: Those that the run began with; none where it begins now.
        hosted: Public hosts that it was allowed then.
    """

    recipe: Recipe
    recipe_origin: str
    inputs: tuple[Path, ...]
    keys: tuple[Path, ...]
    models: Mapping[Role, ModelName]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Path] = field(default_factory=dict)
    selection: Selection = EVERYTHING
    prompt_files: Mapping[str, Path] = field(default_factory=dict)
    policies: tuple[HeldPolicy, ...] = ()
    hosted: tuple[str, ...] = ()

    def settled(self) -> Request:
        """The request with `evidence.reply: auto` decided for its model."""
        changes = settled_reply(self.recipe, self.models["label"].identity)
        recipe = override(self.recipe, changes, self.recipe_origin)
        return replace(self, recipe=recipe, overrides={**self.overrides, **changes})


def recorded_places(manifest: Manifest, recipe: Recipe) -> dict[str, Path]:
    """Recorded paths of a run's resources by option, only for those that a recipe reads."""
    found: dict[str, Path] = {}
    for resource in find_system(recipe.system).resources:
        if resource.reads(recipe) is not None:
            found |= resource.recorded_places(manifest.resources, recipe)
    return found


def recorded_request(
    manifest: Manifest, models: Mapping[Role, ModelName] | None = None, recipe: Recipe | None = None
) -> Request:
    """A run's inputs as a request; models and recipe may be replaced."""
    recipe = recipe or make_recipe(manifest.recipe, manifest.recipe_origin)
    return Request(
        recipe=recipe,
        recipe_origin=manifest.recipe_origin,
        inputs=tuple(manifest.inputs.case_files),
        keys=tuple(manifest.inputs.key_files),
        models=models or {role: parse_model_name(name) for role, name in manifest.model_names.items()},
        overrides=manifest.recipe_overrides,
        places=recorded_places(manifest, recipe),
        selection=manifest.inputs.selection,
        prompt_files=manifest.prompt_files,
        policies=manifest.policies,
        hosted=manifest.hosted,
    )


@dataclass(frozen=True)
class Prepared:
    """A graph that is ready for cases, and the context of its nodes."""

    recipe: Recipe
    system: System
    graph: Graph
    prompts: PromptSet
    resources: Mapping[Resource, Opened]
    backends: Mapping[Role, Backend]

    @cached_property
    def tools(self) -> dict[str, Any]:
        return tools_of(self.resources)

    def context(self, case: Case, client: ModelClient) -> Context:
        return Context(
            cases={case.id: case}, client=client, prompts=self.prompts, settings=self.recipe, tools=self.tools
        )

    async def run(
        self, case: Case, client: ModelClient, review: Review | None = None, tell: Tell | None = None
    ) -> CaseResult:
        """Run a case to its end; see `run_case`."""
        return await run_case(self.system, self.graph, self.context(case, client), case, review, tell)


@dataclass(frozen=True)
class Assembly(Prepared):
    """A request made ready: everything is found, opened and checked, and nothing is asked yet.

    Attributes:
        idle: Whether servers of models were neither started nor probed, so that no case can run.
    """

    source: CaseSource
    manifest: Manifest
    idle: bool = False

    @property
    def case_keys(self) -> CaseKeys | None:
        """Sort keys of cases; None if the order does not matter."""
        labels = LABEL_EVIDENCE in self.system.nodes
        return demonstration_keys(self.recipe, self.tools) if labels else None


def tools_of(resources: Mapping[Resource, Opened]) -> dict[str, Any]:
    """Tools of opened resources, by name."""
    return {name: tool for opened in resources.values() for name, tool in opened.tools.items()}


@asynccontextmanager
async def closed_at_end(assembling: Awaitable[Assembly]) -> AsyncIterator[Assembly]:
    """What `assemble` gives; at the end, connections to models are closed."""
    assembly = await assembling
    try:
        yield assembly
    finally:
        await close_backends(assembly.backends.values())


async def assemble(
    request: Request,
    report: Report,
    servers: Servers,
    limits: Limits | None = None,
    *,
    probing: bool = True,
    recorded: Mapping[Role, Model] | None = None,
    idle: bool = False,
) -> Assembly:
    """Make a request ready; the first thing that is wrong is raised.

    `report` is called about slow steps and about findings on models. With `probing`, models are probed within
    `limits`. `recorded` are the models of a resumed run. If it is `idle`, with no case left, servers are
    neither started nor probed, and what is recorded of their models stays; every other check is made.

    Raises:
        InputError: The case or key files.
        UnknownSystem, PromptError, RecipeError: The recipe.
        RankerError: A ranker, or the classifier that reads passages.
        ModelError: A model, the embedding or the pool.
        PolicyError: A policy forbids a model, or no policy is known for one that is hosted.
    """
    policies = _held(request)
    request = request.settled()
    recipe, origin = request.recipe, request.recipe_origin
    system = find_system(recipe.system)
    graph = system.build(checkpointer=InMemorySaver()) if recipe.waits_for_people else system.graph
    source = find_cases(request.inputs, request.keys, request.selection)
    summary = source.check()
    contracts = system.contracts
    prompts = replace_prompts(load_prompts(recipe.prompts, contracts), request.prompt_files, contracts)
    check_prompts(system, recipe, prompts, origin)
    known = dict(recorded or {}) if idle else {}
    served = {role: known[role] for role, name in request.models.items() if role in known and name.on_server}
    asked = {role: name for role, name in request.models.items() if role not in served}
    connected = connect_roles(asked, await servers.addresses(asked.values()))
    connected |= {role: unasked(request.models[role], one.revision) for role, one in served.items()}
    # A shard's prompts must not depend on the number of shards.
    running = source.unsharded
    opened = await open_resources(
        system.resources, ResourceRequest(recipe, origin, request.places, running, report)
    )
    # Last, because models are to be closed by the run.
    try:
        probing = probing and not idle
        backends, findings = await _probe_roles(connected, probing, recorded, report, limits or Limits())
        backends = {role: one.at_effort(recipe.effort_of(role)) for role, one in backends.items()}
        demand_abilities(recipe, backends)
    except BaseException:
        await close_backends(connected.values())
        raise
    used, drawn = system.used_prompts(recipe), system.drawn
    manifest = Manifest(
        evigraph=own_version(),
        system=recipe.system,
        graph=GraphShape(
            nodes=list(drawn.nodes),
            edges=[
                Edge(source=edge.source, target=edge.target, conditional=edge.conditional)
                for edge in drawn.edges
            ],
        ),
        recipe=recipe.model_dump(mode="json"),
        recipe_sha256=recipe.sha256,
        recipe_origin=origin,
        recipe_overrides=dict(request.overrides),
        # Those that are not read shape nothing, and may come later than the run.
        prompts={name: sha256 for name, sha256 in prompts.hashes.items() if name in used},
        prompt_files=dict(request.prompt_files),
        inputs=Inputs(
            paths=[name_of(path.resolve()) for path in request.inputs],
            keys=[name_of(path.resolve()) for path in request.keys],
            sha256=summary.sha256,
            cases=summary.selected,
            limit=request.selection.limit,
            case_ids=request.selection.case_ids,
            shard=request.selection.shard,
        ),
        models={
            role: served[role].model_copy(update={"name": str(backend.name)})
            if role in served
            else Model(
                name=str(backend.name),
                revision=backend.revision,
                context_length=backend.context_length,
                constraint=findings[role].constraint,
                many_samples=findings[role].many_samples,
                takes_seed=_recorded_seed(recorded, role, backend.takes_seed or findings[role].takes_seed),
                logprobs=findings[role].logprobs,
                probed=findings[role].tried,
                effort=backend.effort,
                thinks=findings[role].thinks,
                limit_field=findings[role].limit_field,
                max_output=findings[role].max_output,
            )
            for role, backend in backends.items()
        },
        resources={name: dict(one) for part in opened.values() for name, one in part.records.items()},
        versions=dict(versions()),
        policies=policies,
        hosted=() if policies else _hosted(request),
    )
    calibrated = compare_with_calibration(manifest, recipe, running, system.compared)
    if calibrated is not None:
        manifest.resources[CALIBRATION] = calibrated
        if (warning := calibration_warning(calibrated)) is not None:
            report(warning)
    return Assembly(recipe, system, graph, prompts, opened, backends, source, manifest, idle)


def _held(request: Request) -> tuple[HeldPolicy, ...]:
    """Be bound by the policies of all whose texts may be sent, before anything is started or asked.

    Raises:
        PolicyError: One forbids a model.
    """
    policies = hold_for(
        (*request.inputs, *request.keys, *request.places.values()), request.policies, request.hosted
    )
    take_cases(request.inputs, request.keys)
    for name in request.models.values():
        demand_allowed(name)
    return policies


def _hosted(request: Request) -> tuple[str, ...]:
    of_models = (address for name in request.models.values() for address in addresses(name))
    return tuple(public_hosts(of_models))


def connect_roles(
    models: Mapping[Role, ModelName], addresses: Mapping[ModelName, str] | None = None
) -> dict[Role, Backend]:
    """One backend for each distinct model, shared by its roles.

    `addresses` has the servers of models without an address. They keep their names: a resumed run starts its
    own server, at another address.

    Raises:
        ModelError: One cannot be used.
    """
    connected: dict[ModelName, Backend] = {}
    for name in models.values():
        if name not in connected:
            address = (addresses or {}).get(name)
            connected[name] = replace(connect(replace(name, base_url=address or name.base_url)), name=name)
    return {role: connected[name] for role, name in models.items()}


async def close_backends(backends: Iterable[Backend]) -> None:
    """Give their connections back."""
    for server in {id(one): one for backend in backends for one in backend.servers}.values():
        if server.close is not None:
            await server.close()


def demand_abilities(recipe: Recipe, backends: Mapping[Role, Backend]) -> None:
    """Refuse a model that cannot weigh choices before the first case, which would fail.

    Raises:
        ModelError: Names the model, the setting that needs its log-probabilities, and models that give them.
    """
    evidence = recipe.find_section(EvidenceSettings)
    if evidence is None or not (evidence.pointwise and recipe.labels_evidence):
        return
    backend = backends["label"]
    if not backend.weighs_choices:
        reason = "does not return log-probabilities"
        if backend.abilities.may_think(backend.effort):
            reason = "thinks first, so its first token says nothing about its choice"
        raise ModelError(
            f"model {str(backend.name)!r} {reason}, but evidence.reply 'pointwise' needs log-probabilities"
            " of the first token: as 'label' use an embedded or vLLM model that does not think, --effort off,"
            " or another form of reply"
        )


async def _probe_roles(
    backends: Mapping[Role, Backend],
    probing: bool,
    recorded: Mapping[Role, Model] | None,
    report: Report,
    limits: Limits,
) -> tuple[dict[Role, Backend], dict[Role, Findings]]:
    """Each distinct model is probed once; a resumed run sends a seed only if it did before."""
    probed: dict[int, tuple[Backend, Findings]] = {}
    for role, backend in backends.items():
        if id(backend) in probed:
            continue
        seed = _recorded_seed(recorded, role, backend.takes_seed) if role in (recorded or {}) else None
        able, findings = await probe(
            backend,
            takes_seed=seed,
            requests=probing,
            max_retries=limits.max_retries,
            limit_s=limits.timeout,
            report=report,
        )
        probed[id(backend)] = able, findings
        if findings.tried:
            report(f"{backend.name}: {findings}")
        for server in backend.servers:
            if not server.reached:
                report(f"{server.endpoint} does not answer; it is used once it does")
    pairs = {role: probed[id(backend)] for role, backend in backends.items()}
    return {role: pair[0] for role, pair in pairs.items()}, {role: pair[1] for role, pair in pairs.items()}


def _recorded_seed(recorded: Mapping[Role, Model] | None, role: Role, otherwise: bool | None) -> bool | None:
    """The run's recorded value, or `otherwise` without one."""
    found = recorded[role].takes_seed if recorded and role in recorded else None
    return otherwise if found is None else found
