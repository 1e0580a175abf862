"""Does each sentence of the answer help to answer the question? Those that do not are removed.

A sentence that is copied from the note is always supported by it, so support alone lets an answer pour out
whatever was selected. A sentence that shares a word with the question always stays: small models find that a
thing which was not done does not help to answer a question about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime
from pydantic import Field

from cases.records import Sentence
from cases.texts import plural
from nodes.answer.answer_rules import numbered_sentences
from nodes.core.ballot import Ballot
from nodes.core.context import Context
from nodes.core.facts import Fact, missing, plain, scores_by_id, withheld
from nodes.core.node import NodeSpec
from nodes.core.recipe import Recipe, RecipeSection
from nodes.core.records import AnswerLine, Decision, decision, raised
from nodes.core.wording import one_line
from nodes.core.yes_no import NO, YES, ask_yes_or_no, probability, yes_or_no
from nodes.verification.text_checks import nearest
from prompts import Contract
from serving.protocol.errors import InvalidReply
from serving.protocol.reply import ReplyFormat

WEIGHED = yes_or_no("sentence_helps")


class RelevanceSettings(RecipeSection):
    """Whether sentences that do not help to answer the question are removed from the answer.

    Attributes:
        least: P(Yes) from which on a sentence helps; a model without log-probabilities says Yes or No. A
            sentence that shares a word with the question stays, as does the most helpful one. None asks
            nothing.
    """

    least: float | None = Field(None, ge=0, le=1)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(16, ge=1)

    @property
    def unused_prompts(self) -> frozenset[str]:
        return frozenset({"sentence_helps"}) if self.least is None else frozenset()


def checks_relevance(recipe: Recipe) -> bool:
    """Whether a recipe writes answers and asks for the relevance of their sentences."""
    settings = recipe.find_section(RelevanceSettings)
    return recipe.answers and settings is not None and settings.least is not None


class DropIrrelevantInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    answer: str


class DropIrrelevantUpdate(TypedDict):
    answer: str
    decisions: list[Decision]


def helpful(
    lines: Sequence[AnswerLine], question: str, shares: Mapping[str, float], least: float
) -> list[str]:
    """Ids of the sentences that stay; one without a reply does."""
    named = nearest(question, [Sentence(line["id"], line["text"]) for line in lines], len(lines))
    kept = [line["id"] for line in lines if line["id"] in named or shares.get(line["id"], 1.0) >= least]
    return kept or [max(shares, key=lambda id_: shares[id_])]


async def drop_irrelevant(state: DropIrrelevantInput, runtime: Runtime[Context]) -> DropIrrelevantUpdate:
    """One question a sentence to the `verify` model; an answer of one sentence has none to remove."""
    context = runtime.context
    settings = context.section(RelevanceSettings)
    assert settings.least is not None
    lines = numbered_sentences(state["answer"])
    if len(lines) < 2:
        return {
            "answer": state["answer"],
            "decisions": decision("drop_irrelevant", "the answer is one sentence", {"removed": []}),
        }
    case = context.cases[state["case_id"]]
    question = one_line(state.get("patient_question", case.question))
    questions = {
        line["id"]: context.messages(
            "sentence_helps", {"question": question, "statement": one_line(line["text"])}
        )
        for line in lines
    }
    ballot: Ballot[float]
    if context.client.backends["verify"].weighs_choices:
        ballot = await ask_yes_or_no(
            context, "verify", case.id, questions, WEIGHED, "sentences of the answer with a reply"
        )
        shares = {id_: probability(reply.value) for id_, reply in ballot.replies.items()}
    else:
        ballot = await Ballot.gathered(
            {id_: context.ask("verify", case.id, one, _SAID, settings) for id_, one in questions.items()}
        )
        ballot.demand_final()
        shares = {id_: reply.value for id_, reply in ballot.replies.items()}
    kept = helpful(lines, question, shares, settings.least)
    removed = [line["text"] for line in lines if line["id"] not in kept]
    return {
        "answer": " ".join(line["text"] for line in lines if line["id"] in kept),
        "decisions": decision(
            "drop_irrelevant",
            f"{len(kept)} of {plural(len(lines), 'sentence')} of the answer help to answer the question",
            {"helps": shares, "least": settings.least, "removed": removed, "missing_replies": ballot.failed},
            ballot.calls,
            flags=raised(removed_irrelevant=removed, unjudged_relevance=ballot.failures),
        ),
    }


def _parse(text: str) -> float:
    word = text.strip().strip("*\"'").casefold()
    for said, share in ((YES, 1.0), (NO, 0.0)):
        if word.startswith(said.casefold()):
            return share
    raise InvalidReply(f"the reply must be {YES} or {NO}")


_SAID: ReplyFormat[float] = ReplyFormat("sentence_helps_said", None, _parse)

DROP_IRRELEVANT = NodeSpec(
    run=drop_irrelevant,
    sections=(RelevanceSettings,),
    prompts=(Contract(name="sentence_helps", required=frozenset({"question", "statement"})),),
    results={"answer": withheld},
    facts={
        "helps": scores_by_id("P(helps)"),
        "removed": Fact(keep=len, rows=lambda texts, _: [("removed", text) for text in texts]),
        "missing_replies": missing("answer sentence"),
        **plain("least"),
    },
    flags={
        "removed_irrelevant": "sentences that do not help to answer the question were removed",
        "unjudged_relevance": "the model did not judge whether some sentences of the answer help",
    },
    impairs=("unjudged_relevance",),
    kind="EVALUATOR",
    is_off=lambda recipe: not checks_relevance(recipe),
    dry_replies={WEIGHED.name: lambda _: YES, _SAID.name: lambda _: YES},
)
