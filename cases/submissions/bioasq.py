"""The phases of BioASQ's task b: documents and snippets (A), exact and ideal answers (A+, B)."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from cases.biomedical import (
    PUBMED,
    QuestionType,
    Snippet,
    document_id,
    is_pubmed_address,
    pubmed_address,
)
from cases.formats.bioasq_json import is_bioasq
from cases.formats.json_questions import read_json
from cases.load import find_cases
from cases.records import Case, InvalidCase
from cases.submissions.task import Fault, Opened, SetFaults, Severity, SubmissionTask, Words, named
from storage.errors import InputError
from storage.files import json_bytes, opened

BioasqTask = Literal["bioasq-a", "bioasq-a+", "bioasq-b"]
"""Documents and snippets; answers from documents of one's own; answers from those that experts chose."""

BIOASQ_TASKS: tuple[BioasqTask, ...] = get_args(BioasqTask)

MAX_DOCUMENTS = 10
MAX_SNIPPETS = 10
MAX_FACTOID_ENTRIES = 5
MAX_LIST_ENTRIES = 100
MAX_ENTRY_CHARACTERS = 100
MAX_IDEAL_WORDS = 200

_SECTIONS = ("beginSection", "endSection")
_OFFSETS = ("offsetInBeginSection", "offsetInEndSection")
_BLANKS = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"

Expected = Mapping[str, QuestionType | None]
"""The questions of a test set and their types, by id."""

_MakeFault = Callable[[Severity, str, str], Fault]


@dataclass(frozen=True, slots=True)
class BioasqPrediction:
    """Prediction for a question; a missing part is None, never empty.

    Attributes:
        documents: Ids, best first.
        snippets: Best first.
        exact_answer: A text for a question of yes or no, else entries with their synonyms; of a factoid the
            best first.
    """

    id: str
    documents: tuple[str, ...] | None = None
    snippets: tuple[Snippet, ...] | None = None
    exact_answer: str | tuple[tuple[str, ...], ...] | None = None
    ideal_answer: str | None = None


class BioasqPhase(SubmissionTask[BioasqPrediction, QuestionType | None]):
    """A phase. Its file is an object with the list `questions`, whose fields may be of other phases too."""

    id_field = "id"
    set_faults = SetFaults(
        empty=Fault("refused", None, "questions", "none", "Submit the questions of the test set"),
        repeated=Fault("refused", None, "id", "{count} entries", "Keep one of each question"),
        missing=Fault("penalised", None, "", "missing", "A question that is not submitted scores 0"),
        extra=Fault("refused", None, "id", "not a question of the test set", "Leave it out"),
    )
    words = Words(
        entry=("question", "questions"),
        case=("question", "questions"),
        filled="WITHOUT AN ANSWER:",
        ambiguous="it may be submitted to several phases",
        unfit="it fits no phase",
    )
    suffixes = (".json",)

    def has_part(self, prediction: BioasqPrediction) -> bool:
        if self.name == "bioasq-a":
            return bool(prediction.documents)
        return prediction.exact_answer is not None or bool(prediction.ideal_answer)

    def entry_of(self, prediction: BioasqPrediction) -> dict[str, Any]:
        """Write a prediction. Rankings are cut at their limit; of synonyms only the first counts and is kept.

        Answers are written as they are, however long.
        """
        if self.name == "bioasq-a":
            return {
                "id": prediction.id,
                "documents": [pubmed_address(one) for one in (prediction.documents or ())[:MAX_DOCUMENTS]],
                "snippets": [_snippet_fields(one) for one in (prediction.snippets or ())[:MAX_SNIPPETS]],
            }
        entry: dict[str, Any] = {"id": prediction.id}
        if isinstance(prediction.exact_answer, str):
            entry["exact_answer"] = prediction.exact_answer
        elif prediction.exact_answer is not None:
            entry["exact_answer"] = [list(synonyms[:1]) for synonyms in prediction.exact_answer]
        if prediction.ideal_answer is not None:
            entry["ideal_answer"] = prediction.ideal_answer
        return entry

    def prediction_of(self, entry: Mapping[str, Any]) -> BioasqPrediction:
        """Read the fields of every phase; plain texts are entries of one synonym."""
        documents, snippets = entry.get("documents"), entry.get("snippets")
        exact, ideal = entry.get("exact_answer"), entry.get("ideal_answer")
        if isinstance(exact, list):
            exact = tuple((item,) if isinstance(item, str) else tuple(item) for item in exact)
        return BioasqPrediction(
            id=entry["id"].strip(),
            documents=None if documents is None else tuple(dict.fromkeys(map(document_id, documents))),
            snippets=None if snippets is None else tuple(map(_snippet, snippets)),
            exact_answer=exact,
            ideal_answer=" ".join(ideal) if isinstance(ideal, list) else ideal,
        )

    def form_faults(self, entry: object, number: int) -> list[Fault]:
        """Find what keeps an entry from being read at all, the fields of every phase together."""
        if not isinstance(entry, Mapping):
            return [_refused(None, f"question {number}", "not an object", 'Write {"id": ..., ...}')]
        id_ = entry.get("id")
        if not isinstance(id_, str) or not id_.strip():
            return [_refused(None, f"question {number}", "no id", "Copy the id of the question")]
        return [*_faults_of_fields(id_, entry)]

    def rule_faults(self, entry: Mapping[str, Any], known: QuestionType | None) -> Iterator[Fault]:
        """Find broken rules of the phase.

        Args:
            entry: One that can be read.
            known: Type of the question; None where unknown, which leaves out what depends on it.
        """
        if self.name == "bioasq-a":
            yield from _document_faults(entry)
            yield from _snippets_faults(entry)
        else:
            yield from _exact_faults(entry, known)
            yield from _ideal_faults(entry)

    def known_in_case(self, case: Case | InvalidCase) -> QuestionType | None:
        """The type of a question; None of one that cannot be read."""
        return case.biomedical.type if isinstance(case, Case) and case.biomedical else None

    def read_expected(self, keys: Sequence[Path], case_files: Sequence[Path]) -> Expected:
        """Read the types of a test set's questions."""
        return {case.id: self.known_in_case(case) for case in find_cases([*case_files, *keys])}

    def skipped_checks(self, expected: Expected | None) -> list[str]:
        """Name the checks that cannot be made without the test set."""
        if expected is not None:
            return []
        of_set = ["missing and unknown questions (--cases QUESTIONS.json)"]
        of_types = [] if self.name == "bioasq-a" else ["the form that each type asks for (the same)"]
        return of_set + of_types

    @staticmethod
    def open(path: Path) -> Opened:
        """Open a file; one without a list of questions cannot be read at all."""
        content = read_json(path)
        if not is_bioasq(content) or not isinstance(content["questions"], list):
            raise InputError(path, "no list of questions in it", 'Write {"questions": [{"id": ...}, ...]}')
        return Opened(content["questions"])

    @staticmethod
    def packed(entries: Sequence[object], suffix: str) -> bytes:
        """One JSON object."""
        return json_bytes({"questions": [*entries]}, indent=2)


def looks_like_bioasq(path: Path) -> bool:
    """Whether a file begins as a submission to BioASQ does: as an object, whereas ArchEHR's are arrays.

    Raises:
        InputError: It cannot be read.
    """
    with opened(path) as file:
        return file.read(64).removeprefix(_BOM).lstrip(_BLANKS).startswith(b"{")


def read_answers(path: Path) -> list[BioasqPrediction]:
    """Read a submission of any phase for scoring; a repeated document counts once.

    Raises:
        InputError: The file or a question cannot be read, or a question is there twice.
    """
    found: dict[str, BioasqPrediction] = {}
    for prediction in BioasqPhase("bioasq-b").read(path):
        if prediction.id in found:
            raise InputError(path, f"question {prediction.id!r} is there twice", "Keep one of them")
        found[prediction.id] = prediction
    return [*found.values()]


def possible_phases(entries: Iterable[object]) -> tuple[BioasqTask, ...]:
    """The phases that entries have fields of; answers may be of A+ or B, which look alike."""
    fields = {name for entry in entries if isinstance(entry, Mapping) for name in entry}
    found: list[BioasqTask] = []
    if fields & {"documents", "snippets"}:
        found.append("bioasq-a")
    if fields & {"exact_answer", "ideal_answer"}:
        found += ["bioasq-a+", "bioasq-b"]
    return tuple(found)


def _snippet(fields: Mapping[str, Any]) -> Snippet:
    section, last_section = fields.get("beginSection"), fields.get("endSection")
    begin, end = fields.get("offsetInBeginSection"), fields.get("offsetInEndSection")
    if last_section != section or begin is None or end is None:
        begin = end = None
    return Snippet(document_id(fields["document"]), fields["text"], section or "", begin, end)


def _snippet_fields(snippet: Snippet) -> dict[str, Any]:
    return {
        "document": pubmed_address(snippet.document),
        "text": snippet.text,
        "beginSection": snippet.section,
        "endSection": snippet.section,
        "offsetInBeginSection": snippet.begin,
        "offsetInEndSection": snippet.end,
    }


def _faults_of_fields(id_: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    if not _is_texts(entry.get("documents") or []):
        yield _refused(id_, "documents", "not a list of addresses", "Write addresses as texts")
    snippets = entry.get("snippets") or []
    if not isinstance(snippets, list):
        yield _refused(id_, "snippets", "not a list", "Write a list of objects")
    else:
        for number, snippet in enumerate(snippets, start=1):
            yield from _snippet_form(id_, f"snippets: {number}", snippet)
    exact = entry.get("exact_answer")
    if exact is not None and not isinstance(exact, str) and not _is_entries(exact):
        fault = f"{reprlib.repr(exact)} is neither a text nor a list of lists of texts"
        yield _refused(id_, "exact_answer", fault, 'Write "yes", "no", or entries such as [["one"], ["two"]]')
    ideal = entry.get("ideal_answer")
    if ideal is not None and not isinstance(ideal, str) and not _is_texts(ideal):
        yield _refused(id_, "ideal_answer", "not a text", "Write one text")


def _snippet_form(id_: str, place: str, snippet: object) -> Iterator[Fault]:
    if not isinstance(snippet, Mapping):
        yield _refused(id_, place, "not an object", 'Write {"document": ..., "text": ..., ...}')
        return
    for name in ("document", "text"):
        if not isinstance(snippet.get(name), str):
            yield _refused(id_, place, f"{name} is not text", f"Give its {name}")
    for name in _SECTIONS:
        if not isinstance(snippet.get(name), str | None):
            yield _refused(id_, place, f"{name} is not text", "Write title or abstract")
    for name in _OFFSETS:
        value = snippet.get(name)
        if not isinstance(value, int | None) or isinstance(value, bool):
            yield _refused(id_, place, f"{name} is not a whole number", "Count characters from 0")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_entries(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) or _is_texts(item) for item in value)


def _refused(id_: str | None, place: str, fault: str, remedy: str) -> Fault:
    return Fault("refused", id_, place, fault, remedy)


def _document_faults(entry: Mapping[str, Any]) -> Iterator[Fault]:
    addresses: list[str] = entry.get("documents") or []
    flaw = _faults_at(entry, "documents")
    if not addresses:
        yield flaw("penalised", "none", "A question without documents scores 0")
    if len(addresses) > MAX_DOCUMENTS:
        yield flaw("refused", f"{len(addresses)} of them", f"Submit the best {MAX_DOCUMENTS}")
    repeated = [one for one in dict.fromkeys(addresses) if addresses.count(one) > 1]
    if repeated:
        yield flaw("penalised", f"{named(repeated, 2)} more than once", "Later ones are dropped: name others")
    strange = [one for one in addresses if not is_pubmed_address(one)]
    if strange:
        yield flaw("refused", f"{named(strange, 2)}: no address of PubMed", f"Write {PUBMED}PMID")


def _snippets_faults(entry: Mapping[str, Any]) -> Iterator[Fault]:
    snippets: list[Mapping[str, Any]] = entry.get("snippets") or []
    if len(snippets) > MAX_SNIPPETS:
        flaw = _faults_at(entry, "snippets")
        yield flaw("refused", f"{len(snippets)} of them", f"Submit the best {MAX_SNIPPETS}")
    documents = {document_id(address) for address in entry.get("documents") or []}
    for number, snippet in enumerate(snippets, start=1):
        yield from _snippet_faults(entry, f"snippets: {number}", snippet, documents)


def _snippet_faults(
    entry: Mapping[str, Any], place: str, snippet: Mapping[str, Any], documents: set[str]
) -> Iterator[Fault]:
    flaw = _faults_at(entry, place)
    if not snippet["text"].strip():
        yield flaw("refused", "its text is empty", "Leave it out")
    if not is_pubmed_address(snippet["document"]):
        address = reprlib.repr(snippet["document"])
        yield flaw("refused", f"{address}: no address of PubMed", f"Write {PUBMED}PMID")
    elif document_id(snippet["document"]) not in documents:
        fault = f"its document {document_id(snippet['document'])} is not among the documents"
        yield flaw("penalised", fault, "Name the document too, or leave the snippet out")
    missing = [name for name in (*_SECTIONS, *_OFFSETS) if snippet.get(name) in (None, "")]
    if missing:
        yield flaw("refused", f"without {', '.join(missing)}", "Say where its text begins and ends")
        return
    begin, end = (snippet[name] for name in _OFFSETS)
    if begin < 0 or end < 0:
        yield flaw("refused", f"an offset below 0: {begin}, {end}", "Count characters from 0")
    elif snippet[_SECTIONS[0]] == snippet[_SECTIONS[1]]:
        if begin >= end:
            yield flaw("refused", f"offsets out of order: {begin}, {end}", "The end comes after the begin")
        elif end - begin != len(snippet["text"]):
            fault = f"offsets {begin} to {end} hold {end - begin} characters, its text {len(snippet['text'])}"
            yield flaw("penalised", fault, "Offsets are scored: correct them")


def _exact_faults(entry: Mapping[str, Any], kind: QuestionType | None) -> Iterator[Fault]:
    value = entry.get("exact_answer")
    flaw = _faults_at(entry, "exact_answer")
    if kind == "summary":
        if value:
            yield flaw("penalised", "a summary question has no exact answer", "Leave it out")
    elif value is None or value in ("", []):
        if kind is not None:
            yield flaw("penalised", "missing", "A question without an answer scores 0")
    elif kind == "yesno" or (kind is None and isinstance(value, str)):
        if value not in ("yes", "no"):
            yield flaw("refused", f"{reprlib.repr(value)} is neither yes nor no", 'Write "yes" or "no"')
    elif isinstance(value, str):
        fault = f"{reprlib.repr(value)} is a text, and a {kind} question takes entries"
        yield flaw("refused", fault, 'Write [["one"], ["two"]]')
    else:
        yield from _entry_faults(entry, value, kind)


def _entry_faults(
    entry: Mapping[str, Any], value: Sequence[Any], kind: QuestionType | None
) -> Iterator[Fault]:
    flaw = _faults_at(entry, "exact_answer")
    flat = [item for item in value if isinstance(item, str)]
    if flat:
        yield flaw("refused", f"{named(flat, 2)}: no list", 'Write each entry as a list: [["one"], ["two"]]')
        return
    most = MAX_FACTOID_ENTRIES if kind == "factoid" else MAX_LIST_ENTRIES
    if len(value) > most:
        yield flaw("refused", f"{len(value)} entries", f"Submit {most} at most")
    if any(not synonyms or not synonyms[0].strip() for synonyms in value):
        yield flaw("refused", "an entry is empty", "Leave it out")
    more = [synonyms[0] for synonyms in value if len(synonyms) > 1]
    if more:
        yield flaw("penalised", f"{named(more, 2)}: with synonyms", "Only the first of an entry is read")
    long = [synonyms[0] for synonyms in value if synonyms and len(synonyms[0]) > MAX_ENTRY_CHARACTERS]
    if long and kind != "factoid":
        fault = f"an entry of {len(long[0])} characters: {reprlib.repr(long[0])}"
        yield flaw("refused", fault, f"{MAX_ENTRY_CHARACTERS} at most")


def _ideal_faults(entry: Mapping[str, Any]) -> Iterator[Fault]:
    value = entry.get("ideal_answer")
    flaw = _faults_at(entry, "ideal_answer")
    if not value or not str(value).strip():
        yield flaw("penalised", "missing", "A question without an answer scores 0")
        return
    if not isinstance(value, str):
        yield flaw("refused", "a list", "Write one text")
        return
    words = len(value.split())
    if words > MAX_IDEAL_WORDS:
        yield flaw("refused", f"{words} words", f"{MAX_IDEAL_WORDS} at most")


def _faults_at(entry: Mapping[str, Any], field: str) -> _MakeFault:
    """Make faults of one field."""
    return lambda severity, fault, remedy: Fault(severity, entry["id"], field, fault, remedy)
