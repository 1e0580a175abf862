"""Worker of a cluster: runs the cases it is sent, with the same runner as on one machine.

It writes nothing. Answers, traces and lines of cases go to the process that has the run folder, which also
has the journal, the budget and the rates (`serving.relay`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from cases.load import find_cases
from cases.records import Case, InvalidCase
from graph.recipe import make_recipe
from graph.resource import ResourceRequest, open_resources
from graph.system import find_system
from prompts import PromptSet
from runs.execute.assemble import Assembly, Prepared, close_backends, connect_roles, recorded_places
from runs.record.manifest import BudgetCaps, Manifest, RunError, resource_changes
from runs.review.reviews import Review
from serving.policy.gate import hold_for
from serving.policy.traffic import since, so_far
from serving.protocol.budget import BudgetSpent
from serving.protocol.errors import CallError
from serving.protocol.limits import Limits
from serving.protocol.model_name import Role, parse_model_name
from serving.requests.client import ModelClient
from serving.requests.endpoint import Endpoint
from serving.requests.relay import Line, RelayedBudget, RelayedCalls, RelayMessage, relay_rates
from storage.copies import remove_copies

PACKAGES = ("cases", "prompts", "weights", "serving", "ranking", "retrieval", "nodes", "graph", "runs")
_CODE = frozenset({".py", ".yaml"})

_MIN_GATHER_S = 0.002
_MAX_GATHER_S = 0.02
_GATHER_SHARE = 0.02
"""Messages of cases within this share of a call's time are sent together, within these bounds: a
message takes some milliseconds of processor time, and the case waits for the reply."""

_RECENT = 0.1
"""Weight of the latest request in the time of a call."""


@cache
def code_sha256() -> str:
    """Digest of all files that affect a worker's results."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*")):
            if path.suffix in _CODE:
                digest.update(f"{package}/{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


_FOUND = ("constraints", "many_samples", "takes_seed", "logprobs", "abilities", "effort")
"""Fields of a model that were found out before the run; workers need not ask again."""


@dataclass(frozen=True, slots=True)
class Work:
    """A run's inputs, as sent to workers.

    Attributes:
        manifest: `run.json` in JSON; with the policies that it is held to, and the hosts that it is allowed.
        found: Findings on each model.
    """

    manifest: str
    prompts: PromptSet
    found: Mapping[Role, Mapping[str, Any]]
    revisions: Mapping[Role, str]
    limits: Limits
    budget: BudgetCaps

    @classmethod
    def of(cls, assembly: Assembly, limits: Limits, budget: BudgetCaps) -> Work:
        backends = assembly.backends.items()
        return cls(
            assembly.manifest.model_dump_json(),
            assembly.prompts,
            {role: {name: getattr(one, name) for name in _FOUND} for role, one in backends},
            {role: one.revision for role, one in backends},
            limits,
            budget,
        )


class Worker:
    """Runs cases concurrently; receives tasks and sends results as messages."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._said: list[RelayMessage] = []
        self._call_s = 0.0
        self._news = asyncio.Event()
        self._line = Line(self._tell)
        self._tasks: set[asyncio.Task[None]] = set()
        self._prepared: tuple[Prepared, ModelClient] | None = None
        self._sent = so_far()
        self._used = time.process_time()

    async def begin(self, work: bytes) -> bytes:
        """Open the run's resources, and report success or failure.

        `work` is a pickled `Work`.
        """
        try:
            self._prepared = await _open(pickle.loads(work), self._line)  # noqa: S301 - from our own process
        except Exception as error:
            # Any error: the run continues without this worker, or does not begin.
            return pickle.dumps([("refused", str(error) or type(error).__name__, self._node)])
        return pickle.dumps([("ready", self._node)])

    async def said(self) -> bytes:
        await self._news.wait()
        await asyncio.sleep(min(max(_MIN_GATHER_S, _GATHER_SHARE * self._call_s), _MAX_GATHER_S))
        self._news.clear()
        said, self._said = self._said, []
        return pickle.dumps(said)

    def take(self, messages: bytes) -> None:
        for message in pickle.loads(messages):  # noqa: S301 - from our own process
            match message:
                case ("case", case, review):
                    self._begin(self._run(case, review))
                case ("reply", number, value):
                    self._line.replied(number, value)
                case ("resize", number, widths):
                    self._begin(self._resize(number, widths))

    def _tell(self, message: RelayMessage) -> None:
        match message:
            case ("store", _, [(_, answer), *_], _, _):
                self._call_s += _RECENT * (answer.seconds - self._call_s)
        self._said.append(message)
        self._news.set()

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, case: Case, review: Review | None) -> None:
        assert self._prepared is not None
        prepared, client = self._prepared
        try:
            result = await prepared.run(case, client, review)
        except BudgetSpent as spent:
            self._tell(("spent", case.id, str(spent)))
        except CallError as error:
            self._tell(("denied", case.id, str(error)))
        except Exception as error:
            self._tell(("broken", case.id, f"{type(error).__name__}: {error}"))
        else:
            self._tell(("ended", case.id, result, *self._counted()))
        finally:
            client.forget(case.id)

    async def _resize(self, number: int, widths: Mapping[str, tuple[int, int]]) -> None:
        assert self._prepared is not None
        endpoints = self._prepared[1].dispatcher.endpoints
        await asyncio.gather(*(endpoints[address].resize(*of) for address, of in widths.items()))
        self._tell(("resized", number))

    def _counted(self) -> tuple[Any, float]:
        """Traffic by host and processor time since the last call."""
        now, used = so_far(), time.process_time()
        sent, seconds = since(self._sent, now), used - self._used
        self._sent, self._used = now, used
        return sent, seconds


async def _open(work: Work, line: Line) -> tuple[Prepared, ModelClient]:
    """Prepare the run's inputs, as far as cases need them.

    Raises:
        RunError: It is not the same here.
        Exception: Whatever `assemble` raises for what cannot be used.
    """
    manifest = Manifest.model_validate_json(work.manifest)
    inputs = manifest.inputs
    recipe = make_recipe(manifest.recipe, manifest.recipe_origin)
    system = find_system(recipe.system)
    # Before anything is connected: the run's policies bind this process, too.
    hold_for((), manifest.policies, manifest.hosted)
    connected = connect_roles({role: parse_model_name(name) for role, name in manifest.model_names.items()})
    try:
        backends = {role: replace(backend, **work.found[role]) for role, backend in connected.items()}

        def running() -> Iterator[Case | InvalidCase]:
            try:
                yield from find_cases(inputs.case_files, inputs.key_files, inputs.selection).unsharded
            finally:
                # Workers are ended by kills, which would leave them on the node.
                remove_copies()

        places = recorded_places(manifest, recipe)
        # What takes long takes as long on every worker, and the driver has reported it.
        request = ResourceRequest(recipe, manifest.recipe_origin, places, running(), lambda _: None)
        resources = await open_resources(system.resources, request)
        records = {name: dict(one) for part in resources.values() for name, one in part.records.items()}
        here = manifest.model_copy(update={"resources": records})
        changed = [name.replace("_", " ") for name, *_ in resource_changes(manifest, here, system.compared)]
        if changed:
            names = ", ".join(dict.fromkeys(changed))
            raise RunError(f"other files than those of the run: {names}; put the same at the same place")
        for role, backend in backends.items():
            if backend.revision != work.revisions[role]:
                raise RunError(f"model of {role}: other weights here than where the run was begun")
        client = ModelClient(
            backends,
            RelayedCalls(line),
            work.limits,
            budget=RelayedBudget(line, work.budget.max_tokens, work.budget.max_cost),
            prices=work.budget.prices,
        )
    except BaseException:
        await close_backends(connected.values())
        raise
    endpoints = client.dispatcher.endpoints
    relay_rates(endpoints, line)
    await asyncio.gather(*(_warm_up(one) for one in endpoints.values()))
    graph = system.build(checkpointer=InMemorySaver() if recipe.waits_for_people else None)
    return Prepared(recipe, system, graph, work.prompts, resources, backends), client


async def _warm_up(endpoint: Endpoint) -> None:
    """Load the first request's needs now; an unavailable server is left for later."""
    if endpoint.look is not None and endpoint.look.quick is not None:
        with contextlib.suppress(CallError):
            await endpoint.look.quick()
