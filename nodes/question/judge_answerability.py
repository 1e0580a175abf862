"""Whether a note can answer a question at all, and which of its sentences do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict, get_args

from langgraph.runtime import Runtime
from pydantic import Field

from nodes.core.context import Context
from nodes.core.facts import PLAIN, id_list, whole
from nodes.core.failure import NodeFailure
from nodes.core.fitting import fit_prompt
from nodes.core.json_reply import as_id, choice_schema, ids_schema, object_schema, refuse
from nodes.core.node import Column, NodeSpec
from nodes.core.recipe import RecipeSection
from nodes.core.records import Decision, decision
from nodes.core.wording import CASE_VARIABLES, case_variables
from prompts import Contract
from serving.protocol.errors import InvalidReply
from serving.protocol.reply import ReplyFormat, first_json_object
from serving.protocol.request import Failure

Answerable = Literal["yes", "partly", "no"]

_ANSWERS = get_args(Answerable)


class AnswerabilitySettings(RecipeSection):
    """Whether the note can answer the question."""

    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(128, ge=16)


class JudgeAnswerabilityInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]


class JudgeAnswerabilityUpdate(TypedDict):
    """`answering_sentences` are ids of the note, in note order."""

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
    for answer in _ANSWERS:
        if reply.get("answerable") == answer:
            answering = [id_ for id_ in sentence_ids if id_ in ids]
            return Answerability(answer, [] if answer == "no" else answering)
    raise InvalidReply(f"'answerable' must be one of {', '.join(_ANSWERS)}")


async def judge_answerability(
    state: JudgeAnswerabilityInput, runtime: Runtime[Context]
) -> JudgeAnswerabilityUpdate:
    """Ask the `classify` model once."""
    context = runtime.context
    settings = context.section(AnswerabilitySettings)
    case = context.cases[state["case_id"]]
    if not case.sentences:
        raise NodeFailure("invalid_input", "the note has no sentences")
    variables = case_variables(case, state.get("patient_question", case.question))
    prompt = await fit_prompt(
        context.client,
        "classify",
        (),
        lambda _: (context.messages("judge_answerability", variables), []),
        reply_tokens=settings.max_tokens,
    )
    reply = answerability_reply(case.sentence_ids)
    outcome = await context.ask("classify", case.id, prompt.messages, reply, settings)
    if isinstance(outcome, Failure):
        raise NodeFailure.of(outcome)
    answerable, sentences = outcome.value
    return {
        "answerable": answerable,
        "answering_sentences": sentences,
        "decisions": decision(
            "judge_answerability",
            _BECAUSE[answerable],
            {"answerable": answerable, "sentences": sentences},
            outcome.calls,
            flags=[] if answerable == "yes" else ["information_missing"],
        ),
    }


_BECAUSE: Mapping[Answerable, str] = {
    "yes": "the note answers the question",
    "partly": "the note answers a part of the question",
    "no": "the note does not answer the question",
}


def _in_words(line: Mapping[str, Any]) -> str:
    return line["answerable"] or ""


JUDGE_ANSWERABILITY = NodeSpec(
    run=judge_answerability,
    sections=(AnswerabilitySettings,),
    prompts=(
        Contract(
            name="judge_answerability",
            required=frozenset({"question", "sentences"}),
            optional=CASE_VARIABLES,
        ),
    ),
    results={"answerable": whole, "answering_sentences": whole},
    columns={"answerable": Column(_in_words, counted=True)},
    facts={"answerable": PLAIN, "sentences": id_list("answered by")},
    flags={"information_missing": "the note lacks information that an answer needs"},
)
