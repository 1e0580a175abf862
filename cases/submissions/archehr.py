"""Common parts of the tasks of ArchEHR-QA 2025 and 2026: predictions, and the cases they are checked against.

`form_faults` finds what makes the official loader raise, `rule_faults` what silently costs points.
"""

from __future__ import annotations

import reprlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeGuard

from cases.formats.archehr_key import read_archehr_key
from cases.load import find_cases, sort_keys
from cases.records import Case, Gold, InvalidCase
from cases.submissions.container import open_submission, packed
from cases.submissions.task import Fault, SetFaults, SubmissionTask, Words
from storage.errors import InputError

Task = Literal["2025", "2026-1", "2026-2", "2026-3", "2026-4"]
"""ArchEHR-QA 2025 (a cited answer), and the subtasks of 2026: 1 question, 2 evidence, 3 answer, 4 links."""

Found = Iterator[tuple[str, str, str]]
"""Place, fault and remedy of faults in the form of a value."""


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence of an answer and the ids of the note sentences that it cites; none for no citation."""

    text: str
    citations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction for one case. A missing part is None, never empty.

    Read from a submission to 2025, three parts are filled: `cited_answer` with its unchanged sentences,
    `answer` with the scored text (cleaned, and truncated at 75 words), and `evidence` with every id that
    any line cites, in the order of first mention, those of lines beyond the cut included. The ids are as
    the scorer takes them, blanks around them and all. Written, only `cited_answer` counts.

    Attributes:
        question: Clinician question (2026, subtask 1).
        evidence: Ids of the needed note sentences (2026, subtask 2).
        answer: Answer without citations (2026, subtask 3).
        links: Pairs of an answer sentence's id and a note sentence's id (2026, subtask 4).
        cited_answer: Answer by sentences with their citations (2025).
    """

    case_id: str
    question: str | None = None
    evidence: tuple[str, ...] | None = None
    answer: str | None = None
    links: tuple[tuple[str, str], ...] | None = None
    cited_answer: tuple[CitedSentence, ...] | None = None


@dataclass(frozen=True, slots=True)
class KnownIds:
    """Ids of one case: of its note's sentences, and of the clinician's answer's. None where nothing says."""

    sentences: frozenset[str] | None = None
    answer_sentences: frozenset[str] | None = None


Expected = Mapping[str, KnownIds]
"""By case id, the cases that a submission must hold."""


class ArchehrTask(SubmissionTask[Prediction, KnownIds]):
    """A task of ArchEHR-QA: an entry is an object with the id of its case and one value."""

    id_field = "case_id"
    set_faults = SetFaults(
        empty=Fault("refused", None, "", "no case in it", "Submit every case of the test set"),
        repeated=Fault(
            "penalised",
            None,
            "",
            "{count} entries, each of which is scored",
            "Keep one entry for each case",
        ),
        missing=Fault("refused", None, "", "missing", "Submit every case"),
        extra=Fault("refused", None, "", "not a case of the key", "Leave it out"),
    )
    words = Words(
        entry=("entry", "entries"),
        case=("case", "cases"),
        filled="EMPTY LISTS, not predictions, for",
        ambiguous="two tasks have this shape",
        unfit="its entries have the shape of no one task",
    )
    suffixes = (".zip", ".json")
    open = staticmethod(open_submission)
    packed = staticmethod(packed)
    field: ClassVar[str] = "prediction"
    """The field of an entry that holds the prediction."""
    part: str
    """The attribute of a prediction that it is built from."""
    needs: tuple[str, ...] = ("sentences",)
    """The attributes of `KnownIds` that its rules read."""

    @abstractmethod
    def value_faults(self, value: object) -> Found:
        """Find faults in the form of an entry's value."""

    def form_faults(self, entry: object, number: int) -> list[Fault]:
        if not isinstance(entry, dict):
            return [Fault("refused", None, f"entry {number}", f"{kind_of(entry)}, not an object")]
        case = entry.get("case_id")
        name = case if isinstance(case, str) else None
        place = "" if name is not None else f"entry {number}"
        faults = list(_case_id_faults(entry, place))
        if self.field not in entry:
            remedy = _other_field(entry, self.field)
            return [*faults, Fault("refused", name, place, f"no field {self.field!r}", remedy)]
        prefix = f"{place}: " if place else ""
        return faults + [
            Fault("refused", name, f"{prefix}{where}", fault, remedy)
            for where, fault, remedy in self.value_faults(entry[self.field])
        ]

    def has_part(self, prediction: Prediction) -> bool:
        return getattr(prediction, self.part) is not None

    def entry_of(self, prediction: Prediction) -> dict[str, Any]:
        """Write a prediction as an entry.

        Raises:
            ValueError: The prediction says nothing on this task, or the form cannot hold an id of it; names
                the case.
        """
        if not self.has_part(prediction):
            raise ValueError(f"case {prediction.case_id!r}: nothing is predicted of its {self.part}")
        try:
            return {"case_id": prediction.case_id, self.field: self.value_of(prediction)}
        except ValueError as error:
            raise ValueError(f"case {prediction.case_id!r}: {error}") from None

    @abstractmethod
    def value_of(self, prediction: Prediction) -> Any:
        """Value of an entry for a prediction that has the part."""

    def known_in_case(self, case: Case | InvalidCase) -> KnownIds:
        """The ids of a case and of the gold that it carries; none of a case that cannot be read."""
        if isinstance(case, InvalidCase):
            return KnownIds()
        return KnownIds(frozenset(case.sentence_ids) or None, _known_in_gold(case.gold).answer_sentences)

    def read_expected(self, keys: Sequence[Path], case_files: Sequence[Path]) -> Expected:
        """Read the cases that a submission is checked against.

        The official scorers take the cases from the key, and for subtask 1 from the XML. Ids come from the
        key, and where it has none, from the note.

        Raises:
            InputError: A file cannot be used, or two keys name one case.
        """
        keys, case_files = sort_keys(keys, case_files)
        noted: dict[str, KnownIds] = {}
        if case_files:
            source = find_cases(case_files, keys)
            gold = source.gold()
            noted = {case.id: self.known_in_case(case) for case in source}
        else:
            gold = _read_keys(keys)
        if noted and (self.name == "2026-1" or not gold):
            return noted
        return {id_: _either(_known_in_gold(entry), noted.get(id_)) for id_, entry in gold.items()}

    def skipped_checks(self, expected: Expected | None) -> list[str]:
        known = (expected or {}).values()
        remedies = {
            "sentences": "unknown sentence ids (--key, or --cases with notes)",
            "answer_sentences": "unknown answer ids (--key with clinician_answer_sentences)",
        }
        return [
            *(["missing and extra cases (--key or --cases)"] if expected is None else []),
            *(
                remedies[name]
                for name in self.needs
                if not known or any(getattr(ids, name) is None for ids in known)
            ),
        ]


def text_faults(value: object, where: str) -> Found:
    """Find a value that is not text."""
    if not isinstance(value, str):
        yield where, f"{kind_of(value)}, not text", ""


def id_faults(ids: list[Any], place: str) -> Found:
    """Find ids that are not text."""
    for index, id_ in enumerate(ids):
        if not isinstance(id_, str):
            yield f"{place}[{index}]", f"{kind_of(id_)}, not text", quoted(id_)


def quoted(id_: object) -> str:
    """The remedy for a number in place of an id."""
    return f'Write "{id_}"' if _is_whole(id_) else ""


def kind_of(value: object) -> str:
    """Type of a JSON value, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return f"the truth value {str(value).lower()}"
        case int() | float():
            return f"the number {reprlib.repr(value)}"
        case str():
            return f"the text {reprlib.repr(value)}"
        case list():
            return "a list"
        case _:
            return "an object"


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _case_id_faults(entry: Mapping[str, Any], place: str) -> Iterator[Fault]:
    if "case_id" not in entry:
        yield Fault("refused", None, place, "no field 'case_id'")
        return
    case_id = entry["case_id"]
    if not isinstance(case_id, str):
        remedy = quoted(case_id) or "Give the id as text"
        yield Fault("refused", None, place, f"case_id is {kind_of(case_id)}, not text", remedy)


def _other_field(entry: Mapping[str, Any], field: str) -> str:
    other = "answer" if field == "prediction" else "prediction"
    if other not in entry:
        return f"Put the prediction into {field!r}"
    year = "2025" if other == "answer" else "2026"
    return f"{other!r} is the field of {year}: give another --task, or rename it"


def _read_keys(keys: Iterable[Path]) -> dict[str, Gold]:
    gold: dict[str, Gold] = {}
    for key in keys:
        for case_id, entry in read_archehr_key(key).items():
            if case_id in gold:
                raise InputError(key, f"case {case_id!r} is in another key too", "Give one of them")
            gold[case_id] = entry
    return gold


def _known_in_gold(gold: Gold) -> KnownIds:
    answer = gold.answer_sentences
    return KnownIds(
        frozenset(gold.labels) if gold.labels else None,
        frozenset(sentence.id for sentence in answer) if answer else None,
    )


def _either(key: KnownIds, noted: KnownIds | None) -> KnownIds:
    if noted is None:
        return key
    return KnownIds(key.sentences or noted.sentences, key.answer_sentences or noted.answer_sentences)
