"""The list of runs, and a run's page: facts, charts, and table of cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import orjson

from cases.texts import per_time, plural, quoted
from graph.system import find_system
from ranking.measures import Counts, scores
from runs.execute.watcher import Written
from runs.record.case_summary import CaseSummary
from runs.record.index import Totals
from runs.record.manifest import Manifest
from runs.record.used import with_unrecorded
from viewer.addresses import Addresses
from viewer.charts import Figure, figures
from viewer.opened_run import Ended, ReviewStates
from viewer.rendering import duration, render

if TYPE_CHECKING:
    from evals.scoring.scored_task import ScoredTask

ALL_FAILED = "all failed"
"""The status of a run that finished without one good case: no success."""
PAGE_LENGTH = 100
"""Rows of the table that are drawn at once; without scripts, the first ones."""

SCORES: Mapping[str, str] = {"archehr": "strict micro F1", "verdict": "accuracy of verdicts"}
"""Scores in the index of a run, 0 to 100; with one answer per case, F1 equals accuracy."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A row of the list: a run, or a line saying why it cannot be read."""

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
    reviewed: int = 0
    score: float | None = None
    score_name: str = ""
    answers: tuple[ScoredTask, ...] = ()

    @property
    def shown_score(self) -> str:
        """On the scale of `evigraph score`: 0 to 1 for BioASQ's measures, 0 to 100 for all others."""
        return "-" if self.score is None else f"{self.score:.3f}" if self.answers else f"{self.score:.1f}"

    @property
    def state(self) -> str:
        return ALL_FAILED if self.status == "finished" and self.failed and not self.done else self.status


def listed(
    name: str, path: Path, manifest: Manifest, totals: Totals, answers: tuple[ScoredTask, ...] = ()
) -> ListedRun:
    """A run's row."""
    known = dict(totals.statuses)
    used = with_unrecorded(path, manifest).used(totals.calls, totals.input_tokens, totals.output_tokens)
    score: float | None = None
    scored, score_name = totals.scored, SCORES.get(find_system(manifest.system).score or "", "")
    if answers:
        first = answers[0]
        score_name, score, scored = first.headline_title, first.headline_value, len(first.case_ids)
    elif scored and score_name:
        score = _micro(totals)["f1"]
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
        other={**known, **({"impaired": impaired} if (impaired := manifest.counts.impaired) else {})},
        total=manifest.inputs.cases,
        started=manifest.sessions[0].started if manifest.sessions else "",
        seconds=manifest.seconds,
        tokens=used.input_tokens + used.output_tokens,
        cost=used.cost,
        scored=scored,
        reviewed=totals.reviewed,
        score=score,
        score_name=score_name,
        answers=answers,
    )


def runs_page(rows: Sequence[ListedRun], addresses: Addresses) -> str:
    """The list as HTML; the latest run first."""
    ordered = sorted(rows, key=lambda row: row.started, reverse=True)
    compare = addresses.compare("", "")
    action = None if compare is None else compare.partition("?")[0]
    return render("runs.html", rows=ordered, addresses=addresses, compare=action)


def overrides_of(manifest: Manifest) -> tuple[str, ...]:
    """Recipe fields changed on the command line, as `field: value`."""
    return tuple(f"{name}: {value}" for name, value in manifest.recipe_overrides.items())


def models_of(manifest: Manifest) -> tuple[str, ...]:
    """Each model once, with its roles if there are several models."""
    roles: dict[str, list[str]] = {}
    for role, model in manifest.models.items():
        roles.setdefault(model.name, []).append(role)
    if len(roles) == 1:
        return tuple(roles)
    return tuple(f"{name} ({', '.join(found)})" for name, found in roles.items())


def rows_of(summaries: Sequence[CaseSummary], run: str, addresses: Addresses) -> dict[str, Any]:
    """The table of cases as `table.js` reads it: a list for each column, names as positions in tables.

    Returns:
        `names` has tables of statuses, errors, intents, flags, nodes and routes (lists of positions in
        `nodes`); `columns` has a list for each column, where `status`, `error`, `intent`, `flags` and `route`
        are positions in those tables, -1 for none. The address of a case's page is `link` plus its quoted id,
        or its entry in `links` unless that is None.
    """
    names: dict[str, dict[Any, int]] = {
        kind: {} for kind in ("status", "error", "intent", "flag", "node", "route")
    }

    def place(name: Hashable | None, kind: str) -> int:
        return -1 if name is None else names[kind].setdefault(name, len(names[kind]))

    columns: dict[str, list[Any]] = {
        "id": [row.case_id for row in summaries],
        "position": [row.position for row in summaries],
        "status": [place(row.status, "status") for row in summaries],
        "error": [place(row.error, "error") for row in summaries],
        "intent": [place(row.intent, "intent") for row in summaries],
        "flags": [[place(flag, "flag") for flag in row.flags] for row in summaries],
        "route": [place(row.route, "route") for row in summaries],
        "tokens": [row.input_tokens + row.output_tokens for row in summaries],
        "seconds": [None if row.seconds is None else round(row.seconds, 2) for row in summaries],
        **{
            name: [getattr(row, name) for row in summaries]
            for name in ("sentences", "essential", "votes", "divided", "wrong", "calls", "outcome")
        },
    }
    known_routes = [[place(node, "node") for node in route] for route in names["route"]]
    link = addresses.case(run, "")
    links = [addresses.case(run, row.case_id) for row in summaries]
    quoted = all(
        address == link + quote(row.case_id, safe="") for address, row in zip(links, summaries, strict=True)
    )
    return {
        "names": {kind: list(known) for kind, known in names.items()} | {"route": known_routes},
        "columns": columns,
        "link": link,
        "links": None if quoted else links,
    }


class ReviewLinks(NamedTuple):
    """Addresses of a served run.

    Attributes:
        next: The next case to review; None for a person who may not.
        gold: The reviewed cases as a file; the same.
    """

    next: str | None
    gold: str | None
    reviewers: str


def run_page(
    name: str,
    path: Path,
    ended: Ended,
    totals: Totals,
    addresses: Addresses,
    rows_script: str | None = None,
    review_links: ReviewLinks | None = None,
    answers: tuple[ScoredTask, ...] = (),
) -> str:
    """The page as HTML."""
    manifest = ended.manifest
    return render(
        "run.html",
        **facts_of(name, path, ended),
        typed_path=quoted(path),
        evidence=None if answers else _evidence(totals),
        answers=answers,
        score_name=SCORES.get(find_system(manifest.system).score or "", ""),
        # Verdicts or exact answers instead of labels.
        outcomes=any(row.outcome for row in ended.summaries)
        and not any(row.sentences for row in ended.summaries),
        review_links=review_links,
        figures=[
            one for one in figures(ended.summaries).values() if one.bars or manifest.status == "running"
        ],
        revision=ended.revision,
        rows=ended.summaries[:PAGE_LENGTH],
        count=len(ended.summaries),
        rows_script=rows_script,
        addresses=addresses,
    )


def facts_of(name: str, path: Path, ended: Ended) -> dict[str, Any]:
    """Values of the templates of a run's facts."""
    manifest = ended.manifest
    return dict(
        name=name,
        path=str(path),
        manifest=manifest,
        models=models_of(manifest),
        overrides=overrides_of(manifest),
        live=live_facts(manifest, ended.summaries, ended.reviews, ended.progress),
        reviews=ended.reviews.of,
        errors=Counter(row.error for row in ended.summaries if row.error).most_common(),
    )


def rows_document(
    name: str, ended: Ended, since: int, addresses: Addresses, reviews_seen: str | None = None
) -> dict[str, Any]:
    """All rows, or the new ones of a run in progress.

    Returns:
        What `rows_of` gives, with `version` and `reviews_version` for the next request, `status`, `live`
        facts, the charts' numbers, and `reviews`: the states of cases, None if the reader knows them already.
    """
    whole = since <= 0 or since > ended.revision
    fresh = ended.summaries if whole else ended.since(since)
    return {
        "version": ended.revision,
        "status": ended.manifest.status,
        "live": live_facts(ended.manifest, ended.summaries, ended.reviews, ended.progress),
        "reviews_version": ended.reviews.version,
        "reviews": None if reviews_seen == ended.reviews.version else ended.reviews.of,
        "charts": {} if since == ended.revision else _numbers(figures(ended.summaries)),
        **rows_of(fresh, name, addresses),
    }


def rows_as_script(document: Mapping[str, Any]) -> bytes:
    """A `rows_document` as a script that assigns it to a variable which the table reads."""
    return b"globalThis.evigraphRows = " + orjson.dumps(document) + b";\n"


def live_facts(
    manifest: Manifest,
    rows: Sequence[CaseSummary],
    reviews: ReviewStates | None = None,
    progress: Written | None = None,
) -> dict[str, str]:
    """Texts that change during a run, by the name of their place on the page."""
    statuses = Counter(row.status for row in rows)
    others = "".join(
        f", {count:,} {status}" for status, count in statuses.items() if status not in ("done", "failed")
    )
    flags = find_system(manifest.system).impairments
    impaired = sum(row.error is None and not flags.isdisjoint(row.flags) for row in rows)
    others += f", {impaired:,} impaired" if impaired else ""
    used = manifest.used(
        sum(row.calls for row in rows),
        sum(row.input_tokens for row in rows),
        sum(row.output_tokens for row in rows),
    )
    replayed = f", {used.replayed:,} replayed" if used.replayed else ""
    failed = manifest.status == "finished" and statuses["failed"] and not statuses["done"]
    return {
        "status": ALL_FAILED if failed else manifest.status,
        "cases": f"{statuses['done']:,} done, {statuses['failed']:,} failed{others},"
        f" of {manifest.inputs.cases:,}",
        "pace": "" if progress is None else _pace(progress),
        "reviews": (reviews or ReviewStates()).words,
        "calls": f"{used.calls:,}{replayed}",
        "tokens": f"{used.input_tokens:,} read, {used.output_tokens:,} written",
        "cost": "-" if used.cost is None else f"{used.cost:,.4f}",
        "time": duration(manifest.seconds),
    }


def _pace(progress: Written) -> str:
    """Pace of the current session; its calls count before their cases end."""
    pace = progress.pace
    parts = [f"{progress.share:.0%}, {progress.under_way:,} under way"]
    if progress.calls:
        rates = {"call": pace.calls_per_second, "token": pace.tokens_per_second}
        parts += [per_time(rate, noun) for noun, rate in rates.items() if rate]
        parts += [plural(progress.calls, "call"), plural(progress.tokens, "token")]
    parts += [] if pace.seconds_left is None else [f"about {duration(pace.seconds_left)} left"]
    return "; this session: " + ", ".join(parts)


def _numbers(charts: Mapping[str, Figure]) -> dict[str, Any]:
    return {
        name: {"note": chart.note, "bars": chart.bars, "most": chart.most} for name, chart in charts.items()
    }


def _evidence(totals: Totals) -> dict[str, Any] | None:
    """Micro scores times 100, named as in `evigraph score`; None where no case has labels of both sides."""
    if not totals.scored:
        return {"cases": 0, "reviewed": totals.reviewed} if totals.reviewed else None
    return {"cases": totals.scored, "reviewed": totals.reviewed, **_micro(totals)}


def _micro(totals: Totals) -> dict[str, float]:
    return scores(Counts(totals.correct, totals.predicted, totals.gold), "perfect").in_percent()
