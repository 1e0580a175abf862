"""A run's page: what it was, its charts, and its table of cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
from viewer.rows import rows_of

PAGE = 100
"""Rows of the table that are drawn at once; without scripts the first ones."""


def run_page(
    name: str,
    path: Path,
    ended: Ended,
    totals: Totals,
    addresses: Addresses,
    rows_script: str | None = None,
) -> str:
    """The page as HTML.

    Args:
        name: The run's, in addresses.
        path: The run folder.
        ended: Its ended cases.
        totals: Their sums.
        addresses: Where pages are.
        rows_script: Address of `rows_as_script` for a page on disk, which may fetch nothing.
    """
    manifest = ended.manifest
    return render(
        "run.html",
        name=name,
        path=str(path),
        manifest=manifest,
        models=models_of(manifest),
        overrides=overrides_of(manifest),
        evidence=_evidence(totals),
        live=live_facts(manifest, ended.summaries),
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


def rows_document(name: str, ended: Ended, since: int, addresses: Addresses) -> dict[str, Any]:
    """All rows, or of a run that goes on what is new.

    Args:
        name: The run's.
        ended: Its ended cases.
        since: The version that the reader has; 0 for none.
        addresses: Where pages are.

    Returns:
        What `rows_of` gives, with `version` to ask on with, `status`, `live` facts and the charts' numbers.
    """
    whole = since <= 0 or since > ended.revision
    fresh = ended.summaries if whole else ended.since(since)
    return {
        "version": ended.revision,
        "status": ended.manifest.status,
        "live": live_facts(ended.manifest, ended.summaries),
        "charts": {} if since == ended.revision else _numbers(figures(ended.summaries)),
        **rows_of(fresh, name, addresses),
    }


def rows_as_script(document: Mapping[str, Any]) -> bytes:
    """A `rows_document` as a script that leaves it behind for the table."""
    return b"globalThis.evigraphRows = " + orjson.dumps(document) + b";\n"


def live_facts(manifest: Manifest, rows: Sequence[CaseSummary]) -> dict[str, str]:
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
