"""Two runs side by side, only what differs: the cases, and one case."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, get_args

from evals.compare.setups import differing_settings
from runs.reading import Run
from viewer.addresses import Addresses
from viewer.differences import Kind, RunDifferences, compare_case, mark_differences, sentence_pairs
from viewer.rendering import render

PAGE_LENGTH = 200
KINDS: tuple[Kind, ...] = get_args(Kind)


class Side(NamedTuple):
    """A run and the name that its addresses carry."""

    name: str
    run: Run


def compare_page(
    first: Side,
    second: Side,
    differences: RunDifferences,
    addresses: Addresses,
    *,
    kind: Kind | None = None,
    page: int = 1,
) -> str:
    """The settings and the cases in which two runs differ.

    Args:
        first: The run that is compared with.
        second: The run that is compared.
        differences: Of these two, made by `viewer.differences.compare`.
        addresses: Where links lead.
        kind: Only cases that differ in this.
        page: From 1; of `PAGE_LENGTH` cases each.
    """
    found = [case for case in differences.cases if kind is None or kind in case.kinds]
    pages = max(1, -(-len(found) // PAGE_LENGTH))
    page = min(max(1, page), pages)
    counts = Counter(each for case in differences.cases for each in case.kinds)
    gains = [case.change.f1.gain for case in differences.cases if case.change and case.change.f1]
    return render(
        "compare.html",
        addresses=addresses,
        first=first,
        second=second,
        settings=differing_settings(first.run.manifest, second.run.manifest),
        differences=differences,
        counts={each: counts[each] for each in KINDS},
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
        kind=kind,
        cases=found[(page - 1) * PAGE_LENGTH : page * PAGE_LENGTH],
        found=len(found),
        page=page,
        pages=pages,
        links={each: addresses.compare(first.name, second.name, kind=each) for each in (None, *KINDS)},
        page_links={
            number: addresses.compare(first.name, second.name, kind=kind, page=number)
            for number in (page - 1, page + 1)
        },
    )


def compare_case_page(first: Side, second: Side, case_id: str, addresses: Addresses) -> str:
    """One case of two runs, only what differs.

    Raises:
        RunError: The case has not ended in one of them.
    """
    lines = first.run.line(case_id), second.run.line(case_id)
    case = first.run.case(case_id)
    answers = lines[0].get("answer") or "", lines[1].get("answer") or ""
    return render(
        "compare_case.html",
        addresses=addresses,
        first=first,
        second=second,
        case_id=case_id,
        question=case.question if case else None,
        reference=case.gold.answer if case else None,
        difference=compare_case(first.run, second.run, case_id),
        pairs=sentence_pairs(*lines, case),
        usable=(lines[0].get("usable_votes"), lines[1].get("usable_votes")),
        answers=mark_differences(*answers) if answers[0] != answers[1] else None,
    )
