"""A run's page: what it was, its charts, and its table of cases."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from evals.scoring.counts import Counts, scores
from runs.case_summary import CaseSummary
from runs.index import Totals
from runs.manifest import Manifest
from viewer.addresses import Addresses
from viewer.charts import HEIGHT, WIDTH
from viewer.figures import Figure, figures
from viewer.opened_run import Ended
from viewer.pages.runs import cost_of, models_of, overrides_of, seconds_of
from viewer.rendering import duration, number, render
from viewer.review_states import ReviewStates
from viewer.rows import rows_of

PAGE = 100
"""Rows of the table that are drawn at once; without scripts the first ones."""


class ReviewLinks(NamedTuple):
    """Addresses of a served run: the next case that waits for a review, and the reviewed cases as a file."""

    next: str
    gold: str


def run_page(
    name: str,
    path: Path,
    ended: Ended,
    totals: Totals,
    addresses: Addresses,
    rows_script: str | None = None,
    review_links: ReviewLinks | None = None,
) -> str:
    """The page as HTML.

    Args:
        name: The run's, in addresses.
        path: The run folder.
        ended: Its ended cases.
        totals: Their sums.
        addresses: Where pages are.
        rows_script: Address of `rows_as_script` for a page on disk, which may fetch nothing.
        review_links: Where reviews are made; None where nothing can be written.
    """
    manifest = ended.manifest
    return render(
        "run.html",
        name=name,
        path=str(path),
        typed_path=shlex.quote(str(path)),
        manifest=manifest,
        models=models_of(manifest),
        overrides=overrides_of(manifest),
        evidence=_evidence(totals),
        live=live_facts(manifest, ended.summaries, ended.reviews),
        reviews=ended.reviews.of,
        review_links=review_links,
        errors=Counter(row.error for row in ended.summaries if row.error).most_common(),
        figures=figures(ended.summaries).values(),
        revision=ended.revision,
        rows=ended.summaries[:PAGE],
        count=len(ended.summaries),
        width=WIDTH,
        height=HEIGHT,
        rows_script=rows_script,
        addresses=addresses,
    )


def rows_document(
    name: str, ended: Ended, since: int, addresses: Addresses, reviews_seen: str | None = None
) -> dict[str, Any]:
    """All rows, or of a run that goes on what is new.

    Args:
        name: The run's.
        ended: Its ended cases.
        since: The version that the reader has; 0 for none.
        addresses: Where pages are.
        reviews_seen: Version of the reviews that the reader has.

    Returns:
        What `rows_of` gives, with `version` and `reviews_version` to ask on with, `status`, `live` facts, the
        charts' numbers, and `reviews`: the state of each case that has one, None where the reader knows them.
    """
    whole = since <= 0 or since > ended.revision
    fresh = ended.summaries if whole else ended.since(since)
    return {
        "version": ended.revision,
        "status": ended.manifest.status,
        "live": live_facts(ended.manifest, ended.summaries, ended.reviews),
        "reviews_version": ended.reviews.version,
        "reviews": None if reviews_seen == ended.reviews.version else ended.reviews.of,
        "charts": {} if since == ended.revision else _numbers(figures(ended.summaries)),
        **rows_of(fresh, name, addresses),
    }


def rows_as_script(document: Mapping[str, Any]) -> bytes:
    """A `rows_document` as a script that leaves it behind for the table."""
    return b"globalThis.evigraphRows = " + orjson.dumps(document) + b";\n"


def live_facts(
    manifest: Manifest, rows: Sequence[CaseSummary], reviews: ReviewStates | None = None
) -> dict[str, str]:
    """What changes while a run goes on, in words, by the name of its place on the page."""
    statuses = Counter(row.status for row in rows)
    others = "".join(
        f", {count:,} {status}" for status, count in statuses.items() if status not in ("done", "failed")
    )
    read, written = sum(row.input_tokens for row in rows), sum(row.output_tokens for row in rows)
    cost = cost_of(manifest)
    seconds = seconds_of(manifest)
    return {
        "status": manifest.status,
        "cases": f"{statuses['done']:,} done, {statuses['failed']:,} failed{others},"
        f" of {manifest.inputs.cases:,}",
        "reviews": (reviews or ReviewStates()).words,
        "calls": f"{sum(row.calls for row in rows):,}",
        "tokens": f"{number(read)} read, {number(written)} written",
        "cost": "-" if cost is None else f"{cost:,.4f}",
        "time": "-" if seconds is None else duration(seconds),
    }


def _numbers(charts: Mapping[str, Figure]) -> dict[str, Any]:
    return {name: {"note": chart.note, "bars": chart.bars} for name, chart in charts.items()}


def _evidence(totals: Totals) -> dict[str, Any] | None:
    """Micro scores times 100, under the names of `evigraph score`; None without labels of people."""
    if not totals.scored:
        return None
    found = scores(Counts(totals.correct, totals.predicted, totals.gold), "perfect")
    return {
        "cases": totals.scored,
        "precision": 100 * found.precision,
        "recall": 100 * found.recall,
        "f1": 100 * found.f1,
    }
