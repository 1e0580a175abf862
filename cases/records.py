"""Domain records: plain, frozen and free of file formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cases.biomedical import BiomedicalQuestion, ExactAnswer

INTENTS: dict[str, str] = {
    "procedure_justification": "why a surgery or procedure was done",
    "icu_or_monitoring_necessity": "why intensive care or monitoring was required",
    "treatment_plan": "what should be done next",
    "medication_safety": "tapering, toxicity, side effects",
    "pathophysiology_explanation": "why one thing caused another",
    "malignancy_concern": "fear of cancer",
    "lab_abnormal_concern": "how severe an abnormal laboratory value is",
    "recovery_duration": "how long recovery takes",
    "prognosis_severity": "how serious it is, survival outlook",
    "activity_clearance": "flights and other travel, going without oxygen, going back to work",
    "persistent_unexplained_symptoms": "symptoms that last and have no known cause",
    "neurologic_mental_status_change": "confusion, dementia, seizures",
}
"""Name to definition, in the paper's order."""

RISK_LEVELS = ("low", "moderate", "high")


Label = Literal["essential", "supplementary", "not-relevant"]
"""Relevance of a note sentence, as the ArchEHR-QA keys have it."""

LabelSource = Literal["gold", "weak"]
"""Source of labels: people, or a model (or citations) from a clinician's answer. Weak labels are not gold."""

Verdict = Literal["yes", "no", "unknown"]
"""The answer to a question of yes or no; `unknown` if the evidence is insufficient."""

RiskLevel = Literal["low", "moderate", "high"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of the clinical note; `id` is unique within its case and need not be a number."""

    id: str
    text: str
    paragraph_id: str | None = None
    start_char_index: int | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """A focus phrase of the patient's message; the index counts into the stripped narrative."""

    id: str
    text: str
    start_char_index: int | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """Kind of answer that a question requests (TAMU 2026, section 4.2.1)."""

    primary: str
    secondary: str | None = None
    risk_level: RiskLevel = "moderate"


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """One sentence of the clinician's answer with the ids of the note sentences that support it.

    `citations` is None where the key has none to give, and empty where it says that nothing supports it.
    """

    id: str
    text: str
    citations: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Gold:
    """Key of one case; a missing part is None: unlabelled, never empty.

    `label_source` is of the labels alone, and `gold` where there are none: answers are always a clinician's.
    `ideal_answers` are texts of experts, each an answer by itself.
    """

    labels: Mapping[str, Label] | None = None
    answer: str | None = None
    answer_sentences: tuple[AnswerSentence, ...] | None = None
    intent: Intent | None = None
    label_source: LabelSource = "gold"
    verdict: Verdict | None = None
    exact_answer: ExactAnswer | None = None
    ideal_answers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A patient's message, a clinician's question and the numbered sentences of a note.

    A question about health at large has neither message nor note; `as_of` is the last year that its evidence
    may be from, and None lets all in. `biomedical` is what BioASQ gives with its questions.
    """

    id: str
    narrative: str
    question: str
    sentences: tuple[Sentence, ...]
    phrases: tuple[Phrase, ...] = ()
    specialty: str = ""
    note: str = ""
    as_of: int | None = None
    biomedical: BiomedicalQuestion | None = None
    gold: Gold = field(default_factory=Gold)

    @property
    def sentence_ids(self) -> tuple[str, ...]:
        """The ids of the note's sentences, in note order."""
        return tuple(sentence.id for sentence in self.sentences)


@dataclass(frozen=True, slots=True)
class InvalidCase:
    """A case that can be named but not used; `fault` has its place and the reason."""

    id: str
    fault: str
