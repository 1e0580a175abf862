"""Comparison of two runs, with its limits, as records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cases.texts import plural
from evals.compare.changes import CaseChange, by_gain, case_change, intent_changes, route_changes
from evals.compare.differences import Settings, TaskDifferences, compare_scores
from evals.compare.outcomes import Pairing, RunOutcomes, Setting, Usage, differing_settings, pair_cases
from evals.scoring.gold import Labels
from evals.scoring.scored_task import ScoredTask
from evals.statistics.agreement import CohenKappa

FEW_CASES = 50
_FEW_TAIL_RESAMPLES = 10


def cautions(
    first: RunOutcomes,
    second: RunOutcomes,
    pairing: Pairing,
    *,
    other_sentences: int,
    scored: Collection[str],
    settings: Settings,
) -> Iterator[str]:
    """One sentence each, weightiest first.

    `other_sentences` counts cases whose sentence ids differ between the runs; `scored` has the cases that are
    scored in both, none without a key.
    """
    if scored:
        yield from _of_selection(scored, settings)
    if first.manifest.inputs.sha256 != second.manifest.inputs.sha256:
        yield "The runs were made from other case files or keys; cases are paired by their ids alone."
    if other_sentences:
        yield (
            f"{plural(other_sentences, 'case')} {'has' if other_sentences == 1 else 'have'} other sentence"
            " ids in one run than in the other: these are other cases, or another version of them."
        )
    for run, failed in (("A", pairing.failed_first), ("B", pairing.failed_second)):
        if failed:
            yield (
                f"{plural(len(failed), 'case')} failed in {run} and {_are(failed)} left out of the"
                " comparison; if they are the hard ones, this flatters the run."
            )
    for run, only in (("A", pairing.only_first), ("B", pairing.only_second)):
        if only:
            yield f"{plural(len(only), 'case')} {_are(only)} in {run} alone and left out."
    for name, one in (("A", first), ("B", second)):
        if both := len(one.shown.intersection(scored)):
            yield (
                f"In {name}, {both} of the scored case ids also served as demonstrations of other cases: the"
                " run saw their labels, and scores on them are not those of unseen cases."
            )


def _of_selection(scored: Collection[str], settings: Settings) -> Iterator[str]:
    if len(scored) < FEW_CASES:
        yield (
            f"Only {plural(len(scored), 'case')} scored in both runs: with fewer than {FEW_CASES}, intervals"
            " are wide and their real coverage is below the stated level."
        )
    if settings.candidates > 1:
        yield (
            f"A run was picked as the best of {settings.candidates} on these very cases, so its score is too"
            f" high by luck. Intervals are at {settings.level:.2%} and p-values are multiplied by"
            f" {settings.candidates} (Bonferroni). The scores themselves stay too high: score the chosen run"
            " on cases that had no part in the choice."
        )
    tail = settings.resamples * (1 - settings.level) / 2
    if tail < _FEW_TAIL_RESAMPLES:
        enough = round(2 * _FEW_TAIL_RESAMPLES / (1 - settings.level))
        yield (
            f"The ends of intervals rest on {tail:.1f} resamples each; --resamples {enough} makes them"
            " steady."
        )


def _are(cases: Collection[str]) -> str:
    return "is" if len(cases) == 1 else "are"


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Labels of the sentences of the paired cases; no key is needed.

    Attributes:
        equal: Sentences with the same label in both runs.
        kappa: Cohen's kappa; None where chance alone explains full agreement.
        essential: Sentences called essential, by run.
        other_sentences: Cases left out because their sentence ids differ between the runs.
    """

    sentences: int
    equal: int
    kappa: float | None
    essential: tuple[int, int]
    other_sentences: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between two runs.

    Attributes:
        tasks: Scores, where there is a key; empty without.
        labels: Agreement of labels.
        changes: Every paired case, in the order of the first run.
        usage: Sums over the paired cases, by run.
        settings: Settings that differ.
        cautions: Warnings to show with the numbers.
    """

    first: RunOutcomes
    second: RunOutcomes
    judged_by: Settings
    pairing: Pairing
    tasks: tuple[TaskDifferences, ...]
    labels: LabelAgreement
    changes: tuple[CaseChange, ...]
    usage: tuple[Usage, Usage]
    settings: tuple[Setting, ...]
    cautions: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """One object for programs: ids and numbers, no text of a case or an answer."""
        gained, lost = by_gain(self.changes)
        return {
            "runs": {"A": self.first.name, "B": self.second.name},
            "judged_by": {**asdict(self.judged_by), "level": self.judged_by.level},
            "pairing": asdict(self.pairing),
            "tasks": [task.as_json() for task in self.tasks],
            "labels": asdict(self.labels),
            "cases": {
                "gained": [_case(change) for change in gained],
                "lost": [_case(change) for change in lost],
                "answers_changed": [change.case_id for change in self.changes if change.answer_changed],
                "routes_changed": [change.case_id for change in self.changes if change.route_changed],
            },
            "routes": [_counted(pair, n) for pair, n in route_changes(self.changes).items()],
            "intents": [_counted(pair, n) for pair, n in intent_changes(self.changes).items()],
            "usage": {name: usage._asdict() for name, usage in zip("AB", self.usage, strict=True)},
            "settings": [{"name": one.name, "A": one.first, "B": one.second} for one in self.settings],
            "cautions": list(self.cautions),
        }


def compare_runs(
    first: RunOutcomes,
    second: RunOutcomes,
    scores: tuple[Sequence[ScoredTask], Sequence[ScoredTask]],
    gold: Mapping[str, Labels],
    judged_by: Settings,
) -> Comparison:
    """Compare two runs, the second to the first, on the cases that are done in both.

    Without a key no task is scored; `gold` has the key's labels of the cases that it labels.
    """
    pairing = pair_cases(first, second)
    changes = tuple(
        case_change(first.cases[case_id], second.cases[case_id], gold.get(case_id))
        for case_id in pairing.both
    )
    labels = _labels(first, second, changes)
    scored = set.intersection(*({case_id for task in side for case_id in task.case_ids} for side in scores))
    return Comparison(
        first=first,
        second=second,
        judged_by=judged_by,
        pairing=pairing,
        tasks=tuple(compare_scores(*scores, judged_by)),
        labels=labels,
        changes=changes,
        usage=(_usage(first, pairing), _usage(second, pairing)),
        settings=tuple(differing_settings(first.manifest, second.manifest)),
        cautions=tuple(
            cautions(
                first,
                second,
                pairing,
                other_sentences=labels.other_sentences,
                scored=scored,
                settings=judged_by,
            )
        ),
    )


def _labels(first: RunOutcomes, second: RunOutcomes, changes: Sequence[CaseChange]) -> LabelAgreement:
    comparable = [change.case_id for change in changes if change.same_sentences]
    pairs = [
        (label, second.cases[case_id].labels[id_])
        for case_id in comparable
        for id_, label in first.cases[case_id].labels.items()
    ]
    return LabelAgreement(
        sentences=len(pairs),
        equal=sum(one == other for one, other in pairs),
        kappa=_kappa(pairs),
        essential=(
            sum(one == "essential" for one, _ in pairs),
            sum(other == "essential" for _, other in pairs),
        ),
        other_sentences=len(changes) - len(comparable),
    )


def _kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement beyond chance; None without pairs, and where all labels are one."""
    numbers = {
        label: place for place, label in enumerate(sorted({label for pair in pairs for label in pair}))
    }
    if len(numbers) < 2:
        return None
    kappa = CohenKappa(len(numbers))
    return float(kappa.of(kappa.row([(numbers[one], numbers[other]) for one, other in pairs]), 1))


def _usage(run: RunOutcomes, pairing: Pairing) -> Usage:
    used = [run.cases[case_id].usage for case_id in pairing.both]
    return Usage(*(sum(column) for column in zip(*used, strict=True))) if used else Usage(0, 0, 0)


def _case(change: CaseChange) -> dict[str, Any]:
    assert change.f1 is not None and change.sentences is not None
    return {
        "case_id": change.case_id,
        "f1": {"A": change.f1.first, "B": change.f1.second},
        **{name: list(ids) for name, ids in change.sentences._asdict().items()},
    }


def _counted(pair: tuple[str, str], cases: int) -> dict[str, Any]:
    return {"A": pair[0], "B": pair[1], "cases": cases}
