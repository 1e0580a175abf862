"""Reviewed cases of a run as gold: for key files, for case files, for pools of demonstrations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cases.formats.archehr_key import write_archehr_key
from cases.formats.plain_jsonl import write_jsonl
from cases.records import Case, Gold
from cases.texts import plural, quoted
from runs.record.folder import RunFolder
from runs.record.manifest import RunError, recorded_cases, recorded_source
from runs.record.purged import refuse_purged
from runs.review.reviewers import ReviewedRun
from runs.review.reviews import Review, Reviews, is_stale
from storage.errors import InputError


@dataclass(frozen=True, slots=True)
class ReviewedCases:
    """Reviewed cases of a run.

    Attributes:
        cases: With the reviewed labels and answers as their gold, in input order.
        stale: Ids of those of them whose review was given on another result than the present one.
    """

    cases: Sequence[Case]
    stale: Sequence[str]


def reviewed_cases(run: RunFolder) -> ReviewedCases:
    """The cases whose labels or answer a person has reviewed, and no others.

    Parts that a review leaves open stay as in the run's key if people made it; weak labels are dropped.
    Labels of people stay valid when the run's result changes, so stale reviews count, and are named.

    Raises:
        RunError: Nothing is reviewed, or the case files have changed since the run began.
        InputError: A case file cannot be read.
    """
    refuse_purged(run.path)
    reviews = Reviews(run.path)
    labels, answers = reviews.latest("labels"), reviews.latest("answer")
    wanted = labels.keys() | answers.keys()
    if not wanted:
        hint = f"see: evigraph review {quoted(run.path)}"
        raise RunError(f"{run.path}: no labels or answers reviewed yet; {hint}")
    cases = _with_reviews(run, labels, answers)
    lines = {line["case_id"]: line for line in run.cases() if line["case_id"] in wanted}
    stale = [
        case.id
        for case in cases
        if case.id in lines
        and any(is_stale(said[case.id], lines[case.id]) for said in (labels, answers) if case.id in said)
    ]
    return ReviewedCases(cases, stale)


def export_reviewed(run: RunFolder, path: Path) -> ReviewedCases:
    """Write the reviewed cases as an ArchEHR-QA key (.json), or with their texts (.jsonl).

    Raises:
        RunError: As `reviewed_cases`.
        InputError: The file exists, has another suffix, or cannot be written.
    """
    _demand_new(path)
    found = reviewed_cases(run)
    _write(path, found.cases)
    return found


@dataclass(frozen=True, slots=True)
class AdjudicatedCases:
    """Cases whose labels count, as several people gave them.

    Attributes:
        cases: With those labels, and the reviewed answers, as their gold, in input order.
        agreed: How many of them all reviewers labelled alike, if there were several.
        missing: Ids of the assigned cases that somebody is still to label; they are left out.
    """

    cases: Sequence[Case]
    agreed: int
    adjudicated: int
    alone: int
    missing: Sequence[str]


def export_adjudicated(run: RunFolder, path: Path) -> AdjudicatedCases:
    """Write the cases whose reviewers agree, or between whose reviewers somebody has decided.

    Raises:
        RunError: Somebody has yet to decide between reviewers, or no case is labelled; or as
            `reviewed_cases`.
        InputError: As `export_reviewed`.
    """
    _demand_new(path)
    reviewed = ReviewedRun(run.path)
    standings = reviewed.standings()
    undecided = [case_id for case_id, one in standings.items() if one.undecided]
    command = f"evigraph review adjudicate {quoted(run.path)}"
    if undecided:
        named = f"{', '.join(undecided[:8])}{', ...' if undecided[8:] else ''}"
        raise RunError(
            f"{run.path}: reviewers differ on {plural(len(undecided), 'case')}: {named}; decide between them"
            f" first: {command} {quoted(undecided[0])}"
        )
    counting = reviewed.counting()
    if not counting:
        raise RunError(f"{run.path}: no case is labelled by all its reviewers yet; see: {command}")
    cases = _with_reviews(run, counting, reviewed.reviews.latest("answer"))
    cases = [case for case in cases if case.id in counting]
    _write(path, cases)
    by_case = [standings[case.id] for case in cases]
    adjudicated = sum(one.adjudication is not None for one in by_case)
    alone = sum(one.adjudication is None and len(one.by_reviewer) == 1 for one in by_case)
    return AdjudicatedCases(
        cases,
        agreed=len(cases) - adjudicated - alone,
        adjudicated=adjudicated,
        alone=alone,
        missing=[case_id for case_id, one in standings.items() if one.missing and case_id not in counting],
    )


def _demand_new(path: Path) -> None:
    if path.suffix not in (".json", ".jsonl"):
        raise InputError(path, "reviews are written as a key (.json) or as cases (.jsonl)", "Name one")
    if path.exists():
        raise InputError(path, "exists", "Choose another name")


def _write(path: Path, cases: Sequence[Case]) -> None:
    if path.suffix == ".json":
        write_archehr_key(path, {case.id: case.gold for case in cases})
    else:
        write_jsonl(path, cases)


def _with_reviews(
    run: RunFolder, labels: Mapping[str, Review], answers: Mapping[str, Review]
) -> Sequence[Case]:
    """The cases with labels or an answer, in input order, with these as their gold."""
    # Reviewed ids must be those of the same sentences.
    if recorded_source(run.manifest).unselected.check().sha256 != run.manifest.inputs.sha256:
        raise RunError(f"{run.path}: its case files or keys have changed since it was reviewed")
    return [
        replace(case, gold=_reviewed(case.gold, labels.get(case.id), answers.get(case.id)))
        for case in recorded_cases(run.manifest)
        if case.id in labels or case.id in answers
    ]


def _reviewed(key: Gold, labels: Review | None, answer: Review | None) -> Gold:
    gold = replace(key, labels=None, label_source="gold") if key.label_source == "weak" else key
    if labels is not None:
        gold = replace(gold, labels=labels.labels, label_source="gold")
    if answer is not None:
        # Citations are of the sentences of the key's own answer.
        gold = replace(gold, answer=answer.answer, answer_sentences=None)
    return gold
