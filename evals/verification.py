"""Sources and lines of verification; a verified text as JSON and as a page; the answers of a whole run."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases.formats.note_sentences import note_sentences
from cases.load import find_cases
from cases.records import Case, InvalidCase
from cases.texts import plural
from evals.pages.page import render_page
from evals.pages.tables import some
from nodes.verification.support import Finding, MarkedSentence, Support, marked_sentence
from ranking.rankers.ranker import Ranker
from ranking.verify import Evidence, Verification, VerifiedLine, verify
from runs.record.folder import RunFolder
from runs.record.manifest import recorded_cases
from storage.errors import InputError
from storage.files import opened

STANDARD_INPUT = "-"
_CASE_FILES = (".xml", ".jsonl")

SUPPORTS: tuple[Support, ...] = ("supported", "not_stated")
"""The support that a ranker can distinguish."""


@dataclass(frozen=True, slots=True)
class Source:
    """Source that lines are verified against.

    Attributes:
        name: For people.
        ids: Of the sentences.
    """

    name: str
    ids: tuple[str, ...]
    sentences: tuple[str, ...]


def read_lines(note: Path) -> tuple[str, ...]:
    """Sentences of a text file, or of standard input for `-`.

    Raises:
        InputError: It cannot be read, is not text, or has no sentence.
    """
    name = "standard input" if str(note) == STANDARD_INPUT else str(note)
    return _sentences(name, sys.stdin.buffer.read() if str(note) == STANDARD_INPUT else _bytes(note))


def read_source(path: Path, case_id: str | None) -> Source:
    """Sentences of a text file with their numbers from 1, or the note of a case with its own ids.

    Raises:
        InputError: It cannot be read, is not text, has no sentence, or has no such case.
    """
    if path.suffix.lower() in _CASE_FILES:
        return _of_case(str(path), _find(path, case_id))
    if case_id is not None:
        raise InputError(path, "is not a case file, so --case has nothing to choose from")
    sentences = _sentences(str(path), _bytes(path))
    return Source(str(path), tuple(str(number) for number in range(1, len(sentences) + 1)), sentences)


def read_run(run: Path, case_id: str) -> tuple[tuple[str, ...], Source]:
    """A run's answer to a case, by sentences, and the case's note.

    Raises:
        RunError: It is not a run, or the case has not ended in it.
        InputError: The case has no answer, or its file has moved.
    """
    folder = RunFolder(run)
    answer = folder.require_case(case_id).get("answer")
    case = next((case for case in recorded_cases(folder.manifest) if case.id == case_id), None)
    return answer_and_note(str(run), case_id, answer, case)


def answer_and_note(
    run: str, case_id: str, answer: str | None, case: Case | None
) -> tuple[tuple[str, ...], Source]:
    """An answer by sentences, and the note of its case.

    Raises:
        InputError: An answer, a case or a note is missing.
    """
    if not answer:
        raise InputError(run, f"case {case_id!r} has no answer", "Run it with a recipe that answers")
    if case is None:
        raise InputError(run, f"case {case_id!r} is not in the run's case files any more")
    return tuple(note_sentences(answer)), _of_case(run, case)


def _bytes(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


def _sentences(name: str, content: bytes) -> tuple[str, ...]:
    if b"\0" in content:
        raise InputError(name, "is not a text file: it has null bytes", "Give text in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(name, f"not UTF-8 at byte {error.start + 1}", "Give text in UTF-8") from None
    found = note_sentences(text)
    if not found:
        raise InputError(name, "has no sentence in it")
    return tuple(found)


def _of_case(name: str, case: Case) -> Source:
    if not case.sentences:
        raise InputError(name, f"case {case.id!r} has no note")
    texts = tuple(sentence.text for sentence in case.sentences)
    return Source(f"{name}, case {case.id}", case.sentence_ids, texts)


def _find(path: Path, case_id: str | None) -> Case:
    found: list[str] = []
    for case in find_cases([path]):
        found.append(case.id)
        if case_id is not None and case.id == case_id:
            return _usable(path, case)
        only = case
    if case_id is not None:
        raise InputError(path, f"no case {case_id!r} in it", f"It has {some(found, 5)}")
    if len(found) > 1:
        raise InputError(
            path, f"has {plural(len(found), 'case')}", f"Choose one with --case: {some(found, 5)}"
        )
    return _usable(path, only)


def _usable(path: Path, case: Case | InvalidCase) -> Case:
    if isinstance(case, InvalidCase):
        raise InputError(*case.fault.split(": ", 1))
    return case


_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Report:
    """A verification with where it came from.

    Attributes:
        note: Where the lines came from.
        source: Where the sentences came from.
        ids: Of the sentences.
        ranker: Identity of the ranker.
        source_encoded: Whether the source was encoded now; False where vectors were kept from before, None
            where the ranker needs none.
    """

    note: str
    source: str
    ids: tuple[str, ...]
    ranker: str
    verification: Verification
    source_encoded: bool | None

    @property
    def findings(self) -> list[Finding]:
        """The support of each line."""
        return findings_of(self.verification, self.ids)

    @property
    def marked_lines(self) -> list[tuple[VerifiedLine, Finding, MarkedSentence]]:
        """Each line as it is shown."""
        pairs = zip(self.verification.lines, self.findings, strict=True)
        return [(line, finding, marked_sentence(finding)) for line, finding in pairs]

    def count(self, support: Support) -> int:
        return count_support(self.findings, support)

    def as_json(self) -> dict[str, Any]:
        found = self.verification
        source = json.dumps(list(found.sentences)).encode()
        return {
            "note": self.note,
            "source": self.source,
            "source_sha256": hashlib.sha256(source).hexdigest(),
            "source_sentences": len(found.sentences),
            "ranker": self.ranker,
            "threshold": found.threshold,
            **{support: self.count(support) for support in SUPPORTS},
            "cut_sentences": [self.ids[place] for place in found.cut_sentences],
            "cut_lines": [number for number, line in enumerate(found.lines, start=1) if line.cut],
            "source_encoded": self.source_encoded,
            "lines": [
                {
                    "text": line.text,
                    "support": finding["support"],
                    "supported": line.supported,
                    "evidence": [self._evidence(evidence) for evidence in line.evidence],
                }
                for line, finding, _ in self.marked_lines
            ],
        }

    def _evidence(self, evidence: Evidence) -> dict[str, Any]:
        value = evidence.probability
        return {
            "sentence": self.ids[evidence.sentence],
            "text": self.verification.sentences[evidence.sentence],
            "score": round(evidence.score, _DIGITS),
            "probability": None if value is None else round(value, _DIGITS),
        }


def findings_of(verification: Verification, ids: Sequence[str]) -> list[Finding]:
    """Lines as findings, by the ids of the sentences of the source; a ranker does not know contradiction."""
    return [
        Finding(
            id=str(number),
            text=line.text,
            support="supported" if line.supported else "not_stated",
            sentence_ids=[ids[one.sentence] for one in line.evidence],
            probability=line.evidence[0].probability if line.evidence else None,
            faults=[],
        )
        for number, line in enumerate(verification.lines, start=1)
    ]


def count_support(findings: Sequence[Finding], support: Support) -> int:
    """How many lines have it."""
    return sum(one["support"] == support for one in findings)


def render(report: Report, back: str | None = None) -> str:
    """The page. It holds both texts whole, so it is as confidential as they are."""
    cited: dict[int, list[int]] = {}
    for number, line in enumerate(report.verification.lines, start=1):
        for evidence in line.evidence:
            cited.setdefault(evidence.sentence, []).append(number)
    return render_page(
        "verification.html", report=report, verification=report.verification, cited=cited, back=back
    )


@dataclass(slots=True)
class RunVerification:
    """All answers of a run.

    Attributes:
        answers: The support of the sentences of each answer, in their order, by case.
        without_answer: Ids of the cases that are not done or have no answer; they are not counted.
        by_probability: Whether support is decided by the ranker's scores.
    """

    answers: dict[str, list[Finding]] = field(default_factory=dict)
    without_answer: list[str] = field(default_factory=list)
    by_probability: bool = False

    def count(self, support: Support) -> int:
        return sum(count_support(findings, support) for findings in self.answers.values())

    @property
    def sentences(self) -> int:
        """Number of sentences in all answers."""
        return sum(map(len, self.answers.values()))

    @property
    def rate(self) -> float | None:
        """Supported sentences in a hundred; None without any sentence, or without probabilities."""
        known = self.by_probability and self.sentences
        return 100 * self.count("supported") / self.sentences if known else None

    def as_json(self) -> dict[str, Any]:
        return {
            "answers": len(self.answers),
            "sentences": self.sentences,
            **{support: self.count(support) for support in SUPPORTS},
            "supported_rate": self.rate,
            "without_answer": self.without_answer,
            "by_case": {
                case_id: {support: count_support(findings, support) for support in SUPPORTS}
                for case_id, findings in self.answers.items()
            },
        }


def verify_run(
    folder: RunFolder, ranker: Ranker, threshold: float | None, report: Callable[[int], None]
) -> RunVerification:
    """Verify each answer against the note of its case.

    Raises:
        InputError: The case files have moved.
    """
    found = RunVerification()
    for number, (case_id, pair) in enumerate(_answers(folder), start=1):
        if pair is None:
            found.without_answer.append(case_id)
        else:
            lines, source = pair
            verified = verify(ranker, lines, source.sentences, threshold=threshold)
            found.by_probability = verified.threshold is not None
            found.answers[case_id] = findings_of(verified, source.ids)
        report(number)
    return found


def _answers(folder: RunFolder) -> Iterator[tuple[str, tuple[tuple[str, ...], Source] | None]]:
    """The cases that have ended, in input order, with sentences and note of those that have an answer."""
    answers = {
        line["case_id"]: None if line.get("answer_status") == "not_stated" else line.get("answer")
        for line in folder.cases()
    }
    for case in recorded_cases(folder.manifest):
        answer = answers.pop(case.id, None)
        usable = answer and case.sentences
        yield case.id, answer_and_note(str(folder.path), case.id, answer, case) if usable else None
    for case_id in answers:
        yield case_id, None
