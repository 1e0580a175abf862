"""A comparison as one HTML file: no scripts, nothing fetched, plots inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from evals.compare.changes import CaseChange, by_gain, intent_changes, route_changes
from evals.compare.comparison import Comparison
from evals.compare.plots import case_plot, forest_plot
from evals.compare.wording import p_text, verdict
from evals.pages.environment import drawn, page_environment


class _Rows(NamedTuple):
    """The first rows of a list, and how many there are in all."""

    shown: Sequence[Any]
    total: int

    @property
    def rest(self) -> int:
        return self.total - len(self.shown)


def render(comparison: Comparison, *, rows: int, with_texts: bool) -> str:
    """The page.

    Args:
        comparison: What it shows.
        rows: At most so many rows of each list; the page says how many are left out.
        with_texts: Whether it holds the answers that differ. They are as confidential as the cases.
    """
    environment = page_environment("evals.compare")
    environment.filters |= {"p": p_text, "ids": " ".join}
    gained, lost = by_gain(comparison.changes)
    return environment.get_template("comparison.html").render(
        comparison=comparison,
        tasks=[
            {"scores": task, "plot": _forest(comparison, number), "verdict": verdict(task)}
            for number, task in enumerate(comparison.tasks)
        ],
        plot=_case_plot(comparison.changes),
        gained=_Rows(gained[:rows], len(gained)),
        lost=_Rows(lost[:rows], len(lost)),
        relabelled=_relabelled(comparison.changes, rows),
        routes=_counted(route_changes(comparison.changes), rows),
        intents=_counted(intent_changes(comparison.changes), rows),
        settings=_Rows(comparison.settings[:rows], len(comparison.settings)),
        answers=_answers(comparison, [*gained, *lost], rows if with_texts else 0),
        with_texts=with_texts,
        pairing=_pairing(comparison, rows),
    )


def _forest(comparison: Comparison, number: int) -> Markup:
    return drawn(forest_plot(comparison.tasks[number].metrics, f"forest{number}"))


def _case_plot(changes: Sequence[CaseChange]) -> Markup | None:
    scores = [change.f1 for change in changes if change.f1 is not None]
    return drawn(case_plot(scores, "cases")) if scores else None


def _relabelled(changes: Sequence[CaseChange], rows: int) -> _Rows:
    """Without labels in the key: cases whose labels changed most."""
    if any(change.f1 is not None for change in changes):
        return _Rows((), 0)
    moved = [change for change in changes if change.added or change.removed]
    moved.sort(key=lambda change: -len(change.added) - len(change.removed))
    return _Rows(moved[:rows], len(moved))


def _counted(counts: Mapping[tuple[str, str], int], rows: int) -> _Rows:
    shown = [(first, second, cases) for (first, second), cases in counts.items()]
    return _Rows(shown[:rows], len(shown))


def _answers(comparison: Comparison, moved: Sequence[CaseChange], rows: int) -> _Rows:
    """Answers that differ; those of the cases with the largest change of score come first."""
    by_size = sorted(moved, key=lambda change: -abs(change.f1.gain) if change.f1 else 0.0)
    order = dict.fromkeys(change.case_id for change in [*by_size, *comparison.changes])
    changed = {change.case_id for change in comparison.changes if change.answer_changed}
    differing = [case_id for case_id in order if case_id in changed]
    shown = [
        (case_id, comparison.first.cases[case_id].answer, comparison.second.cases[case_id].answer)
        for case_id in differing[:rows]
    ]
    return _Rows(shown, len(differing))


def _pairing(comparison: Comparison, rows: int) -> list[tuple[str, _Rows]]:
    pairing = comparison.pairing
    named = {
        "only in A": pairing.only_first,
        "only in B": pairing.only_second,
        "failed in A": pairing.failed_first,
        "failed in B": pairing.failed_second,
    }
    return [(name, _Rows(ids[:rows], len(ids))) for name, ids in named.items() if ids]
