"""Weak labels: a sentence is essential iff it supports the clinician's answer (TAMU 2026, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case, LabelSource
from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import BALLOT, VOTE_FLAGS, plain, whole
from nodes.core.failure import NodeFailure, demand_sentences
from nodes.core.fitting import demand_room
from nodes.core.node import NodeSpec
from nodes.core.records import AnswerEvidence, Decision, Vote, decision, same_evidence
from nodes.core.wording import case_variables, one_line
from nodes.evidence.reply_forms import REPLY_FORMS
from nodes.evidence.settings import VoteSettings
from nodes.evidence.voting import ask_for_votes, vote_tokens
from prompts import Contract
from serving.protocol.messages import Message


class LabelFromAnswerInput(TypedDict):
    case_id: str


class LabelFromAnswerUpdate(TypedDict):
    """What the node owns.

    Votes where a model was asked, evidence where citations say it all, neither where people have labelled
    the case: it has no `label_source` then.
    """

    votes: NotRequired[list[Vote]]
    asked_votes: NotRequired[int]
    evidence: NotRequired[dict[AnswerEvidence, list[str]]]
    label_source: NotRequired[LabelSource]
    decisions: list[Decision]


def labelled_by_people(case: Case) -> bool:
    """Whether the case has labels by people, which weak ones must never replace."""
    return bool(case.gold.labels) and case.gold.label_source == "gold"


def cited_sentences(case: Case) -> list[str] | None:
    """Ids that the answer cites, in note order; None where the key does not give every sentence's citations.

    Citations that are all empty count as not given: no answer rests on nothing.

    Raises:
        NodeFailure: A citation is of no sentence of the note.
    """
    sentences = case.gold.answer_sentences or ()
    cited = {id_ for sentence in sentences for id_ in sentence.citations or ()}
    if not cited or any(sentence.citations is None for sentence in sentences):
        return None
    unknown = sorted(cited - set(case.sentence_ids))
    if unknown:
        raise NodeFailure(
            "invalid_input",
            f"its clinician answer cites sentence {unknown[0]!r}, which the note does not have:"
            " give the key of this very case",
        )
    return [id_ for id_ in case.sentence_ids if id_ in cited]


def answer_statements(case: Case) -> list[str]:
    """The sentences of the clinician's answer, one line each; the whole answer where they are not given.

    Raises:
        NodeFailure: The case has no answer.
    """
    texts = [sentence.text for sentence in case.gold.answer_sentences or ()] or [case.gold.answer or ""]
    statements = [line for line in map(one_line, texts) if line]
    if not statements:
        raise NodeFailure(
            "invalid_input",
            "the case has no clinician answer to label from: add one to its key, or `answer` to its line",
        )
    return statements


async def label_from_answer(state: LabelFromAnswerInput, runtime: Runtime[Context]) -> LabelFromAnswerUpdate:
    """Label by the answer's citations, else by votes of the `label` model, which sees no labels of people."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    if labelled_by_people(case):
        facts = {"labels_from": "people"}
        because = "already labelled by people; left alone"
        return {"decisions": decision("label_from_answer", because, facts, flags=["labelled_by_people"])}
    demand_sentences(case)
    statements = answer_statements(case)
    cited = cited_sentences(case)
    if cited is not None:
        return _by_citations(case, cited)
    return await _by_votes(context, case, statements)


def _by_citations(case: Case, cited: list[str]) -> LabelFromAnswerUpdate:
    because = (
        f"the clinician's answer cites {len(cited)} of {plural(len(case.sentences), 'sentence')};"
        " weak labels from its citations, no model asked"
    )
    facts = {"labels_from": "citations", "label_source": "weak", "essential": cited}
    return {
        "evidence": same_evidence(cited),
        "label_source": "weak",
        "decisions": decision("label_from_answer", because, facts),
    }


async def _by_votes(context: Context, case: Case, statements: Sequence[str]) -> LabelFromAnswerUpdate:
    settings = context.section(VoteSettings)
    messages = _messages(context, case, statements)
    await demand_room(context.client, "label", messages, vote_tokens(context, case))
    asked = settings.first_votes
    votes, ballot = await ask_for_votes(context, case, messages, range(asked))
    because = (
        f"{len(votes)} of {plural(asked, 'vote')} on what in the note supports the clinician's answer;"
        " weak labels from a model"
    )
    facts = {
        "labels_from": "model",
        "label_source": "weak",
        "statements": len(statements),
        "votes": votes,
        **ballot.facts,
    }
    return {
        "votes": votes,
        "asked_votes": asked,
        "label_source": "weak",
        "decisions": decision("label_from_answer", because, facts, ballot.calls, flags=ballot.flags),
    }


def _messages(context: Context, case: Case, statements: Sequence[str]) -> tuple[Message, ...]:
    return context.messages(
        "label_from_answer",
        {
            **case_variables(case, case.question),
            "answer": "\n".join(f"- {statement}" for statement in statements),
            "reply_form": REPLY_FORMS[context.section(VoteSettings).reply].instruction,
        },
    )


LABEL_FROM_ANSWER = NodeSpec(
    run=label_from_answer,
    role="votes",
    sections=(VoteSettings,),
    prompts=(
        Contract(
            name="label_from_answer",
            required=frozenset({"sentences", "answer", "reply_form"}),
            optional=frozenset({"narrative", "question"}),
        ),
    ),
    results={"asked_votes": whole, "label_source": whole},
    facts={
        **BALLOT,
        **plain("labels_from", "label_source", "statements", "essential"),
    },
    flags={**VOTE_FLAGS, "labelled_by_people": "the case has labels of people and was left alone"},
    impairs=("missing_votes",),
)
