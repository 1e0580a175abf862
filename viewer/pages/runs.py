"""The list of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from evals.scoring.counts import Counts, scores
from runs.index import Totals
from runs.manifest import Manifest
from viewer.addresses import Addresses
from viewer.rendering import render


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A row of the list: a run, or the line that says why it cannot be read."""

    name: str
    path: str
    fault: str = ""
    system: str = ""
    recipe: str = ""
    overrides: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    status: str = ""
    done: int = 0
    failed: int = 0
    other: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    started: str = ""
    seconds: float | None = None
    tokens: int = 0
    cost: float | None = None
    scored: int = 0
    strict_micro_f1: float | None = None


def listed(name: str, path: Path, manifest: Manifest, totals: Totals) -> ListedRun:
    """A run's row.

    Args:
        name: In addresses.
        path: The run folder.
        manifest: Its `run.json`.
        totals: Sums over its ended cases.
    """
    known = dict(totals.statuses)
    counts = Counts(totals.correct, totals.predicted, totals.gold)
    return ListedRun(
        name=name,
        path=str(path),
        system=manifest.system,
        recipe=manifest.recipe_origin,
        overrides=overrides_of(manifest),
        models=models_of(manifest),
        status=manifest.status,
        done=known.pop("done", 0),
        failed=known.pop("failed", 0),
        other=known,
        total=manifest.inputs.cases,
        started=manifest.sessions[0].started if manifest.sessions else "",
        seconds=seconds_of(manifest),
        tokens=manifest.total_tokens,
        cost=cost_of(manifest),
        scored=totals.scored,
        strict_micro_f1=100 * scores(counts, "perfect").f1 if totals.scored else None,
    )


def runs_page(rows: Sequence[ListedRun], addresses: Addresses) -> str:
    """The list as HTML; the latest run first."""
    ordered = sorted(rows, key=lambda row: row.started, reverse=True)
    compare = addresses.compare("", "")
    action = None if compare is None else compare.partition("?")[0]
    return render("runs.html", rows=ordered, addresses=addresses, compare=action)


def overrides_of(manifest: Manifest) -> tuple[str, ...]:
    """What the command line changed of the recipe, as `field: value`."""
    return tuple(f"{name}: {value}" for name, value in manifest.recipe_overrides.items())


def models_of(manifest: Manifest) -> tuple[str, ...]:
    """Each model once, with its roles where there are several."""
    roles: dict[str, list[str]] = {}
    for role, model in manifest.models.items():
        roles.setdefault(model.name, []).append(role)
    if len(roles) == 1:
        return tuple(roles)
    return tuple(f"{name} ({', '.join(found)})" for name, found in roles.items())


def seconds_of(manifest: Manifest) -> float | None:
    """Wall-clock time of the sessions that have ended; None where none has."""
    ended = [
        (datetime.fromisoformat(session.finished) - datetime.fromisoformat(session.started)).total_seconds()
        for session in manifest.sessions
        if session.finished is not None
    ]
    return sum(ended) if ended else None


def cost_of(manifest: Manifest) -> float | None:
    """Of all sessions; None where none had prices."""
    return manifest.total_cost if any(one.cost is not None for one in manifest.sessions) else None
