"""Keys of cases and of runs, and a run's predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cases.formats.archehr_key import read_archehr_key
from cases.load import CaseSource, find_cases, sort_keys
from cases.records import Case, Gold, Intent, Label
from cases.selection import parse_case_ids
from cases.submissions.archehr import CitedSentence, Prediction
from runs.record.folder import Line, RunFolder
from runs.record.manifest import recorded_source
from storage.errors import InputError

Labels = Mapping[str, Label]
"""The key's label of each sentence of a case."""


class ScoringError(Exception):
    """Predictions that cannot be scored, in one line with the remedy."""


@dataclass(frozen=True, slots=True)
class GoldCase:
    """The key of one case. A missing part is None: unlabelled, never empty.

    Attributes:
        labels: Relevance by sentence id, of every sentence of the note.
        links: Pairs of an answer sentence's id and the id of a note sentence that supports it.
        answer_ids: Ids of the answer's sentences, None where it has none.
        answer: The clinician's answer, without citations.
        narrative: The patient's message; None without the case file, as are the next two.
        question: The clinician's question.
        essential_texts: Texts of the essential sentences, in note order.
        weak: Whether the labels are not gold, but derived from the clinician's answer.
        case: The case that it was read with; None where only a key is known.
    """

    case_id: str
    labels: Labels | None = None
    links: frozenset[tuple[str, str]] | None = None
    answer_ids: tuple[str, ...] | None = None
    answer: str | None = None
    intent: Intent | None = None
    narrative: str | None = None
    question: str | None = None
    essential_texts: tuple[str, ...] | None = None
    weak: bool = False
    case: Case | None = None

    @property
    def essential(self) -> frozenset[str]:
        return self._having("essential")

    @property
    def supplementary(self) -> frozenset[str]:
        """Ids of the sentences that help and are not needed."""
        return self._having("supplementary")

    def _having(self, label: Label) -> frozenset[str]:
        return frozenset(id_ for id_, its in (self.labels or {}).items() if its == label)


def gold_of_case(case: Case) -> GoldCase:
    """From a case that was read with its key."""
    gold = _gold(case.id, case.gold)
    essential = gold.essential
    return replace(
        gold,
        narrative=case.narrative,
        question=case.question,
        essential_texts=tuple(one.text for one in case.sentences if one.id in essential),
        case=case,
    )


def read_gold(keys: Sequence[Path], case_files: Sequence[Path]) -> dict[str, GoldCase]:
    """Read keys, and the texts of their cases where case files are given.

    Without a key the case files alone are read: subtask 1 needs no more than their questions.

    Raises:
        InputError: A file cannot be read, or the key belongs to other cases.
    """
    keys, case_files = sort_keys(keys, case_files)
    found = {case_id: _gold(case_id, gold) for key in keys for case_id, gold in read_archehr_key(key).items()}
    if not case_files:
        return found
    source = find_cases(case_files, keys)
    source.check()
    from_files = {case.id: gold_of_case(case) for case in source if isinstance(case, Case)}
    return {case_id: from_files.get(case_id, gold) for case_id, gold in found.items()} or from_files


def only_cases(gold: Mapping[str, GoldCase], case_ids: Iterable[str]) -> dict[str, GoldCase]:
    """The cases that are asked for."""
    wanted = set(case_ids)
    return {case_id: case for case_id, case in gold.items() if case_id in wanted}


def wanted_ids(text: str) -> frozenset[str]:
    """The ids that `--case-ids` names.

    Raises:
        ScoringError: It names no case, or a range is not one.
    """
    try:
        return frozenset(parse_case_ids(text))
    except ValueError as error:
        raise ScoringError(str(error)) from None


def _gold(case_id: str, gold: Gold) -> GoldCase:
    sentences = gold.answer_sentences
    links = None
    if sentences is not None and all(sentence.citations is not None for sentence in sentences):
        links = frozenset(
            (sentence.id, cited) for sentence in sentences for cited in sentence.citations or ()
        )
    return GoldCase(
        case_id,
        labels=gold.labels,
        links=links,
        answer_ids=None if sentences is None else tuple(sentence.id for sentence in sentences),
        answer=gold.answer,
        intent=gold.intent,
        weak=gold.labels is not None and gold.label_source == "weak",
    )


@dataclass(frozen=True, slots=True)
class WholeKey:
    """All that a run could be scored on, whether the run has it or not.

    Attributes:
        gold: Every case of the key files and of the case files, by case id.
        unreadable: Ids of the cases whose texts cannot be read.
        has_keys: Whether labels come from key files; otherwise those of an unreadable case are unknown.
    """

    gold: Mapping[str, GoldCase]
    unreadable: tuple[str, ...]
    has_keys: bool


def whole_key(run: RunFolder, keys: Sequence[Path] = (), case_files: Sequence[Path] = ()) -> WholeKey:
    """The key for an official score of a run: scorers require every case of their key.

    Files and errors are those of `gold_of_run`.
    """
    source, known = _source_of_run(run, keys, case_files)
    if source is None:
        return WholeKey(read_gold(known, []), (), has_keys=True)
    if keys:
        source.unselected.check()
    gold: dict[str, GoldCase] = {}
    unreadable = []
    for case in source.unselected:
        if isinstance(case, Case):
            gold[case.id] = gold_of_case(case)
        else:
            unreadable.append(case.id)
    for case_id, entry in source.gold().items():
        gold.setdefault(case_id, _gold(case_id, entry))
    return WholeKey(gold, tuple(unreadable), has_keys=bool(source.keys))


def gold_of_run(
    run: RunFolder, keys: Sequence[Path] = (), case_files: Sequence[Path] = ()
) -> dict[str, GoldCase]:
    """Keys of the run's cases, by case id, in input order; from its own files, unless others are given.

    Without the run's case files, as where they have moved, a key alone still labels sentences.

    Raises:
        InputError: A file cannot be read, or a given key belongs to other cases.
    """
    source, known = _source_of_run(run, keys, case_files)
    if source is None:
        found = read_gold(known, [])
        return only_cases(found, run.manifest.selection.of_ids(found))
    if keys:
        source.unselected.check()
    return {case.id: gold_of_case(case) for case in source if isinstance(case, Case)}


def gold_if_readable(
    run: RunFolder, keys: Sequence[Path], case_files: Sequence[Path], report: Callable[[str], None]
) -> Mapping[str, GoldCase]:
    """As `gold_of_run`; empty, with a line of `report`, where the run's own inputs can no longer be read.

    Raises:
        InputError: A file that was given cannot be read, or a given key belongs to other cases.
    """
    try:
        return gold_of_run(run, keys, case_files)
    except InputError as error:
        if keys or case_files:
            raise
        report(f"no key: {error}")
        return {}


def _source_of_run(
    run: RunFolder, keys: Sequence[Path], case_files: Sequence[Path]
) -> tuple[CaseSource | None, list[Path]]:
    """The cases, None where the run's own case files have moved and a key is left; and the keys."""
    keys, case_files = sort_keys(keys, case_files)
    known = list(keys) or run.manifest.inputs.key_files
    try:
        return recorded_source(run.manifest, case_files, known), known
    except InputError:
        if case_files or not known:
            raise
        return None, known


def predictions(run: RunFolder) -> Iterator[Prediction]:
    """Stream the predictions of the cases that are done, in the order of `cases.jsonl`.

    A case that failed or waits for a person predicts nothing, whatever it came to before: it is missing,
    never empty.
    """
    for line in run.cases():
        if line["status"] == "done":
            yield prediction_of(line)


def prediction_of(line: Line) -> Prediction:
    """Read the prediction in the line of a completed case; parts that the run did not produce are None.

    Whose answer was aligned decides: links to the clinician's answer are subtask 4 of 2026, and those of
    the generated one are the citations of 2025.
    """
    labels: Mapping[str, str] = line["labels"] or {}
    alignment: Mapping[str, list[str]] = line.get("alignment") or {}
    aligned = line.get("aligned_answer")
    return Prediction(
        case_id=line["case_id"],
        question=line.get("interpreted_question"),
        evidence=tuple(id_ for id_, label in labels.items() if label == "essential") if labels else None,
        answer=line.get("answer"),
        links=tuple((id_, cited) for id_, ids in alignment.items() for cited in ids)
        if aligned == "clinician"
        else None,
        cited_answer=tuple(
            CitedSentence(sentence["text"], tuple(alignment.get(sentence["id"], ())))
            for sentence in line.get("answer_sentences") or ()
        )
        if aligned == "generated"
        else None,
    )
