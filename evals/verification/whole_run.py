"""The answers of a whole run against their notes: how many of their sentences have support."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from evals.verification.report import Source, answer_and_note
from ranking.rankers.ranker import Ranker
from ranking.verify import Support, verify
from runs.record.folder import RunFolder
from runs.record.manifest import recorded_cases

_SUPPORTS: tuple[Support, ...] = ("supported", "weak", "unsupported")


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """Sentences of one answer by their support.

    Attributes:
        unsupported: Texts of the sentences without support, in their order.
    """

    case_id: str
    counts: dict[Support, int]
    unsupported: tuple[str, ...]


@dataclass(slots=True)
class RunVerification:
    """All answers of a run.

    Attributes:
        without_answer: Ids of the cases that are not done or have no answer; they count nowhere.
        by_probability: Whether the ranker's scores say what is supported.
    """

    answers: list[VerifiedAnswer] = field(default_factory=list)
    without_answer: list[str] = field(default_factory=list)
    by_probability: bool = False

    def count(self, support: Support) -> int:
        return sum(answer.counts[support] for answer in self.answers)

    @property
    def sentences(self) -> int:
        """Of all answers."""
        return sum(self.count(support) for support in _SUPPORTS)

    @property
    def rate(self) -> float | None:
        """Supported sentences in a hundred; None without any sentence, or without probabilities."""
        known = self.by_probability and self.sentences
        return 100 * self.count("supported") / self.sentences if known else None

    def as_json(self) -> dict[str, Any]:
        return {
            "answers": len(self.answers),
            "sentences": self.sentences,
            **{support: self.count(support) for support in _SUPPORTS},
            "supported_rate": self.rate,
            "without_answer": self.without_answer,
            "by_case": {one.case_id: dict(one.counts) for one in self.answers},
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
            counts = {support: verified.count(support) for support in _SUPPORTS}
            bare = tuple(line.text for line in verified.lines if line.support == "unsupported")
            found.answers.append(VerifiedAnswer(case_id, counts, bare))
        report(number)
    return found


def _answers(folder: RunFolder) -> Iterator[tuple[str, tuple[tuple[str, ...], Source] | None]]:
    """The cases that have ended, in input order, with sentences and note of those that have an answer."""
    answers = {line["case_id"]: line.get("answer") for line in folder.cases()}
    for case in recorded_cases(folder.manifest):
        answer = answers.pop(case.id, None)
        usable = answer and case.sentences
        yield case.id, answer_and_note(str(folder.path), case.id, answer, case) if usable else None
    for case_id in answers:
        yield case_id, None
