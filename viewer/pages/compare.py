"""Two runs side by side: differences over all cases and in one case."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple, get_args

import numpy as np

from cases.records import Case
from cases.texts import quoted
from evals.compare.changes import CaseChange, case_change
from evals.compare.matrix import Matrix, matrix_of, read_side
from evals.compare.outcomes import CaseOutcome, differing_settings, in_words, outcome_of
from evals.pages.tables import Cell
from evals.scoring.gold import Labels
from evals.scoring.scored_task import Score, ScoredTask, by_task, pair, title_of
from evals.statistics.bootstrap import paired_bootstrap
from evals.statistics.case_totals import PERCENT, Pooled
from graph.system import find_system
from nodes.verification.support import marked_text
from ranking.measures import PARTS, Counts
from runs.record.reading import Run
from runs.record.trace_file import Line
from serving.journal.journal import JournalError
from viewer.addresses import Addresses, ServedAddresses
from viewer.case_parts.timeline import executions
from viewer.opened_run import answers_of
from viewer.pages.runs import SCORES
from viewer.rendering import render

Kind = Literal["status", "labels", "answer", "route", "intent"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PAGE_LENGTH = 200

_WORD = re.compile(r"\S+\s*")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Difference:
    """A case that ended differently in two runs.

    Attributes:
        statuses: In both runs: `done`, or the class of the error.
        change: Labels, F1, intents and answer; None unless both are done.
        routes: Names of the nodes of both, if they differ.
    """

    case_id: str
    kinds: tuple[Kind, ...]
    statuses: tuple[str, str]
    change: CaseChange | None
    routes: tuple[tuple[str, ...], tuple[str, ...]] | None


class SentencePair(NamedTuple):
    """A sentence in both runs; votes are None where a run had no votes."""

    id: str
    text: str | None
    labels: tuple[str, str]
    votes: tuple[int | None, int | None]
    gold: str | None


class Piece(NamedTuple):
    """Words of a text, and whether the other text shares them."""

    text: str
    shared: bool


class ScoreRow(NamedTuple):
    """A score of both runs, and of the second less the first; in percent."""

    name: str
    first: Cell
    second: Cell
    difference: Cell


@dataclass(frozen=True, slots=True)
class RunDifferences:
    """Two runs over the same cases; `cases` has only those that differ, in the order of the first run.

    Attributes:
        only: Numbers of cases that ended in just one of them.
        scores: Of both over the cases that are scored in both, with intervals; empty without any.
    """

    shared: int
    only: tuple[int, int]
    cases: tuple[Difference, ...]
    scores: tuple[ScoreRow, ...] = ()
    scored: int = 0


def compare(first: Run, second: Run) -> RunDifferences:
    """All cases that differ; reads the lines of both runs once."""
    one, other = dict(_outcomes(first)), dict(_outcomes(second))
    both = [case_id for case_id in one if case_id in other]
    scored, scores = compare_scores(first, second)
    found = (_difference(one[case_id], other[case_id], _labels(first.case(case_id))) for case_id in both)
    return RunDifferences(
        shared=len(both),
        only=(len(one) - len(both), len(other) - len(both)),
        cases=tuple(difference for difference in found if difference.kinds),
        scores=tuple(scores),
        scored=scored,
    )


def compare_scores(first: Run, second: Run) -> tuple[int, list[ScoreRow]]:
    """How many cases are scored in both runs, and the scores of both over these, with 95 % intervals.

    They are those of the list of runs: of sentences the strict micro scores, of verdicts the accuracy, of
    answers to BioASQ's questions the headline of each part.
    """
    scored, rows = 0, []
    for one, other in by_task([_scored(first), _scored(second)]):
        paired = pair(one, other)
        shown = [score for score in paired.scores if not one.headline_title or score.name == one.headline]
        scored = max(scored, len(paired.case_ids))
        if not paired.case_ids:
            continue
        found = paired_bootstrap(paired.first, paired.second, [score.statistic for score in shown])
        for score, its in zip(shown, found, strict=True):
            rows.append(
                ScoreRow(
                    one.headline_title or score.name,
                    one.form.cell(its.first),
                    one.form.cell(its.second),
                    one.form.cell(its.difference, signed=True),
                )
            )
    return scored, rows


def _scored(run: Run) -> Sequence[ScoredTask]:
    """Scores from the index of a run, or every part of answers to BioASQ's questions."""
    scoring = find_system(run.manifest.system).score or ""
    if scoring not in SCORES:
        return answers_of(run.path)
    counts = run.counts()
    verdicts = scoring == "verdict"
    scores = [
        Score(f"strict micro {title_of(part)}", Pooled(0, part, "perfect", PERCENT))
        for part in (("f1",) if verdicts else PARTS)
    ]
    task = ScoredTask(
        task=scoring,
        title=SCORES[scoring],
        case_ids=tuple(counts),
        columns=Counts._fields,
        matrix=np.asarray([*counts.values()], dtype=np.float64).reshape(-1, len(Counts._fields)),
        scores=tuple(scores),
        headline=scores[-1].name,
        headline_title=SCORES[scoring] if verdicts else "",
    )
    return [task]


def compare_case(first: Run, second: Run, case_id: str) -> Difference:
    """One case in both runs.

    Raises:
        RunError: It has not ended in one of them.
    """
    one, other = (
        outcome_of(run.line(case_id), tuple(step["node"] for step in executions(run.trace(case_id))))
        for run in (first, second)
    )
    return _difference(one, other, _labels(first.case(case_id)))


def sentence_pairs(first: Line, second: Line, case: Case | None) -> list[SentencePair]:
    """Sentences whose label or number of votes differs, in note order; all sentences where ids differ."""
    texts = {sentence.id: sentence.text for sentence in case.sentences} if case else {}
    gold = _labels(case) or {}
    pairs = [
        SentencePair(
            id_,
            texts.get(id_),
            (first["labels"].get(id_, "-"), second["labels"].get(id_, "-")),
            (_votes(first, id_), _votes(second, id_)),
            gold.get(id_),
        )
        for id_ in dict.fromkeys([*first["labels"], *second["labels"]])
    ]
    return [pair for pair in pairs if pair.labels[0] != pair.labels[1] or pair.votes[0] != pair.votes[1]]


def mark_differences(
    first: str, second: str, unit: re.Pattern[str] = _WORD
) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces of whole words, or other units, shared ones and those of only one text."""
    one, other = unit.findall(first), unit.findall(second)
    matcher = difflib.SequenceMatcher(a=one, b=other, autojunk=False)
    blocks = matcher.get_matching_blocks()
    in_one = {block.a + step for block in blocks for step in range(block.size)}
    in_other = {block.b + step for block in blocks for step in range(block.size)}
    return _pieces(one, in_one), _pieces(other, in_other)


class PromptPair(NamedTuple):
    """The first prompt of a node in both runs, in pieces of whole lines."""

    node: str
    pieces: tuple[list[Piece], list[Piece]]
    changed: int


def prompt_pairs(first: Run, second: Run, case_id: str) -> list[PromptPair]:
    """Prompts that differ, one a node, as the calls of a case were asked; of each node its first call."""
    one, other = (_first_prompts(run, case_id) for run in (first, second))
    pairs = []
    for node in one:
        if node in other and one[node] != other[node]:
            pieces = mark_differences(one[node], other[node], _LINE)
            changed = sum(not piece.shared for side in pieces for piece in side)
            pairs.append(PromptPair(node, pieces, changed))
    return pairs


def _first_prompts(run: Run, case_id: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for step in run.trace(case_id):
        calls = step.get("calls") or ()
        if not calls or step["node"] in found:
            continue
        try:
            messages = run.conversation(calls[0]["key"])
        except (KeyError, JournalError):
            continue
        found[step["node"]] = "\n\n".join(message.text for message in messages[:-1])
    return found


def _pieces(words: list[str], shared: set[int]) -> list[Piece]:
    marked = [(word, number in shared) for number, word in enumerate(words)]
    return [
        Piece("".join(word for word, _ in group), is_shared)
        for is_shared, group in groupby(marked, key=lambda pair: pair[1])
    ]


def _outcomes(run: Run) -> Iterator[tuple[str, CaseOutcome]]:
    routes = {summary.case_id: summary.route for summary in run.summaries()}
    for line in run.lines():
        yield line["case_id"], outcome_of(line, routes.get(line["case_id"], ()))


def _difference(one: CaseOutcome, other: CaseOutcome, gold: Labels | None) -> Difference:
    statuses = (one.error or "done", other.error or "done")
    change = None if one.error or other.error else case_change(one, other, gold)
    kinds: list[Kind] = []
    if statuses[0] != statuses[1]:
        kinds.append("status")
    if change is not None:
        differs: dict[Kind, bool] = {
            "labels": bool(change.added or change.removed or not change.same_sentences),
            "answer": change.answer_changed,
            "intent": change.intents is not None,
        }
        kinds += [kind for kind, differing in differs.items() if differing]
    routes = (one.route, other.route) if one.route != other.route else None
    if routes is not None:
        kinds.append("route")
    return Difference(one.case_id, tuple(kinds), statuses, change, routes)


def _labels(case: Case | None) -> Labels | None:
    """Labels that people gave."""
    if case is None or case.gold.label_source != "gold":
        return None
    return case.gold.labels


def _votes(line: Line, id_: str) -> int | None:
    counts = line.get("vote_counts")
    return None if not counts else counts.get(id_)


class Side(NamedTuple):
    """A run and its name in addresses."""

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
    """The settings and the cases in which two runs differ."""
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
        settings=(settings := differing_settings(first.run.manifest, second.run.manifest)),
        words=in_words(settings),
        swap=addresses.compare(second.name, first.name, kind=kind),
        differences=differences,
        paths=f"{quoted(first.run.path)} {quoted(second.run.path)}",
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


def read_matrix(sides: Sequence[Side]) -> Matrix:
    """Several runs side by side; reads their lines and traces once."""
    return matrix_of([read_side(side.run.folder, _scored(side.run), side.name) for side in sides])


def matrix_page(matrix: Matrix, addresses: ServedAddresses) -> str:
    """Several runs side by side: scores, and a matrix of cases and runs."""
    names = [side.name for side in matrix.sides.values()]
    first = {id_: next(s.name for s in matrix.sides.values() if id_ in s.case_ids) for id_ in matrix.case_ids}
    return render(
        "compare_many.html",
        addresses=addresses,
        matrix=matrix,
        runs=matrix.runs_table(),
        cases=matrix.cases_table(),
        links={id_: addresses.case(name, id_) for id_, name in first.items()},
        pairs=[
            (one, letter, addresses.compare(names[place], names[other]))
            for place, one in enumerate(matrix.sides)
            for other, letter in enumerate(matrix.sides)
            if place < other
        ],
        differences=list(matrix.differences()),
    )


def compare_case_page(first: Side, second: Side, case_id: str, addresses: Addresses) -> str:
    """The differences between two runs in one case.

    Raises:
        RunError: The case has not ended in one of them.
    """
    lines = first.run.line(case_id), second.run.line(case_id)
    case = first.run.case(case_id)
    answers = marked_text(lines[0]), marked_text(lines[1])
    # Prompts are left out where texts are.
    prompts = prompt_pairs(first.run, second.run, case_id)
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
        prompts=prompts,
        verdicts=tuple(line.get("verdict") for line in lines),
    )
