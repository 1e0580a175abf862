"""TAMU-NLP at ArchEHR-QA 2026: evidence by reflected votes or a ranker, then an intent-aware answer.

Wiring only.
"""

from __future__ import annotations

from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from graph.inline import inline
from graph.state import CaseInput, State
from nodes.answer.align_answer import align_answer
from nodes.answer.check_answer import check_answer
from nodes.answer.generate_answer import generate_answer
from nodes.core.context import Context
from nodes.core.records import Vote
from nodes.evidence.aggregate_votes import aggregate_votes
from nodes.evidence.await_review import await_review
from nodes.evidence.check_votes import check_votes
from nodes.evidence.choose_answer_evidence import choose_answer_evidence
from nodes.evidence.disagreement import needs_review
from nodes.evidence.label_evidence import label_evidence
from nodes.evidence.rank_evidence import rank_evidence
from nodes.evidence.reflect_on_labels import (
    ReflectOnLabelsInput,
    after_reflection,
    keep_first_labels,
    reflect_on_labels,
)
from nodes.evidence.widen_evidence import widen_evidence
from nodes.question.adopt_patient_question import adopt_patient_question
from nodes.question.classify_intent import classify_intent
from nodes.question.interpret_question import interpret_question
from nodes.retrieval.retrieve_answer_demonstrations import retrieve_answer_demonstrations
from nodes.retrieval.retrieve_evidence_demonstrations import retrieve_evidence_demonstrations

Step = Literal[
    "classify_intent",
    "interpret_question",
    "adopt_patient_question",
    "retrieve_evidence_demonstrations",
    "label_evidence",
    "rank_evidence",
    "align_answer",
    "__end__",
]


def first_steps(state: State | CaseInput, context: Context) -> list[Step]:
    """Demonstrations, or the intent where the recipe chooses them by it; a ranker alone needs neither."""
    if not context.settings.evidence.asks_model:
        return ["rank_evidence", *side_steps(state, context)]
    return ["classify_intent" if context.settings.intent_first else "retrieve_evidence_demonstrations"]


def begin(state: CaseInput, runtime: Runtime[Context]) -> list[Step]:
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


def after_adoption(state: State, runtime: Runtime[Context]) -> list[Step]:
    """As with a clinician question."""
    return first_steps(state, runtime.context)


def after_interpretation(state: State, runtime: Runtime[Context]) -> list[Step]:
    """As with a clinician question, where the case had none; else nobody waits for the interpreted one."""
    if runtime.context.settings.stop_after == "question":
        return ["__end__"]
    return first_steps(state, runtime.context) if "patient_question" in state else []


def after_retrieval(state: State, runtime: Runtime[Context]) -> list[Step]:
    """The votes, and a ranker's beside them."""
    ranked: list[Step] = ["rank_evidence"] if runtime.context.settings.ranks else []
    return ["label_evidence", *ranked, *side_steps(state, runtime.context)]


def side_steps(state: State | CaseInput, context: Context) -> list[Step]:
    """All that can be asked now is asked side by side: nodes of one step end together, so all wait once."""
    settings = context.settings
    has_question = bool(context.cases[state["case_id"]].question.strip())
    steps: list[Step] = []
    if settings.needs_intent and "intent" not in state:
        steps.append("classify_intent")
    if settings.question.interpret == "always" and has_question:
        steps.append("interpret_question")
    if settings.alignment.answer == "clinician":
        steps.append("align_answer")
    return steps


def after_intent(state: State, runtime: Runtime[Context]) -> list[Step]:
    """Evidence demonstrations wait for the intent only where the recipe chooses them by it."""
    return ["retrieve_evidence_demonstrations"] if runtime.context.settings.intent_first else []


def after_ranking(state: State, runtime: Runtime[Context]) -> list[Literal["aggregate_votes"]]:
    """A ranker that stands alone is counted at once; beside a model it ends with the first votes."""
    return [] if runtime.context.settings.evidence.asks_model else ["aggregate_votes"]


def after_labelling(
    state: State, runtime: Runtime[Context]
) -> list[Send] | Literal["check_votes", "aggregate_votes"]:
    """Each new vote is reflected on by itself; without reflection the votes are counted as they are."""
    settings = runtime.context.settings.evidence
    reflected = {vote["vote"] for vote in state.get("reflected_votes", ())}
    new = [vote for vote in state["votes"] if vote["vote"] not in reflected]
    # A fan-out of nothing would end the graph: all further votes may have failed.
    if not settings.reflection or not new:
        return after_reflection(settings)
    return [Send("reflect_on_labels", _reflection(state, vote)) for vote in new]


def after_reflected_vote(
    state: State, runtime: Runtime[Context]
) -> Literal["check_votes", "aggregate_votes"]:
    """A fixed number of votes is counted at once."""
    return after_reflection(runtime.context.settings.evidence)


def after_vote_check(state: State) -> Literal["label_evidence", "aggregate_votes"]:
    """Further votes as long as they could change a label."""
    return "label_evidence" if state["more_votes"] else "aggregate_votes"


def contested_case(state: State, context: Context) -> bool:
    """Whether a person is to look, and has not yet."""
    review = context.settings.review
    return "review" not in state and needs_review(review, state["vote_counts"], state["usable_votes"])


def after_votes(state: State, runtime: Runtime[Context]) -> list[Literal["await_review", "__end__"]]:
    """Stop here where the recipe wants evidence alone; otherwise the join with the intent decides."""
    settings = runtime.context.settings
    if not settings.needs_intent and contested_case(state, runtime.context):
        return ["await_review"]
    return ["__end__"] if settings.stop_after == "evidence" else []


def after_choice(
    state: State, runtime: Runtime[Context]
) -> Literal["await_review", "widen_evidence", "retrieve_answer_demonstrations", "__end__"]:
    """A person first, where votes differ too much; without a single sentence of evidence it is widened."""
    if contested_case(state, runtime.context):
        return "await_review"
    if runtime.context.settings.stop_after == "evidence":
        return "__end__"
    return "retrieve_answer_demonstrations" if state["answer_evidence"] else "widen_evidence"


def after_review(state: State, runtime: Runtime[Context]) -> Literal["choose_answer_evidence", "__end__"]:
    """Choose again, from the reviewer's labels."""
    return "choose_answer_evidence" if runtime.context.settings.needs_intent else "__end__"


def after_check(
    state: State, runtime: Runtime[Context]
) -> Literal["generate_answer", "align_answer", "__end__"]:
    """An answer that was sent back is written again; an accepted one is aligned where the recipe wants it."""
    if "answer" not in state:
        return "generate_answer"
    return "align_answer" if runtime.context.settings.alignment.answer == "generated" else "__end__"


def _reflection(state: State, vote: Vote) -> ReflectOnLabelsInput:
    payload = ReflectOnLabelsInput(
        case_id=state["case_id"],
        shown_demonstrations=state["shown_demonstrations"],
        vote=vote,
    )
    if "patient_question" in state:
        payload["patient_question"] = state["patient_question"]
    return payload


def build(
    context_schema: type[Any] = Context, checkpointer: BaseCheckpointSaver[Any] | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph; the call journal is the resume of a batch, a checkpointer is for `await_review`."""
    builder = StateGraph(State, context_schema=context_schema, input_schema=CaseInput)
    builder.add_node("adopt_patient_question", adopt_patient_question)
    builder.add_node("interpret_question", interpret_question)
    builder.add_node("classify_intent", classify_intent)
    builder.add_node("retrieve_evidence_demonstrations", retrieve_evidence_demonstrations)
    builder.add_node("rank_evidence", rank_evidence)
    builder.add_node("label_evidence", label_evidence)
    builder.add_node("reflect_on_labels", reflect_on_labels, error_handler=keep_first_labels)
    builder.add_node("check_votes", check_votes)
    builder.add_node("aggregate_votes", aggregate_votes)
    builder.add_node("choose_answer_evidence", choose_answer_evidence)
    builder.add_node("await_review", await_review)
    builder.add_node("widen_evidence", widen_evidence)
    builder.add_node("retrieve_answer_demonstrations", retrieve_answer_demonstrations)
    builder.add_node("generate_answer", generate_answer)
    builder.add_node("check_answer", check_answer)
    builder.add_node("align_answer", align_answer)

    beginnings = ["classify_intent", "retrieve_evidence_demonstrations", "rank_evidence", "align_answer"]
    questions = ["interpret_question", "adopt_patient_question"]
    builder.add_conditional_edges(START, inline(begin), [*questions, *beginnings])
    builder.add_conditional_edges("interpret_question", inline(after_interpretation), [*beginnings, END])
    builder.add_conditional_edges("adopt_patient_question", inline(after_adoption), beginnings)
    builder.add_conditional_edges("classify_intent", inline(after_intent), beginnings[1:2])
    builder.add_conditional_edges(
        "retrieve_evidence_demonstrations",
        inline(after_retrieval),
        ["label_evidence", "rank_evidence", "classify_intent", "interpret_question", "align_answer"],
    )
    builder.add_conditional_edges("rank_evidence", inline(after_ranking), ["aggregate_votes"])
    counting = ["check_votes", "aggregate_votes"]
    builder.add_conditional_edges("label_evidence", inline(after_labelling), ["reflect_on_labels", *counting])
    builder.add_conditional_edges("reflect_on_labels", inline(after_reflected_vote), counting)
    builder.add_conditional_edges(
        "check_votes", inline(after_vote_check), ["label_evidence", "aggregate_votes"]
    )
    builder.add_conditional_edges("aggregate_votes", inline(after_votes), ["await_review", END])
    # A list edge, not a deferred node: deferred nodes do not wait for a fan-out's `Send`s.
    builder.add_edge(["classify_intent", "aggregate_votes"], "choose_answer_evidence")
    builder.add_conditional_edges("choose_answer_evidence", inline(after_choice))
    builder.add_conditional_edges("await_review", inline(after_review), ["choose_answer_evidence", END])
    builder.add_edge("widen_evidence", "retrieve_answer_demonstrations")
    builder.add_edge("retrieve_answer_demonstrations", "generate_answer")
    builder.add_edge("generate_answer", "check_answer")
    builder.add_conditional_edges(
        "check_answer", inline(after_check), ["generate_answer", "align_answer", END]
    )
    builder.add_edge("align_answer", END)
    return builder.compile(checkpointer, name="tamu")
