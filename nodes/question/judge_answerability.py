"""Whether a note can answer a question, and with which sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, NotRequired, TypedDict, get_args

from langgraph.runtime import Runtime
from pydantic import Field

from cases.records import Case
from nodes.core.context import Context
from nodes.core.facts import PLAIN, Fact, id_list, whole
from nodes.core.failure import NodeFailure, demand_sentences
from nodes.core.fitting import demand_room
from nodes.core.json_reply import as_id, choice_schema, ids_schema, object_schema, read_choice, refuse
from nodes.core.node import Column, NodeSpec
from nodes.core.recipe import Recipe, RecipeSection
from nodes.core.records import Decision, decision
from nodes.core.wording import CASE_VARIABLES, case_variables
from nodes.core.yes_no import ONE_TOKEN, YES, ask_yes_or_no, probability, yes_or_no
from nodes.retrieval.document_records import ChosenSnippet, numbered_snippets
from nodes.verification.negations import denying_sentences
from prompts import Contract
from serving.protocol.errors import InvalidReply
from serving.protocol.reply import ReplyFormat, first_json_object
from serving.protocol.request import CallRecord, Failure

Answerable = Literal["yes", "partly", "no"]

_ANSWERS: tuple[Answerable, ...] = get_args(Answerable)

STATED = yes_or_no("answer_stated")

NEUTRAL_RECORD = """1: A 44-year-old woman was admitted for elective repair of an umbilical hernia.
2: She has hay fever and takes cetirizine 10 mg when needed.
3: The operation took 50 minutes and there was no complication.
4: Temperature was 36.8 and blood pressure 122/76 on the ward.
5: Pain was controlled with acetaminophen 1 g four times a day.
6: She ate a normal supper and walked to the bathroom alone.
7: She was discharged the next morning with her sister.
8: The wound is to be seen in the surgical clinic in two weeks."""
"""An invented record on something else: to some questions small models say Yes whatever the record is."""


class AnswerabilitySettings(RecipeSection):
    """Whether the note can answer the question.

    Attributes:
        reply: `json` names the sentences that answer as well; `token` asks for Yes or No and reads its
            probability; `auto` is `token` if the model gives log-probabilities, else `json`; `none` asks
            nothing.
        least: With `token`, P(Yes) from which on the note answers the question.
        contrast: With `token`, how much of the log-odds of Yes for an invented record on something else is
            taken off first; 0 does not ask about it.
    """

    word_for: ClassVar[str | None] = "reply"

    reply: Literal["none", "json", "token", "auto"] = "json"
    least: float = Field(0.5, ge=0, le=1)
    contrast: float = Field(0.0, ge=0, le=2)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(128, ge=16)

    @property
    def unused_prompts(self) -> frozenset[str]:
        used = {"json": {"judge_answerability"}, "token": {"answer_stated"}}
        return frozenset({"judge_answerability", "answer_stated"}).difference(used.get(self.reply, ()))


class StatedSettings(AnswerabilitySettings):
    """Whether a case is answered at all; one that its note does not answer ends as not stated.

    Attributes:
        reply: As in `AnswerabilitySettings`; without a question every case is answered.
    """

    reply: Literal["none", "json", "token", "auto"] = "none"


def judges_answerability(recipe: Recipe) -> bool:
    """Whether a recipe asks; one that answers cases does so only before an answer."""
    settings = recipe.find_section(AnswerabilitySettings)
    asks = settings is not None and settings.reply != "none"
    return asks and (recipe.answers or not isinstance(settings, StatedSettings))


class JudgeAnswerabilityInput(TypedDict):
    """Snippets of documents replace a note."""

    case_id: str
    patient_question: NotRequired[str]
    snippets: NotRequired[list[ChosenSnippet]]


class JudgeAnswerabilityUpdate(TypedDict):
    """`answering_sentences` are ids of the record, in its order; Yes and No name none."""

    answerable: Answerable
    answering_sentences: list[str]
    decisions: list[Decision]


class Answerability(NamedTuple):
    """A reply; a note that answers nothing has no sentences that do."""

    answerable: Answerable
    sentences: list[str]


def answerability_reply(sentence_ids: Sequence[str]) -> ReplyFormat[Answerability]:
    """The format `{"answerable": "partly", "sentences": ["2", "5"]}` for the ids of a note."""
    return ReplyFormat(
        name="answerability",
        schema=object_schema({"answerable": choice_schema(_ANSWERS), "sentences": ids_schema(sentence_ids)}),
        parse=partial(parse_answerability, sentence_ids=sentence_ids),
    )


def parse_answerability(text: str, sentence_ids: Sequence[str]) -> Answerability:
    """Read a reply strictly: a guess would look like a judgement.

    Raises:
        InvalidReply: No JSON, a value of another kind, or an id that the note does not have.
    """
    reply = first_json_object(text)
    named = reply.get("sentences")
    if not isinstance(named, list):
        raise InvalidReply("'sentences' must be a list of sentence ids")
    ids = [as_id(item) or "?" for item in named]
    refuse({"unknown sentence ids": [id_ for id_ in dict.fromkeys(ids) if id_ not in sentence_ids]})
    answer = read_choice(reply, "answerable", _ANSWERS)
    return Answerability(answer, [] if answer == "no" else [id_ for id_ in sentence_ids if id_ in ids])


async def judge_answerability(
    state: JudgeAnswerabilityInput, runtime: Runtime[Context]
) -> JudgeAnswerabilityUpdate:
    """Ask the `verify` model once, unless the record denies what a yes-or-no question asks about."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    if "snippets" in state:
        case = replace(case, sentences=numbered_snippets(state["snippets"]))
    demand_sentences(case)
    question = state.get("patient_question", case.question)
    facts: dict[str, Any] = {}
    calls: Sequence[CallRecord] = ()
    if denying := denying_sentences(question, [one.text for one in case.sentences]):
        found = Answerability("yes", [case.sentence_ids[place] for place in denying])
        because = "a sentence of the note denies what the question asks about"
    else:
        found, facts, calls = await _ask(context, case, question)
        because = _BECAUSE[found.answerable]
    return {
        "answerable": found.answerable,
        "answering_sentences": found.sentences,
        "decisions": decision(
            "judge_answerability",
            because,
            {"answerable": found.answerable, "sentences": found.sentences, **facts},
            calls,
            flags=[] if found.answerable == "yes" else ["information_missing"],
        ),
    }


async def _ask(
    context: Context, case: Case, question: str
) -> tuple[Answerability, dict[str, Any], Sequence[CallRecord]]:
    """The model's judgement with its facts and calls."""
    settings = context.section(AnswerabilitySettings)
    variables = case_variables(case, question)
    weighs = context.client.backends["verify"].weighs_choices
    by_token = settings.reply == "token" or (settings.reply == "auto" and weighs)
    name = "answer_stated" if by_token else "judge_answerability"
    messages = context.messages(name, variables)
    await demand_room(context.client, "verify", messages, ONE_TOKEN if by_token else settings.max_tokens)
    if not by_token:
        reply = answerability_reply(case.sentence_ids)
        outcome = await context.ask("verify", case.id, messages, reply, settings)
        if isinstance(outcome, Failure):
            raise NodeFailure.of(outcome)
        return outcome.value, {}, outcome.calls
    asked = {"question": messages}
    if settings.contrast:
        asked["neutral"] = context.messages(name, {**variables, "sentences": NEUTRAL_RECORD})
    ballot = await ask_yes_or_no(
        context, "verify", case.id, asked, STATED, "questions with a reply", len(asked)
    )
    neutral = ballot.replies["neutral"].value if settings.contrast else 0.0
    share = probability(ballot.replies["question"].value - settings.contrast * neutral)
    answerable: Answerable = "yes" if share >= settings.least else "no"
    return Answerability(answerable, []), {"probability": share}, ballot.calls


_BECAUSE: Mapping[Answerable, str] = {
    "yes": "the note answers the question",
    "partly": "the note answers a part of the question",
    "no": "the note does not answer the question",
}


JUDGE_ANSWERABILITY = NodeSpec(
    run=judge_answerability,
    sections=(AnswerabilitySettings,),
    prompts=tuple(
        Contract(name=name, required=frozenset({"question", "sentences"}), optional=CASE_VARIABLES)
        for name in ("judge_answerability", "answer_stated")
    ),
    results={"answerable": whole, "answering_sentences": whole},
    columns={"answerable": Column(lambda line: line["answerable"] or "", counted=True)},
    facts={
        "answerable": PLAIN,
        "sentences": id_list("answered by"),
        "probability": Fact(rows=lambda share, _: [("P(answered)", f"{share:.2f}")]),
    },
    dry_replies={STATED.name: lambda _: YES},
    is_off=lambda recipe: not judges_answerability(recipe),
    flags={"information_missing": "the note lacks information that an answer needs"},
)
