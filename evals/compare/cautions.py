"""What a reader must know before believing a comparison."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from evals.compare.differences import Settings
from evals.compare.outcomes import Pairing, RunOutcomes

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
) -> list[str]:
    """One sentence each, weightiest first; empty if there is nothing to say.

    Args:
        first: The first run.
        second: The second run.
        pairing: Their cases.
        other_sentences: Cases whose sentence ids differ between the runs.
        scored: Cases that are scored in both; empty without a key.
        settings: How differences are judged.
    """
    return [
        *_of_selection(scored, settings),
        *_of_pairs(first, second, pairing, other_sentences),
        *_of_demonstrations(first, second, scored),
    ]


def _of_selection(scored: Collection[str], settings: Settings) -> Iterator[str]:
    if not scored:
        return
    if len(scored) < FEW_CASES:
        yield (
            f"Only {len(scored)} cases are scored in both runs: intervals are wide, and with fewer than"
            f" {FEW_CASES} cases they cover less often than they say."
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


def _of_pairs(
    first: RunOutcomes, second: RunOutcomes, pairing: Pairing, other_sentences: int
) -> Iterator[str]:
    if first.manifest.inputs.sha256 != second.manifest.inputs.sha256:
        yield "The runs were made from other case files or keys; cases are paired by their ids alone."
    if other_sentences:
        yield (
            f"{_cases(other_sentences)} {_have(other_sentences)} other sentence ids in one run than in the"
            " other: these are other cases, or another version of them."
        )
    for run, failed in (("A", pairing.failed_first), ("B", pairing.failed_second)):
        if failed:
            yield (
                f"{_cases(len(failed))} failed in {run} and {_are(len(failed))} left out of the comparison;"
                " if they are the hard ones, this flatters the run."
            )
    for run, only in (("A", pairing.only_first), ("B", pairing.only_second)):
        if only:
            yield f"{_cases(len(only))} {_are(len(only))} in {run} alone and left out."


def _of_demonstrations(first: RunOutcomes, second: RunOutcomes, scored: Collection[str]) -> Iterator[str]:
    for name, run in (("A", first), ("B", second)):
        both = len(run.shown.intersection(scored))
        if both:
            yield (
                f"In {name}, {both} of the scored case ids also served as demonstrations of other cases: the"
                " run saw their labels, and scores on them are not those of unseen cases."
            )


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count:,} cases"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
