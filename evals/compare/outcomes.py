"""How the cases of a run ended, the routes that they took, which two runs share, and how they were set up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from graph.recipe import differing_fields
from nodes.verification.support import marked_text
from runs.record.folder import Line, RunFolder
from runs.record.manifest import Manifest
from serving.protocol.errors import ModelError
from serving.protocol.model_name import recorded_name

Route = tuple[str, ...]
"""Steps `node -> node` in order; a step that a fan-out takes several times is listed once."""


class Usage(NamedTuple):
    """Model usage, including replayed calls."""

    calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """How one case ended.

    Attributes:
        error: Class of the error of a failed case, None for one that is done.
        labels: `essential` or `not-essential` by sentence id.
        intent: The primary intent, where one was found.
        route: Empty where the run has no trace of the case.
    """

    case_id: str
    error: str | None
    labels: Mapping[str, str]
    intent: str | None
    answer: str | None
    usage: Usage
    route: Route

    @property
    def essential(self) -> frozenset[str]:
        """Ids of the sentences that the run calls essential."""
        return frozenset(id_ for id_, label in self.labels.items() if label == "essential")


@dataclass(frozen=True, slots=True)
class RunOutcomes:
    """Outcomes of a run, for comparison.

    Attributes:
        name: The run's folder, as the user named it.
        cases: Every case that has ended, by id, in the order of the run.
        shown: Ids of all cases that served as demonstrations.
    """

    name: str
    manifest: Manifest
    cases: Mapping[str, CaseOutcome]
    shown: frozenset[str]


def read_outcomes(run: RunFolder) -> RunOutcomes:
    """Read a run's cases and, once and streamed, its trace."""
    routes: dict[str, Route] = {}
    known: dict[Route, Route] = {}
    shown: set[str] = set()
    for case_id, lines in run.passes():
        route = _route(lines)
        # Most cases take one of a few routes: each is kept once.
        routes[case_id] = known.setdefault(route, route)
        for line in lines:
            if line["node"].startswith("retrieve"):
                shown.update(one["case_id"] for one in (line.get("facts") or {}).get("chosen") or ())
    # A case that waits for a person has not ended.
    ended = (line for line in run.cases() if line["status"] != "waiting")
    cases = {line["case_id"]: outcome_of(line, routes.get(line["case_id"], ())) for line in ended}
    return RunOutcomes(str(run.path), run.manifest, cases, frozenset(shown))


def read_outcome(run: RunFolder, case_id: str) -> CaseOutcome:
    """How one case of a run ended.

    Raises:
        RunError: It has not ended.
    """
    return outcome_of(run.require_case(case_id), _route(run.trace(case_id)))


@dataclass(frozen=True, slots=True)
class Pairing:
    """Cases by where they ended; ids in the order of the first run, then of the second.

    Attributes:
        both: Done in both runs. Everything is compared on these.
        only_first: Ended in the first run alone.
        only_second: Ended in the second run alone.
        failed_first: Failed in the first run, whatever became of them in the second.
        failed_second: Failed in the second run.
    """

    both: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    failed_first: tuple[str, ...]
    failed_second: tuple[str, ...]


def pair_cases(first: RunOutcomes, second: RunOutcomes) -> Pairing:
    """Pair by case id."""
    shared = [case_id for case_id in first.cases if case_id in second.cases]
    return Pairing(
        both=tuple(id_ for id_ in shared if not (first.cases[id_].error or second.cases[id_].error)),
        only_first=tuple(case_id for case_id in first.cases if case_id not in second.cases),
        only_second=tuple(case_id for case_id in second.cases if case_id not in first.cases),
        failed_first=tuple(case_id for case_id, case in first.cases.items() if case.error),
        failed_second=tuple(case_id for case_id, case in second.cases.items() if case.error),
    )


def outcome_of(line: Line, route: Route) -> CaseOutcome:
    """How a case ended, by its line of `cases.jsonl`."""
    usage = line["usage"]
    return CaseOutcome(
        case_id=line["case_id"],
        error=line["error"]["class"] if line["error"] else None,
        labels=line["labels"],
        intent=(line.get("intent") or {}).get("primary"),
        answer=marked_text(line) or None,
        usage=Usage(usage["calls"], usage["input_tokens"], usage["output_tokens"]),
        route=route,
    )


def _route(lines: Sequence[Line]) -> Route:
    steps: list[str] = []
    for line in lines:
        for following in line.get("next") or ():
            step = f"{line['node']} -> {following}"
            if steps[-1:] != [step]:
                steps.append(step)
    return tuple(steps)


_NONE = "-"
_PLACES = ("folder", "path")
"""Keys of locations, which do not identify a resource."""

_LONG = 60
"""Characters from which on a value is left out of a sentence; tables have it."""


class Setting(NamedTuple):
    """A setting in both runs, as text."""

    name: str
    first: str
    second: str


def differing_settings(first: Manifest, second: Manifest) -> list[Setting]:
    """Recipe fields, models, prompts, demonstrations and versions that differ."""
    fields = differing_fields(first.recipe, second.recipe)
    found = [Setting(name, _field(first.recipe, name), _field(second.recipe, name)) for name in fields]
    one, other = _others(first), _others(second)
    return found + [
        Setting(name, one.get(name, _NONE), other.get(name, _NONE))
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]


def phrases(settings: Sequence[Setting], names: tuple[str, str] = ("A", "B")) -> list[str]:
    """What differs between two runs; versions of software are named without their numbers.

    Settings that only one of the runs has are named by their section, such as `evidence`.
    """
    models: dict[tuple[str, str], list[str]] = {}
    prompts, versions, others = [], [], []
    alone: dict[tuple[str, str], list[Setting]] = {}
    for setting in settings:
        name, first, second = setting
        both = f"{first} in {names[0]}, {second} in {names[1]}"
        kind, _, rest = name.partition(" ")
        if name.startswith("model of "):
            models.setdefault((first, second), []).append(name.removeprefix("model of "))
        elif kind == "prompt":
            prompts.append(rest.replace("_", " "))
        elif name.startswith("version of "):
            versions.append(name.removeprefix("version of "))
        elif _NONE in (first, second):
            section = kind.partition(".")[0]
            alone.setdefault((names[first == _NONE], section), []).append(setting)
        else:
            others.append(name if len(both) > _LONG else f"{name} ({both})")
    sections: dict[str, list[str]] = {}
    for (letter, section), its in alone.items():
        value = its[0].second if its[0].first == _NONE else its[0].first
        if len(its) > 1 or len(value) > _LONG or value.startswith("{"):
            sections.setdefault(letter, []).append(section)
        else:
            others.append(f"{its[0].name} ({value} in {letter} alone)")
    found = [
        f"the model{'' if len(models) == 1 else f' of {_listed(roles)}'}"
        f" ({first} in {names[0]}, {second} in {names[1]})"
        for (first, second), roles in models.items()
    ]
    found += [f"the prompt{'s' * (len(prompts) > 1)} {_listed(prompts)}"] if prompts else []
    found += others
    found += [f"{_listed(its)} (in {letter} alone)" for letter, its in sections.items()]
    found += [f"the version{'s' * (len(versions) > 1)} of {_listed(versions)}"] if versions else []
    # The system is in the recipe and the manifest.
    return sorted(dict.fromkeys(found), key=lambda phrase: not phrase.startswith("system "))


def in_words(settings: Sequence[Setting]) -> str:
    """What differs between A and B, in a line."""
    return "; ".join(phrases(settings)) or "no recorded setting differs"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _others(manifest: Manifest) -> dict[str, str]:
    found = {"system": manifest.system, "evigraph": manifest.evigraph}
    found |= {
        f"model of {role}": _model(model.name, model.revision) for role, model in manifest.models.items()
    }
    found |= {f"prompt {name}": sha256[:12] for name, sha256 in manifest.prompts.items()}
    for resource, record in manifest.resources.items():
        title = resource.replace("_", " ")
        found |= {
            title if name == "identity" else f"{title} {name}": _short(name, value)
            for name, value in record.items()
            if value is not None and name not in _PLACES
        }
    found |= {f"version of {name}": version for name, version in manifest.versions.items()}
    return found


def _short(name: str, value: object) -> str:
    """A value as a recipe has it, of a digest the beginning."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:12] if name.endswith("sha256") else text


def _model(name: str, revision: str) -> str:
    # The server's address does not affect replies.
    try:
        identity = recorded_name(name).identity
    except ModelError:
        # A manifest may name a model that this version does not know.
        identity = name
    return f"{identity} {revision[:12]}" if revision else identity


def _field(recipe: Mapping[str, Any], name: str) -> str:
    value: Any = recipe
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return _NONE if value is None else _short(name, value)
