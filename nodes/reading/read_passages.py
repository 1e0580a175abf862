"""Read each passage by itself for its answer to the question (Vladika and Matthes 2024, section 3.3).

A language model is asked once for each passage and sees no other. So each is one vote, as with a classifier;
a reading does not depend on what else was found; and a recipe that reads more, or fewer, replays the calls
that it shares with another. All calls of a case begin alike up to the passage, so that prefix caches hit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NotRequired, TypedDict

import numpy as np
from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.ballot import Ballot
from nodes.core.choice_confidence import choice_shares, token_at
from nodes.core.context import Context, Tool
from nodes.core.facts import id_list, missing, plain
from nodes.core.json_reply import choice_schema, object_schema, read_choice
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision, raised
from nodes.core.scores import demand_finite
from nodes.core.wording import one_line
from nodes.reading.settings import ReadingSettings
from nodes.reading.verdict_votes import READINGS
from nodes.retrieval.document_records import Passage, PassageReading, Reading
from prompts import Contract
from ranking.rankers.entailment import EntailmentModel
from serving.protocol.messages import TokenLogprob
from serving.protocol.reply import ReplyFormat, first_json_object
from serving.protocol.request import Failure, Reply, Request

_FIELD = "reading"
_SAID = re.compile(rf'"{_FIELD}"\s*:\s*"({"|".join(READINGS)})"')
_DIGITS = 4


def parse_reading(text: str) -> Reading:
    """Read a reply strictly.

    Raises:
        InvalidReply: No JSON, or none of the three words.
    """
    return read_choice(first_json_object(text), _FIELD, READINGS)


# No fallback: a reading that the model did not give is missing, never neutral.
READING_REPLY = ReplyFormat(
    name=_FIELD,
    schema=object_schema({_FIELD: choice_schema(READINGS)}),
    parse=parse_reading,
)


def reading_probabilities(tokens: Sequence[TokenLogprob]) -> dict[Reading, float] | None:
    """Probabilities of the three readings, from the token with the first letter of the one that is said.

    Args:
        tokens: Of one reply; their texts together are the reply.

    Returns:
        They sum to 1 but for rounding. None where the reply shows no reading, or came without
        log-probabilities.
    """
    match = _SAID.search("".join(token.token for token in tokens))
    if match is None:
        return None
    shares = choice_shares(*token_at(tokens, match.start(1)), READINGS)
    return None if shares is None else {name: round(shares[name], _DIGITS) for name in READINGS}


ENTAILMENT: Tool[EntailmentModel] = Tool("entailment")
"""Judges passages, where a classifier reads them."""


class ReadPassagesInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    passages: list[Passage]


class ReadPassagesUpdate(TypedDict):
    """Passages that could not be read are missing."""

    readings: list[PassageReading]
    decisions: list[Decision]


async def read_passages(state: ReadPassagesInput, runtime: Runtime[Context]) -> ReadPassagesUpdate:
    """Read every passage; a case without readings of most of them has failed."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    question = state.get("patient_question", case.question)
    passages = state["passages"]
    ballot: Ballot[Reading] = Ballot({})
    cut: list[str] = []
    if context.section(ReadingSettings).asks_model:
        ballot = await Ballot.gathered(
            {passage["id"]: _ask(context, case.id, question, passage["text"]) for passage in passages}
        )
        readings = [_reading(passage, reply) for passage, reply in ballot.replies.items()]
        reader = str(context.client.backends["label"].name)
    else:
        model = context.tool(ENTAILMENT)
        readings, cut = await asyncio.to_thread(_judge, model, question, passages)
        reader = model.identity
    read = f"{len(readings)} of {plural(len(passages), 'passage')}"
    ballot.demand(len(readings), len(passages) // 2 + 1, f"{read} could be read")
    return {
        "readings": readings,
        "decisions": decision(
            "read_passages",
            f"{read} read, each by itself",
            {
                "readings": readings,
                "failed_readings": ballot.failed,
                "reader": reader,
                "cut_passages": cut,
            },
            ballot.calls,
            flags=raised(missing_readings=ballot.failures, cut_passages=cut),
        ),
    }


async def _ask(context: Context, case_id: str, question: str, passage: str) -> Reply[Reading] | Failure:
    settings = context.section(ReadingSettings)
    messages = context.messages(
        "read_passages", {"question": one_line(question), "passage": one_line(passage)}
    )
    (outcome,) = await context.client.ask(
        Request(
            role="label",
            case_id=case_id,
            messages=messages,
            reply=READING_REPLY,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=context.settings.seed,
            logprobs=settings.confidence,
        )
    )
    return outcome


def _reading(passage: str, reply: Reply[Reading]) -> PassageReading:
    shares = reading_probabilities(reply.logprobs)
    reading = PassageReading(
        passage=passage,
        reading=reply.value,
        probability=None if shares is None else shares[reply.value],
    )
    return reading if shares is None else {**reading, "probabilities": shares}


def _judge(
    model: EntailmentModel, question: str, passages: Sequence[Passage]
) -> tuple[list[PassageReading], list[str]]:
    """By a classifier: the likeliest of the three, the first of equals; and which passages were read in part.

    Raises:
        NodeFailure: It returned NaN or infinity.
    """
    verdicts, cut = model.judge(question, [passage["text"] for passage in passages])
    demand_finite(verdicts, f"reader {model.identity}", "probability")
    readings = []
    for passage, row in zip(passages, verdicts, strict=True):
        shares = {name: round(float(share), _DIGITS) for name, share in zip(READINGS, row, strict=True)}
        said = READINGS[int(np.argmax(row))]
        readings.append(
            PassageReading(
                passage=passage["id"], reading=said, probability=shares[said], probabilities=shares
            )
        )
    in_part = [passage["id"] for passage, was_cut in zip(passages, cut, strict=True) if was_cut]
    return readings, in_part


READ_PASSAGES = NodeSpec(
    run=read_passages,
    sections=(ReadingSettings,),
    tools=(ENTAILMENT,),
    prompts=(Contract(name="read_passages", required=frozenset({"question", "passage"})),),
    facts={
        "failed_readings": missing("passage"),
        "cut_passages": id_list("read in part"),
        **plain("readings", "reader"),
    },
    flags={
        "missing_readings": "some passages could not be read; they count as missing, not as neutral",
        "cut_passages": "the reader read only the beginning of some passages",
    },
    impairs=("missing_readings",),
    is_off=lambda recipe: not recipe.section(ReadingSettings).asks_model,
)
