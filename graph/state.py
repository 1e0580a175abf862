"""The state of the evidence-and-answer graphs: builtins and small records, texts by reference."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

from cases.records import LabelSource, Verdict
from nodes.answer.biomedical_records import ChosenSnippet, ExactVote, RankedDocument
from nodes.answer.generate_answer import Attempt
from nodes.core.records import (
    AlignedAnswer,
    AnswerEvidence,
    AnswerLine,
    Attribution,
    Decision,
    IntentChoice,
    Retrieved,
    ReviewRecord,
    Shown,
    Vote,
)
from nodes.reading.literature_records import (
    Disagreement,
    EvidencePassage,
    FoundDocument,
    Passage,
    PassageReading,
    ReadingCounts,
)


class CaseInput(TypedDict):
    """What a graph is started with."""

    case_id: str
    """Id of a case in the context."""


class State(TypedDict, total=False):
    """Everything that nodes hand on; a key is there once its node has run."""

    case_id: str
    interpreted_question: str
    """A clinician question read out of the patient's message."""
    patient_question: str
    """Stands in for a missing clinician question: the patient's own, or the interpreted one."""
    intent: IntentChoice
    evidence_demonstrations: list[Shown]
    """Nearest first."""
    shown_demonstrations: list[str]
    """Ids of those that fitted the labelling prompt, in prompt order."""
    votes: Annotated[list[Vote], operator.add]
    """Before reflection; further votes are added."""
    asked_votes: int
    """Of the model; those that failed included."""
    more_votes: int
    """To be asked for next, where the recipe wants as many as it takes."""
    reflected_votes: Annotated[list[Vote], operator.add]
    ranker_vote: Vote
    ranker_scores: dict[str, float]
    """By sentence id; higher is more likely to be evidence."""
    retrieved: list[Retrieved]
    """Sentences that were found for a query, the best first."""
    vote_counts: dict[str, int]
    usable_votes: int
    """That of a ranker counts with its weight, here and in `vote_counts`."""
    label_confidence: dict[str, float | None]
    """Mean P(essential) by sentence id."""
    evidence: dict[AnswerEvidence, list[str]]
    """Sentence ids of each evidence setting."""
    review: ReviewRecord
    """There once a person has labelled the case in the middle of the graph."""
    label_source: LabelSource
    """Weak where the labels come from the clinician's answer itself."""
    answer_evidence: list[str]
    """Sentence ids that the answer is built on."""
    answer_demonstrations: list[Shown]
    draft_answer: str
    rejected_answers: Annotated[list[Attempt], operator.add]
    answer: str
    """Set once an answer is accepted."""
    answer_sentences: list[AnswerLine]
    """Of the aligned answer."""
    alignment: dict[str, list[str]]
    """Ids of the note sentences that support each answer sentence, by its id."""
    aligned_answer: AlignedAnswer
    attributions: dict[str, list[Attribution]]
    """By answer sentence: note sentences that may be cited, the likeliest first."""
    found_documents: list[FoundDocument]
    """Best first, with their texts: documents are public, and no case holds them."""
    kept_documents: list[FoundDocument]
    """Those that may be evidence."""
    passages: list[Passage]
    """In the order in which they are read and counted."""
    readings: list[PassageReading]
    """Passages that could not be read are missing."""
    verdict: Verdict
    reading_counts: ReadingCounts
    evidence_passages: list[EvidencePassage]
    """Passages with their documents and what was made of them."""
    disagreement: Disagreement
    explanation: str
    """Of the verdict; it cites evidence passages by their ids in square brackets."""
    queries: list[str]
    """The question and what it was reformulated to."""
    cross_encoder_ranking: list[RankedDocument]
    """Best first; those of the retrieval where no cross-encoder is wanted."""
    llm_ranking: list[RankedDocument]
    """What a language model made of them; places only."""
    document_ranking: list[RankedDocument]
    """The answer of phase A, best first."""
    snippets: list[ChosenSnippet]
    """What answers are built on: found ones, or those that a question came with."""
    exact_votes: list[ExactVote]
    exact_answer: str | list[list[str]]
    """Yes or no, or entries that are each a list of synonyms; missing for questions that have none."""
    decisions: Annotated[list[Decision], operator.add]
