"""TAMU-NLP at ArchEHR-QA 2026: evidence by reflected votes or a ranker, then an intent-aware answer."""

from __future__ import annotations

import operator
from typing import Annotated, Literal, Self

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from pydantic import model_validator

from graph.answer_verification import AnswerVerifier, VerifiedState, verified
from graph.note_resources import EvidenceRanker, Pool, PoolRecipe
from graph.system import Builder, System
from nodes.answer.align_answer import ALIGN_ANSWER, AlignmentSettings
from nodes.answer.answer_rules import AnswerSettings
from nodes.answer.check_answer import CHECK_ANSWER
from nodes.answer.choose_answer_evidence import CHOOSE_ANSWER_EVIDENCE
from nodes.answer.generate_answer import GENERATE_ANSWER
from nodes.answer.widen_evidence import WIDEN_EVIDENCE
from nodes.core.context import Context
from nodes.core.records import (
    AnswerEvidence,
    IntentChoice,
    ReviewRecord,
    Shown,
    Vote,
)
from nodes.core.state import CaseInput
from nodes.core.written_text import Attempt
from nodes.evidence.aggregate_votes import AGGREGATE_VOTES
from nodes.evidence.await_review import AWAIT_REVIEW
from nodes.evidence.calibration import CalibrationSettings
from nodes.evidence.check_negation import CHECK_NEGATION, NegationSettings
from nodes.evidence.check_votes import CHECK_VOTES
from nodes.evidence.disagreement import needs_review
from nodes.evidence.label_evidence import LABEL_EVIDENCE
from nodes.evidence.rank_evidence import RANK_EVIDENCE
from nodes.evidence.reflect_on_labels import REFLECT_ON_LABELS, ReflectOnLabelsInput
from nodes.evidence.settings import EvidenceSettings, ReviewSettings
from nodes.question.adopt_patient_question import ADOPT_PATIENT_QUESTION
from nodes.question.classify_intent import CLASSIFY_INTENT, IntentSettings
from nodes.question.interpret_question import INTERPRET_QUESTION, QuestionSettings
from nodes.question.judge_answerability import (
    JUDGE_ANSWERABILITY,
    StatedSettings,
    judges_answerability,
)
from nodes.retrieval.retrieve_answer_demonstrations import RETRIEVE_ANSWER_DEMONSTRATIONS
from nodes.retrieval.retrieve_evidence_demonstrations import RETRIEVE_EVIDENCE_DEMONSTRATIONS
from nodes.verification.decline_answer import DECLINE_ANSWER, chooses_none, declines, says_not_stated
from nodes.verification.drop_irrelevant import DROP_IRRELEVANT, RelevanceSettings, checks_relevance
from nodes.verification.verify_answer import VERIFY_ANSWER, VerificationSettings, verifies


class TamuRecipe(PoolRecipe):
    """Recipe with the values of the paper's sections 4 and 5.2 as defaults.

    Attributes:
        stop_after: `evidence` writes no answer; `question` interprets the patient's message and does nothing
            else, so a case needs no note.
        question: The clinician question that is read out of a patient's message.
        intent: What kind of answer a question asks for.
        evidence: Who votes on evidence, demonstrations, votes and reflection.
        negation: Whether evidence that negates a finding is flagged.
        review: When a case waits for a person.
        calibration: What `evidence.rule` was chosen with, as `evigraph calibrate` writes it.
        answer: Demonstrations, evidence and rules of the answer.
        alignment: Which sentences of the note support the answer.
        answerability: Whether a case that its note does not answer ends without an answer.
        relevance: Whether sentences that do not help to answer the question are removed.
        verification: Whether each sentence of the answer is verified against the note.
    """

    system: Literal["tamu"] = "tamu"
    stop_after: Literal["answer", "evidence", "question"] = "answer"
    question: QuestionSettings = QuestionSettings()
    intent: IntentSettings = IntentSettings()
    evidence: EvidenceSettings = EvidenceSettings()
    negation: NegationSettings = NegationSettings()
    review: ReviewSettings = ReviewSettings()
    calibration: CalibrationSettings | None = None
    answer: AnswerSettings = AnswerSettings()
    alignment: AlignmentSettings = AlignmentSettings()
    answerability: StatedSettings = StatedSettings()
    relevance: RelevanceSettings = RelevanceSettings()
    verification: VerificationSettings = VerificationSettings()

    @model_validator(mode="after")
    def _goes_as_far_as_asked(self) -> TamuRecipe:
        aligned = self.alignment.answer
        if self.stop_after == "question" and self.question.interpret != "always":
            raise ValueError("stop_after is 'question', which needs question.interpret 'always'")
        if self.stop_after == "question" and aligned != "none":
            raise ValueError(f"alignment.answer is {aligned!r}, but stop_after is 'question'")
        if self.stop_after == "question" and self.waits_for_people:
            raise ValueError("review is set, but stop_after is 'question' and no one votes")
        if self.stop_after == "evidence" and aligned == "generated":
            raise ValueError(
                "alignment.answer is 'generated', but stop_after is 'evidence' and leaves none;"
                " align the 'clinician' answer or none"
            )
        return self

    @model_validator(mode="after")
    def _knows_how_sure_it_is(self) -> TamuRecipe:
        rule = self.evidence.rule
        if self.review.confidence is not None and (rule is None or rule.slope is None):
            raise ValueError(
                "review.confidence is set, but evidence.rule has no slope to compute confidence; calibrate"
                " the recipe: evigraph calibrate RUN --risk 0.1"
            )
        return self

    @model_validator(mode="after")
    def _marks_what_people_are_asked_about(self) -> TamuRecipe:
        if self.review.unsupported and not (verifies(self) and self.verification.on_unsupported == "flag"):
            raise ValueError(
                "review.unsupported is set, but no answer is flagged; set verification.check, and"
                " verification.on_unsupported to 'flag'"
            )
        return self

    @property
    def labels_evidence(self) -> bool:
        return self.stop_after != "question"

    @property
    def answers(self) -> bool:
        return self.stop_after == "answer"

    @property
    def waits_for_people(self) -> bool:
        return self.review.asks

    def without_waiting(self) -> Self:
        return self.model_copy(update={"review": ReviewSettings()})

    @property
    def interprets(self) -> bool:
        return self.question.interpret != "never"

    @property
    def intent_first(self) -> bool:
        """Whether evidence demonstrations, and so labelling, wait for the intent."""
        return self.evidence.asks_model and self.evidence.intent_aware

    @property
    def needs_intent(self) -> bool:
        return self.answers or (self.intent_first and self.labels_evidence)

    @property
    def shows_demonstrations(self) -> bool:
        wanted = (
            self.evidence.demonstrations if self.evidence.asks_model and self.labels_evidence else 0,
            self.answer.demonstrations if self.answers else 0,
            self.question.demonstrations if self.interprets else 0,
            self.alignment.demonstrations if self.alignment.answer != "none" else 0,
        )
        return any(wanted)


TamuRuntime = Runtime[Context[TamuRecipe]]


class TamuState(VerifiedState, total=False):
    """From a question to reflected votes, evidence and an answer; texts by reference."""

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
    """Votes requested from the model, including failed ones."""
    more_votes: int
    """To be asked for next, where the recipe wants as many as it takes."""
    reflected_votes: Annotated[list[Vote], operator.add]
    model_scores: dict[str, float]
    """Log-odds by sentence id, where the model was asked for each sentence by itself."""
    ranker_vote: Vote
    ranker_scores: dict[str, float]
    """By sentence id; higher is more likely to be evidence."""
    vote_counts: dict[str, int]
    usable_votes: int
    """That of a ranker counts with its weight, here and in `vote_counts`."""
    label_confidence: dict[str, float | None]
    """Mean P(essential) by sentence id."""
    case_confidence: float
    """The share of right labels that a calibrated rule expects."""
    evidence: dict[AnswerEvidence, list[str]]
    """Sentence ids of each evidence setting."""
    review: ReviewRecord
    """There once a person has labelled the case in the middle of the graph."""
    answer_evidence: list[str]
    """Sentence ids that the answer is built on."""
    answer_demonstrations: list[Shown]
    draft_answer: str
    rejected_answers: Annotated[list[Attempt], operator.add]


# Four concerns, each with its routers and then its edges. They are functions and not subgraphs: nodes of
# different concerns share supersteps, so that everything that can be asked is asked at once, and a trace
# counts the supersteps of one graph. Destinations are in the return type of a router that names one node, and
# listed with the edge of a router that may name several.


def first_steps(state: TamuState | CaseInput, context: Context[TamuRecipe]) -> list[str]:
    """Demonstrations, or the intent where the recipe chooses them by it; a ranker alone needs neither."""
    if not context.settings.evidence.asks_model:
        return ["rank_evidence", *side_steps(state, context)]
    return ["classify_intent" if context.settings.intent_first else "retrieve_evidence_demonstrations"]


def side_steps(state: TamuState | CaseInput, context: Context[TamuRecipe]) -> list[str]:
    """All that can be asked now is asked side by side: nodes of one step end together, so all wait once."""
    settings = context.settings
    has_question = bool(context.cases[state["case_id"]].question.strip())
    steps = []
    if settings.needs_intent and "intent" not in state:
        steps.append("classify_intent")
    if settings.question.interpret == "always" and has_question:
        steps.append("interpret_question")
    if settings.alignment.answer == "clinician":
        steps.append("align_answer")
    return steps


async def begin(state: CaseInput, runtime: TamuRuntime) -> list[str]:
    """A case without a clinician question needs one first: read out of the message, or the patient's own."""
    context = runtime.context
    if context.settings.stop_after == "question":
        return ["interpret_question"]
    case = context.cases[state["case_id"]]
    if case.question.strip():
        return first_steps(state, context)
    if context.settings.interprets and case.narrative.strip():
        return ["interpret_question"]
    return ["adopt_patient_question"]


async def after_adoption(state: TamuState, runtime: TamuRuntime) -> list[str]:
    """As with a clinician question."""
    return first_steps(state, runtime.context)


async def after_interpretation(state: TamuState, runtime: TamuRuntime) -> list[str]:
    """As with a clinician question, where the case had none; else nothing waits for the interpreted one."""
    if runtime.context.settings.stop_after == "question":
        return [END]
    return first_steps(state, runtime.context) if "patient_question" in state else []


async def after_intent(state: TamuState, runtime: TamuRuntime) -> list[str]:
    """Evidence demonstrations wait for the intent only where the recipe chooses them by it."""
    return ["retrieve_evidence_demonstrations"] if runtime.context.settings.intent_first else []


def wire_question(builder: Builder) -> None:
    """The question that is asked, and what kind of answer it asks for."""
    first = ["classify_intent", "retrieve_evidence_demonstrations", "rank_evidence", "align_answer"]
    builder.add_conditional_edges(START, begin, ["interpret_question", "adopt_patient_question", *first])
    builder.add_conditional_edges("interpret_question", after_interpretation, [*first, END])
    builder.add_conditional_edges("adopt_patient_question", after_adoption, first)
    builder.add_conditional_edges("classify_intent", after_intent, ["retrieve_evidence_demonstrations"])


COUNTING = ["check_votes", "aggregate_votes"]
"""Possible successors of the last votes."""


def counting(settings: EvidenceSettings) -> str:
    """The node that counts final votes: a fixed number of them is counted at once."""
    return "check_votes" if settings.adaptive else "aggregate_votes"


def after_last_labels(settings: TamuRecipe) -> str:
    """Labels that are final for now are looked through for negations where the recipe wants it."""
    return "check_negation" if settings.negation.check else counting(settings.evidence)


async def after_retrieval(state: TamuState, runtime: TamuRuntime) -> list[str]:
    """The votes, and a ranker's with them."""
    ranked = [] if RANK_EVIDENCE.is_off(runtime.context.settings) else ["rank_evidence"]
    return ["label_evidence", *ranked, *side_steps(state, runtime.context)]


async def after_ranking(state: TamuState, runtime: TamuRuntime) -> list[str]:
    """A ranker alone is counted at once; with a model it ends with the first votes."""
    return [] if runtime.context.settings.evidence.asks_model else ["aggregate_votes"]


async def after_labelling(state: TamuState, runtime: TamuRuntime) -> list[Send] | str:
    """Each new vote is reflected on by itself; without reflection the votes are counted as they are."""
    settings = runtime.context.settings
    reflected = {vote["vote"] for vote in state.get("reflected_votes", ())}
    new = [vote for vote in state["votes"] if vote["vote"] not in reflected]
    # A fan-out of nothing would end the graph: all further votes may have failed.
    if not settings.evidence.reflection or not new:
        return after_last_labels(settings)
    return [Send("reflect_on_labels", _reflection(state, vote)) for vote in new]


def _reflection(state: TamuState, vote: Vote) -> ReflectOnLabelsInput:
    payload = ReflectOnLabelsInput(
        case_id=state["case_id"],
        shown_demonstrations=state["shown_demonstrations"],
        vote=vote,
    )
    if "patient_question" in state:
        payload["patient_question"] = state["patient_question"]
    return payload


async def after_reflected_vote(state: TamuState, runtime: TamuRuntime) -> str:
    """All reflections of a round end together."""
    return after_last_labels(runtime.context.settings)


async def after_negations(state: TamuState, runtime: TamuRuntime) -> str:
    """They change no label."""
    return counting(runtime.context.settings.evidence)


async def after_vote_check(state: TamuState) -> Literal["label_evidence", "aggregate_votes"]:
    """Further votes as long as they could change a label."""
    return "label_evidence" if state["more_votes"] else "aggregate_votes"


def wire_evidence(builder: Builder) -> None:
    """Votes of a model, each reflected on, with or without those of a ranker."""
    builder.add_conditional_edges(
        "retrieve_evidence_demonstrations",
        after_retrieval,
        ["label_evidence", "rank_evidence", "classify_intent", "interpret_question", "align_answer"],
    )
    builder.add_conditional_edges("rank_evidence", after_ranking, ["aggregate_votes"])
    labelled = ["check_negation", *COUNTING]
    builder.add_conditional_edges("label_evidence", after_labelling, ["reflect_on_labels", *labelled])
    builder.add_conditional_edges("reflect_on_labels", after_reflected_vote, labelled)
    builder.add_conditional_edges("check_negation", after_negations, COUNTING)
    builder.add_conditional_edges("check_votes", after_vote_check)


def contested_case(state: TamuState, context: Context[TamuRecipe]) -> bool:
    """Whether a review is needed and still missing."""
    if "review" in state:
        return False
    counts, usable = state["vote_counts"], state["usable_votes"]
    return needs_review(context.settings.review, counts, usable, state.get("case_confidence"))


async def after_votes(state: TamuState, runtime: TamuRuntime) -> list[str]:
    """Stop here where the recipe wants evidence alone; otherwise the join with the intent decides."""
    settings = runtime.context.settings
    if not settings.needs_intent and contested_case(state, runtime.context):
        return ["await_review"]
    return [END] if settings.stop_after == "evidence" else []


Answering = Literal["widen_evidence", "retrieve_answer_demonstrations"]


def answering(state: TamuState) -> Answering:
    """Without a single sentence of evidence it is widened."""
    return "retrieve_answer_demonstrations" if state["answer_evidence"] else "widen_evidence"


async def after_choice(
    state: TamuState, runtime: TamuRuntime
) -> Literal["await_review", "judge_answerability", "decline_answer", Answering, "__end__"]:
    """A person first, where labels are too uncertain; then the answer, if the note has one."""
    if contested_case(state, runtime.context):
        return "await_review"
    settings = runtime.context.settings
    if settings.stop_after == "evidence":
        return "__end__"
    if not state["answer_evidence"] and chooses_none(settings):
        return "decline_answer"
    return "judge_answerability" if judges_answerability(settings) else answering(state)


async def after_judgement(state: TamuState) -> Literal["decline_answer", Answering]:
    """A note that does not answer the question ends the case."""
    return "decline_answer" if state["answerable"] == "no" else answering(state)


async def after_review(
    state: TamuState, runtime: TamuRuntime
) -> Literal["choose_answer_evidence", "__end__"]:
    """Choose again, from the reviewer's labels; an answer stays if they are those that it was built on."""
    kept = state.get("answer") and not state["review"]["changed"]
    return "choose_answer_evidence" if runtime.context.settings.needs_intent and not kept else "__end__"


def wire_choice(builder: Builder) -> None:
    """The evidence of the answer, which a person labels where votes are too uncertain."""
    builder.add_conditional_edges("aggregate_votes", after_votes, ["await_review", END])
    # A list edge, not a deferred node: deferred nodes do not wait for a fan-out's `Send`s.
    builder.add_edge(["classify_intent", "aggregate_votes"], "choose_answer_evidence")
    builder.add_conditional_edges("choose_answer_evidence", after_choice)
    builder.add_conditional_edges("judge_answerability", after_judgement)
    builder.add_conditional_edges("await_review", after_review)


Accepted = Literal["align_answer", "verify_answer", "__end__"]


async def after_check(
    state: TamuState, runtime: TamuRuntime
) -> Literal["generate_answer", "drop_irrelevant", "decline_answer", Accepted]:
    """An answer that was sent back is written again; an accepted one is looked at further, by recipe."""
    if not state.get("answer"):
        return "generate_answer"
    settings = runtime.context.settings
    if declines(settings) and says_not_stated(state["answer"]):
        return "decline_answer"
    return "drop_irrelevant" if checks_relevance(settings) else accepted(settings)


async def after_relevance(state: TamuState, runtime: TamuRuntime) -> Accepted:
    """Sentences that help to answer the question are aligned and verified, by recipe."""
    return accepted(runtime.context.settings)


def accepted(settings: TamuRecipe) -> Accepted:
    """What follows on an accepted answer."""
    if settings.alignment.answer == "generated":
        return "align_answer"
    return "verify_answer" if verifies(settings) else "__end__"


async def after_alignment(state: TamuState, runtime: TamuRuntime) -> Literal["verify_answer", "__end__"]:
    """A clinician's answer is aligned in parallel with the rest, and not verified."""
    settings = runtime.context.settings
    generated = settings.alignment.answer == "generated"
    return "verify_answer" if generated and verifies(settings) else "__end__"


async def after_verification(
    state: TamuState, runtime: TamuRuntime
) -> Literal["generate_answer", "decline_answer", "await_review", "__end__"]:
    """Write again what was sent back; a person may look at what is still unsupported."""
    status = verified(state)
    if status == "sent_back":
        return "generate_answer"
    if status == "unsupported" and runtime.context.settings.review.unsupported and "review" not in state:
        return "await_review"
    return "decline_answer" if status == "not_stated" else "__end__"


def wire_answer(builder: Builder) -> None:
    """An answer that keeps its rules, aligned with the note and verified, by recipe."""
    builder.add_edge("widen_evidence", "retrieve_answer_demonstrations")
    builder.add_edge("retrieve_answer_demonstrations", "generate_answer")
    builder.add_edge("generate_answer", "check_answer")
    builder.add_conditional_edges("check_answer", after_check)
    builder.add_conditional_edges("drop_irrelevant", after_relevance)
    builder.add_conditional_edges("align_answer", after_alignment)
    builder.add_conditional_edges("verify_answer", after_verification)
    builder.add_edge("decline_answer", END)


def wire(builder: Builder) -> None:
    """From the question to the answer."""
    wire_question(builder)
    wire_evidence(builder)
    wire_choice(builder)
    wire_answer(builder)


SYSTEM = System(
    summary="evidence by reflected votes or a ranker, then an intent-aware answer (ArchEHR-QA 2026)",
    recipe=TamuRecipe,
    state=TamuState,
    nodes=(
        ADOPT_PATIENT_QUESTION,
        INTERPRET_QUESTION,
        CLASSIFY_INTENT,
        RETRIEVE_EVIDENCE_DEMONSTRATIONS,
        RANK_EVIDENCE,
        LABEL_EVIDENCE,
        REFLECT_ON_LABELS,
        CHECK_NEGATION,
        CHECK_VOTES,
        AGGREGATE_VOTES,
        CHOOSE_ANSWER_EVIDENCE,
        AWAIT_REVIEW,
        JUDGE_ANSWERABILITY,
        WIDEN_EVIDENCE,
        RETRIEVE_ANSWER_DEMONSTRATIONS,
        GENERATE_ANSWER,
        CHECK_ANSWER,
        DROP_IRRELEVANT,
        ALIGN_ANSWER,
        VERIFY_ANSWER,
        DECLINE_ANSWER,
    ),
    wire=wire,
    resources=(Pool(), EvidenceRanker(), AnswerVerifier()),
    score="archehr",
)
