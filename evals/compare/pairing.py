"""Which cases of two runs can be held against each other."""

from __future__ import annotations

from dataclasses import dataclass

from evals.compare.outcomes import RunOutcomes


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
        both=tuple(
            case_id
            for case_id in shared
            if not first.cases[case_id].error and not second.cases[case_id].error
        ),
        only_first=tuple(case_id for case_id in first.cases if case_id not in second.cases),
        only_second=tuple(case_id for case_id in second.cases if case_id not in first.cases),
        failed_first=tuple(case_id for case_id, case in first.cases.items() if case.error),
        failed_second=tuple(case_id for case_id, case in second.cases.items() if case.error),
    )
