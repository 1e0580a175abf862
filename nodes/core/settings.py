"""What a recipe can set for the nodes. Defaults are the paper's (TAMU 2026, sections 4 and 5.2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from nodes.answer.biomedical_settings import DocumentSettings, ExactSettings, IdealSettings
from nodes.core.records import AnswerEvidence, ReplyFormName
from nodes.evidence.vote_range import MOST_VOTES, read_votes, vote_bounds
from nodes.reading.literature_settings import LiteratureSettings, ReadingSettings, VerdictSettings
from nodes.retrieval.retrieval_settings import CitationSettings, RetrievalSettings
from ranking.cutoffs import Cutoff
from ranking.load import gives_logits


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class QuestionSettings(_Section):
    """The clinician question that is read out of a patient's message (ArchEHR-QA 2026, subtask 1).

    Attributes:
        interpret: `missing` writes one for cases without a clinician question, where `never` asks the
            patient's own words. `always` writes one for every case; a case that has a question of its own
            is still answered on that.
        max_words: Parted by white space, as the task counts them.
        demonstrations: Messages with their clinician questions that the prompt shows.
        corrections: How often a faulty question is sent back before it is cut and flagged.
    """

    interpret: Literal["never", "missing", "always"] = "never"
    max_words: int = Field(15, ge=1)
    demonstrations: int = Field(5, ge=0, le=50)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(64, ge=16)
    corrections: int = Field(1, ge=0, le=5)


class IntentSettings(_Section):
    """Intent classification."""

    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(96, ge=16)


class EvidenceSettings(_Section):
    """Who votes on evidence, demonstrations, votes and reflection.

    `evidence: ranker` is short for `evidence: {voters: ranker}`.

    Attributes:
        voters: `llm` labels by a language model's votes, `ranker` by a ranker's selection alone, which asks
            no model and reads nothing of this section but `ranker` and `cutoff`; `both` counts the ranker's
            selection among the model's votes.
        ranker: `logistic`, `support`, `bm25`, `similarity`, `similarity:FOLDER` of a sentence encoder, or the
            folder of a trained ranker.
        ranker_votes: How many votes the ranker's selection counts for, beside those of the model.
        cutoff: The rule from scores to a selection; None is the ranker's own.
        demonstrations: K of section 4.1.3.
        intent_aware: Choose the demonstrations among cases of the same intent; labelling then waits for it.
        order: `canonical` sorts demonstrations by id, so that cases share prompt prefixes;
            `similar_last` puts the nearest one beside the case.
        votes: R, samples of the labelling prompt. A range such as `3..9` asks for the first number, and for
            more up to the second only while they could still change a label.
        threshold: T of equation 22: essential iff at least T of the votes say so, those of a ranker counted.
        minimum_votes: Fewest usable votes of the model that a case can be decided on; None is a majority of
            those asked.
        reply: `labels` asks for the label of every sentence, as the paper does; `ids` for the ids of the
            essential sentences alone, which takes a fraction of the tokens.
        reflection: Whether each vote is reviewed by the self-reflection prompt.
        confidence: Whether to ask for the log-probabilities of replies, and tell how sure labels are. Replies
            get several times larger. Only replies in `labels` show it.
    """

    voters: Literal["llm", "ranker", "both"] = "llm"
    ranker: str = "logistic"
    ranker_votes: int = Field(1, ge=1, le=MOST_VOTES)
    cutoff: Cutoff | None = None
    demonstrations: int = Field(5, ge=0, le=50)
    intent_aware: bool = False
    order: Literal["canonical", "similar_last"] = "canonical"
    reply: ReplyFormName = "labels"
    votes: Annotated[int | str, PlainValidator(read_votes)] = 5
    threshold: int = Field(3, ge=1)
    minimum_votes: int | None = Field(None, ge=1)
    temperature: float = Field(0.7, ge=0, le=2)
    reflection: bool = True
    reflection_temperature: float = Field(0.7, ge=0, le=2)
    confidence: bool = False

    @model_validator(mode="before")
    @classmethod
    def _a_word_names_the_voters(cls, values: Any) -> Any:
        return {"voters": values} if isinstance(values, str) else values

    @model_validator(mode="after")
    def _votes_reach_threshold(self) -> EvidenceSettings:
        if not self.asks_model:
            return self
        most, every = self.most_votes, self.all_votes
        if self.threshold > every:
            raise ValueError(f"threshold {self.threshold} is above the number of votes {every}")
        if self.minimum_votes is not None and self.minimum_votes > most:
            raise ValueError(f"minimum_votes {self.minimum_votes} is above the number of votes {most}")
        return self

    @model_validator(mode="after")
    def _probabilities_where_a_rule_needs_them(self) -> EvidenceSettings:
        if self.cutoff is not None and self.cutoff.rule == "threshold" and not gives_logits(self.ranker):
            name, _, _ = self.ranker.partition(":")
            raise ValueError(
                f"cutoff.rule is 'threshold', but scores of {name} are no probabilities; use 'top_k', 'gap',"
                " 'autocut', 'elbow' or 'surprise'"
            )
        return self

    @property
    def asks_model(self) -> bool:
        """Whether a language model votes."""
        return self.voters != "ranker"

    @property
    def asks_ranker(self) -> bool:
        """Whether a ranker votes."""
        return self.voters != "llm"

    @property
    def first_votes(self) -> int:
        """Votes that the model is asked for on every case."""
        return vote_bounds(self.votes)[0] if self.asks_model else 0

    @property
    def most_votes(self) -> int:
        """Votes that the model is asked for at most."""
        return vote_bounds(self.votes)[1] if self.asks_model else 0

    @property
    def ranker_weight(self) -> int:
        """Votes that the ranker's selection counts for; one where it stands alone."""
        if not self.asks_ranker:
            return 0
        return self.ranker_votes if self.asks_model else 1

    @property
    def all_votes(self) -> int:
        """R: votes that there can be on a case, those of a ranker counted."""
        return self.most_votes + self.ranker_weight

    @property
    def vote_threshold(self) -> int:
        """T; a ranker that stands alone decides alone."""
        return self.threshold if self.asks_model else 1

    @property
    def adaptive(self) -> bool:
        """Whether the number of votes depends on how they fall."""
        return self.first_votes < self.most_votes

    def needed_votes(self, asked: int) -> int:
        """Fewest usable ones among the model's votes asked so far; below that a case has failed.

        A ranker never stands in for a model that fails. A `minimum_votes` of the recipe can still be reached
        by those that are left to ask.
        """
        if self.minimum_votes is None:
            return asked // 2 + 1
        return max(1, self.minimum_votes - (self.most_votes - asked))


class ReviewSettings(_Section):
    """When a case waits for a person.

    Attributes:
        disagreement: A case waits where its usable votes differ on more than this share of its sentences;
            None never asks. A ranker that stands alone has one vote, which differs from nothing.
    """

    disagreement: float | None = Field(None, ge=0, lt=1)


class AnswerSettings(_Section):
    """Answer demonstrations, the answer and its rules.

    Attributes:
        demonstrations: K of section 4.2.2.
        selection: `tiered` fills from the primary intent, then the secondary, then any; `union` ranks both
            intents together (equation 25 read literally); `similarity` looks at no intent.
        evidence: Which sentences count as evidence: those of the vote `threshold`, of any vote
            (`high_recall`), or of all votes but one (`low_recall`).
        corrections: How often a faulty answer is sent back before it is repaired and flagged.
    """

    demonstrations: int = Field(3, ge=0, le=50)
    selection: Literal["tiered", "union", "similarity"] = "tiered"
    evidence: AnswerEvidence = "high_recall"
    max_words: int = Field(75, ge=1)
    min_sentences: int = Field(2, ge=1)
    max_sentences: int = Field(4, ge=1)
    corrections: int = Field(1, ge=0, le=5)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(256, ge=16)

    @model_validator(mode="after")
    def _sentences_in_order(self) -> AnswerSettings:
        if self.min_sentences > self.max_sentences:
            raise ValueError("min_sentences is above max_sentences")
        return self


class AlignmentSettings(_Section):
    """Which note sentences support each sentence of an answer (ArchEHR-QA 2026, subtask 4).

    Attributes:
        answer: Whose answer is aligned: the `generated` one, the `clinician`'s of the key file, or `none`.
        demonstrations: Cases with cited answers that the prompt shows.
    """

    answer: Literal["none", "generated", "clinician"] = "none"
    demonstrations: int = Field(3, ge=0, le=50)
    temperature: float = Field(0.0, ge=0, le=2)


class Settings(_Section):
    """Everything that nodes read of a recipe.

    Attributes:
        stop_after: `evidence` writes no answer; `question` interprets the patient's message and does nothing
            else, so a case needs no note.
        seed: Sent where the backend takes one.
        held_out: Ids of cases that never serve as demonstrations.
    """

    stop_after: Literal["answer", "evidence", "question"] = "answer"
    seed: int = 42
    held_out: tuple[str, ...] = ()
    question: QuestionSettings = QuestionSettings()
    intent: IntentSettings = IntentSettings()
    evidence: EvidenceSettings = EvidenceSettings()
    review: ReviewSettings = ReviewSettings()
    answer: AnswerSettings = AnswerSettings()
    alignment: AlignmentSettings = AlignmentSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    citation: CitationSettings = CitationSettings()
    literature: LiteratureSettings = LiteratureSettings()
    reading: ReadingSettings = ReadingSettings()
    verdict: VerdictSettings = VerdictSettings()
    documents: DocumentSettings = DocumentSettings()
    exact: ExactSettings = ExactSettings()
    ideal: IdealSettings = IdealSettings()

    @model_validator(mode="after")
    def _what_is_wanted_is_reached(self) -> Settings:
        aligned = self.alignment.answer
        if self.stop_after == "question" and self.question.interpret != "always":
            raise ValueError("stop_after is 'question', which needs question.interpret 'always'")
        if self.stop_after == "question" and aligned != "none":
            raise ValueError(f"alignment.answer is {aligned!r}, but stop_after is 'question'")
        if self.stop_after == "question" and self.reviews:
            raise ValueError("review.disagreement is set, but stop_after is 'question' and nobody votes")
        if self.stop_after == "evidence" and aligned == "generated":
            raise ValueError(
                "alignment.answer is 'generated', but stop_after is 'evidence' and leaves none;"
                " align the 'clinician' answer or none"
            )
        return self

    @property
    def interprets(self) -> bool:
        """Whether clinician questions are read out of patients' messages."""
        return self.question.interpret != "never"

    @property
    def aligns(self) -> bool:
        """Whether an answer is aligned with the note."""
        return self.alignment.answer != "none"

    @property
    def reviews(self) -> bool:
        """Whether cases may wait for a person."""
        return self.review.disagreement is not None

    @property
    def switched_off(self) -> frozenset[str]:
        """Nodes that only some recipes ask for, or ask a model in, and this one does not."""
        answers = self.stop_after == "answer"
        attributes = self.citation.method == "post_generation"
        wanted = {
            "interpret_question": self.interprets,
            "align_answer": self.aligns,
            "rank_evidence": self.ranks,
            "await_review": self.reviews,
            "generate_cited_answer": answers and not attributes,
            "validate_citations": answers and not attributes,
            "generate_uncited_answer": answers and attributes,
            "attribute_answer": answers and attributes,
            "read_passages": self.reading.asks_model,
            "explain_verdict": self.verdict.explain,
            "reformulate_question": self.documents.finds and self.documents.reformulations > 0,
            "retrieve_documents": self.documents.finds,
            "rerank_documents": self.documents.finds and self.documents.reranker is not None,
            "rerank_by_model": self.documents.finds and self.documents.llm_rerank,
            "combine_rankings": self.documents.finds,
            "select_snippets": self.documents.finds,
            "adopt_snippets": not self.documents.finds,
            "answer_exactly": self.documents.answers,
            "aggregate_exact_answers": self.documents.answers,
            "answer_ideally": self.documents.answers,
        }
        return frozenset(name for name, used in wanted.items() if not used)

    @property
    def needs_demonstrations(self) -> bool:
        """Whether any node looks for demonstrations."""
        wanted = (
            self.evidence.demonstrations if self.evidence.asks_model and self.stop_after != "question" else 0,
            self.answer.demonstrations if self.stop_after == "answer" else 0,
            self.question.demonstrations if self.interprets else 0,
            self.alignment.demonstrations if self.aligns else 0,
        )
        return any(wanted)

    @property
    def intent_first(self) -> bool:
        """Whether evidence demonstrations, and so labelling, wait for the intent."""
        return self.evidence.asks_model and self.evidence.intent_aware

    @property
    def ranks(self) -> bool:
        """Whether a ranker is needed."""
        return self.evidence.asks_ranker and self.stop_after != "question"

    @property
    def needs_intent(self) -> bool:
        """Whether any node reads the intent."""
        of_evidence = self.intent_first and self.stop_after != "question"
        return self.stop_after == "answer" or of_evidence
