"""Calibrations as a table, as JSON and as a picture."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from evals.calibration.calibrate import BoundReport, Calibration
from evals.calibration.risk import LOSS_WORDS
from evals.pages.plots import DASHES, DOWN, INK, MUTED, UP, drawing, legend_above, note_at, standalone
from evals.pages.tables import Format, Row, Table, columns, interval_object

SHARE = Format(3)
_MIDDLE = 50
_READABLE = 10
"""Number of cases below which a bound is near 1, too loose to plot."""


def table_of(made: Calibration) -> Table:
    """Rules side by side, with the interval of F1."""
    rows: list[Row] = []
    for name, values in made.rows.items():
        precision, recall = values["precision"].value, values["recall"].value
        rows.append([name, precision, recall, values["f1"], values["average_precision"].value])
    return Table(columns("rule", "P", "R", "F1", "AP", form=SHARE), rows)


def as_object(made: Calibration, recipe: str | None) -> dict[str, Any]:
    """For JSON."""
    data = made.data
    return {
        "data": data.origin,
        "data_sha256": data.sha256,
        "cases": len(data.cases),
        "left_out": dict(data.left_out),
        "notes": list(data.notes),
        "ranker": data.ranker,
        "cost_per_case": dict(data.cost),
        "rule": made.rule.model_dump(mode="json", exclude_none=True),
        "rule_in_words": str(made.rule),
        "split": made.split,
        "chosen_on": made.chosen_on,
        "tested_on": made.tested_on,
        "scores": {
            name: {part: interval_object(value) for part, value in values.items()}
            for name, values in made.rows.items()
        },
        "gains_f1": [
            {
                "rule": gain.rule,
                "against": gain.against,
                **interval_object(gain.f1),
                "p_value": gain.p_value,
            }
            for gain in made.gains
        ],
        "no_better_than": made.no_better_than,
        "in_sample_f1": made.in_sample,
        "optimism_f1": made.optimism,
        "picks": dict(made.picks),
        "bound": None if made.bound is None else _bound_object(made.bound),
        "recipe": recipe,
    }


def _bound_object(bound: BoundReport) -> dict[str, Any]:
    return {
        **asdict(bound.wish),
        "threshold": bound.proven.threshold,
        "answered": bound.proven.answered,
        "cases": bound.cases,
        "mean_loss": bound.proven.loss,
        "tested": [one._asdict() for one in bound.tested],
        "curve": [one._asdict() for one in bound.curve],
    }


def curve_svg(bound: BoundReport) -> str:
    """Coverage and risk: mean loss of the surest cases and its proven bound, by their number."""
    percent = 100.0
    points = [point for point in bound.curve if point.answered >= min(_READABLE, bound.cases)]
    across = [percent * point.answered / bound.cases for point in points]
    wish, proven = bound.wish, bound.proven
    with drawing("coverage", 7.2, 4.0) as made:
        axes = made.axes
        axes.plot(
            across, [percent * point.loss for point in points], color=INK, linewidth=1.8, label="mean loss"
        )
        axes.plot(
            across,
            [percent * point.upper for point in points],
            color=MUTED,
            linewidth=1.4,
            label=f"upper bound at {wish.confidence:.0%}, each point by itself",
        )
        axes.axhline(percent * wish.risk, color=DOWN, linewidth=1.2, linestyle=DASHES)
        place = percent * proven.answered / bound.cases
        axes.axvline(place, color=UP, linewidth=1.2, linestyle=DASHES)
        axes.plot([place], [percent * proven.loss], "o", color=UP, markersize=6)
        axes.set_xlim(0, 102)
        highest = max([point.upper for point in points] + [wish.risk])
        axes.set_ylim(0, percent * min(1.0, 1.15 * highest))
        note_at(axes, f"risk {wish.risk:.0%}", (1, percent * wish.risk), (2, 4), color=DOWN, fontsize=9)
        note_at(
            axes,
            f"{proven.answered} of {bound.cases} answered",
            (place, axes.get_ylim()[1]),
            (-6, -12) if place > _MIDDLE else (6, -12),
            ha="right" if place > _MIDDLE else "left",
            color=UP,
            fontsize=9,
        )
        axes.set_xlabel("cases answered without a person, % of the tested cases, the surest first")
        axes.set_ylabel(f"{LOSS_WORDS[wish.loss]}, %")
        legend_above(axes)
    return standalone(made.svg)
