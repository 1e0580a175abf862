"""The exact answer to a question of yes or no, a factoid or a list (Verma et al. 2025, section 3.3).

One prompt, asked for as many votes as the recipe wants; a vote that gives nothing is missing, not empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from langgraph.runtime import Runtime

from cases.biomedical import ExactAnswer, QuestionType
from cases.records import Case
from cases.texts import plural
from nodes.answer.exact_reply import (
    FIELD,
    MAX_ENTRIES,
    Exact,
    ExactSettings,
    demand_type,
    exact_reply,
    exact_words,
)
from nodes.answer.question_prompt import (
    ANSWERED_QUESTIONS,
    PASSAGE_VARIABLES,
    QUESTION_PROMPT_FACTS,
    QUESTION_PROMPT_FLAGS,
    Wording,
    question_prompt,
)
from nodes.core.ballot import Ballot
from nodes.core.context import Context
from nodes.core.facts import VOTE_FLAGS, Fact, Facts, Row, fault_classes, plain, withheld
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision, raised
from nodes.retrieval.document_records import ChosenSnippet, ExactVote
from nodes.retrieval.document_settings import DocumentSettings
from prompts import Contract
from serving.protocol.request import Failure, Reply, Request


class AnswerExactlyInput(TypedDict):
    case_id: str
    snippets: list[ChosenSnippet]


class AnswerExactlyUpdate(TypedDict):
    exact_votes: list[ExactVote]
    decisions: list[Decision]


async def answer_exactly(state: AnswerExactlyInput, runtime: Runtime[Context]) -> AnswerExactlyUpdate:
    """Ask the `label` model; a case without answers of more than half of its votes has failed."""
    context = runtime.context
    settings = context.section(ExactSettings)
    case = context.cases[state["case_id"]]
    type_ = demand_type(case)
    texts = context.prompts["answer_exactly"]
    instruction = {"instruction": texts.text(f"{type_}_{settings.instructions}")}
    prompt = await question_prompt(
        context,
        case,
        type_,
        [one["text"] for one in state["snippets"]],
        Wording(
            prompt="answer_exactly",
            role="label",
            own=instruction,
            of_shot=lambda shot: instruction | {"answer": shown_answer(shot, settings)},
            reply_tokens=settings.max_tokens,
            later_tokens=2 * settings.max_tokens,
        ),
    )
    outcomes = await context.client.ask(
        Request(
            role="label",
            case_id=case.id,
            messages=prompt.messages,
            reply=exact_reply(type_),
            samples=tuple(range(settings.votes)),
            temperature=settings.sampled_at,
            max_tokens=settings.max_tokens,
            seed=context.settings.seed,
        )
    )
    numbered = {str(sample): outcome for sample, outcome in enumerate(outcomes)}
    defaulted = _unreadable(numbered) if settings.default_yes and type_ == "yesno" else []
    ballot = Ballot(numbered | {name: Reply("yes", "", numbered[name].calls) for name in defaulted})
    usable = f"{len(ballot.replies)} of {plural(settings.votes, 'vote')}"
    ballot.demand(len(ballot.replies), settings.votes // 2 + 1, f"{usable} gave an answer")
    votes = [
        ExactVote(sample=int(name), answer=outcome.value if isinstance(outcome, Reply) else None)
        for name, outcome in ballot.outcomes.items()
    ]
    return {
        "exact_votes": votes,
        "decisions": decision(
            "answer_exactly",
            f"{usable} on one prompt of style {settings.style} with {prompt.sources}",
            {
                "question_type": type_,
                "style": settings.style,
                "exact_votes": votes,
                **ballot.facts,
                "defaulted_votes": [int(name) for name in defaulted],
                **prompt.facts,
            },
            ballot.calls,
            flags=[*ballot.flags, *raised(defaulted_to_yes=defaulted), *prompt.flags],
        ),
    }


def _unreadable(outcomes: Mapping[str, Reply[Exact] | Failure]) -> list[str]:
    """Replies that came and could not be read; one that never came is none of them."""
    return [
        name
        for name, outcome in outcomes.items()
        if isinstance(outcome, Failure) and outcome.error.error_class == "invalid_output"
    ]


def shown_answer(shot: Case, settings: ExactSettings) -> str:
    """The gold answer of a shot in the form that a reply has.

    Of a list, query template 1 shows one entry, and template 2 all that a reply may have.
    """
    gold = shot.gold.exact_answer
    assert gold is not None and shot.biomedical is not None and shot.biomedical.type is not None
    said: Any = gold
    if not isinstance(gold, str):
        said = first_synonyms(gold, shot.biomedical.type)
        if shot.biomedical.type == "list" and not settings.hints:
            said = said[:1]
    return json.dumps({FIELD: said}, ensure_ascii=False)


def first_synonyms(answer: ExactAnswer, type_: QuestionType) -> list[str]:
    """One text for each entry, as many as an answer may have; a yes or no is its own."""
    if isinstance(answer, str):
        return [answer]
    return [synonyms[0] for synonyms in answer if synonyms][: MAX_ENTRIES[type_]]


def _vote_rows(votes: Sequence[ExactVote], facts: Facts) -> list[Row]:
    """Votes that are missing first, with their faults."""
    failed = [(f"vote {sample}", f"missing, {fault}") for sample, fault in facts["failed_votes"].items()]
    there = [vote for vote in votes if vote["answer"] is not None]
    return failed + [(f"vote {vote['sample']}", exact_words(vote["answer"])) for vote in there]


ANSWER_EXACTLY = NodeSpec(
    run=answer_exactly,
    sections=(ExactSettings,),
    tools=(ANSWERED_QUESTIONS,),
    prompts=(
        Contract(
            name="answer_exactly",
            required=PASSAGE_VARIABLES,
            demonstration=PASSAGE_VARIABLES | {"answer"},
            texts={
                f"{type_}_{format_}": frozenset()
                for type_ in ("yesno", "factoid", "list")
                for format_ in (1, 2)
            },
        ),
    ),
    facts={
        # Entries of an answer are a model's words.
        "exact_votes": Fact(keep=withheld, rows=_vote_rows),
        "failed_votes": Fact(keep=fault_classes),
        "rescued_votes": Fact(keep=list),
        **QUESTION_PROMPT_FACTS,
        **plain("question_type", "style", "defaulted_votes"),
    },
    flags={
        **VOTE_FLAGS,
        "defaulted_to_yes": "replies that said neither yes nor no count as yes, as the recipe wants it",
        **QUESTION_PROMPT_FLAGS,
    },
    impairs=("missing_votes",),
    is_off=lambda recipe: not recipe.section(DocumentSettings).answers,
)
