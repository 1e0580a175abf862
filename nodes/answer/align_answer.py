"""Which sentences of the note support each sentence of an answer (ArchEHR-QA 2026, subtask 4).

The clinician's answer is an input of that task, and its citations are the prediction: prompts may contain
only ids and texts of the case's answer sentences.
"""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from langgraph.runtime import Runtime
from pydantic import Field

from cases.records import Case
from cases.texts import plural
from nodes.answer.answer_rules import numbered_sentences
from nodes.core.context import Context
from nodes.core.dry_run import DryCall, share_of
from nodes.core.facts import (
    CHOSEN_DEMONSTRATIONS,
    DROPPED_DEMONSTRATIONS,
    LINKS,
    SHOWN_DEMONSTRATIONS,
    Fact,
    plain,
    whole,
    withheld,
)
from nodes.core.failure import NodeFailure, demand_sentences
from nodes.core.json_reply import as_id, ids_schema, most_tokens, object_schema, refuse
from nodes.core.node import NodeSpec
from nodes.core.recipe import RecipeSection
from nodes.core.records import AlignedAnswer, AnswerLine, Decision, decision, raised
from nodes.core.wording import CASE_VARIABLES, case_variables, one_line
from nodes.retrieval.demonstration_search import POOL, choose, fit_demonstrations
from prompts import Contract
from retrieval.pools.compared import answer_text
from serving.protocol.errors import InvalidReply
from serving.protocol.reply import ReplyFormat, first_json_object
from serving.protocol.request import Failure, Request

ALIGNMENT_REPLY = "alignment"
"""Name of the reply's format."""


class Alignment(NamedTuple):
    """Links in a reply, and repairs made to read it.

    Attributes:
        links: Ids of note sentences in note order, by the id of the answer sentence, in answer order.
        dropped: Ids that the note does not have.
        missing: Ids of answer sentences without a list; theirs is empty.
    """

    links: dict[str, list[str]]
    dropped: int = 0
    missing: int = 0


def alignment_reply(answer_ids: Sequence[str], sentence_ids: Sequence[str]) -> ReplyFormat[Alignment]:
    """The format `{"1": ["2", "5"], "2": []}` for the ids of an answer and of a note."""
    return ReplyFormat(
        ALIGNMENT_REPLY,
        object_schema({id_: ids_schema(sentence_ids) for id_ in answer_ids}),
        partial(parse_alignment, answer_ids=answer_ids, sentence_ids=sentence_ids),
        partial(fallback_alignment, answer_ids=answer_ids, sentence_ids=sentence_ids),
    )


def alignment_reply_tokens(answer_ids: Sequence[str], sentence_ids: Sequence[str]) -> int:
    """Token limit: room for every link."""
    return most_tokens(write_alignment({id_: sentence_ids for id_ in answer_ids}))


def write_alignment(links: Mapping[str, Sequence[str]]) -> str:
    """Links as the JSON that a model is asked for."""
    return json.dumps({id_: list(cited) for id_, cited in links.items()}, ensure_ascii=False)


def parse_alignment(text: str, answer_ids: Sequence[str], sentence_ids: Sequence[str]) -> Alignment:
    """Read all links; order and repetition do not matter, and numbers count as ids.

    Raises:
        InvalidReply: Names missing and unknown ids of the answer, values that are not lists, and ids that the
            note lacks.
    """
    reply = first_json_object(text)
    named = {id_: reply[id_] for id_ in answer_ids if isinstance(reply.get(id_), list)}
    items = [_id(item) for cited in named.values() for item in cited]
    refuse(
        {
            "missing ids of answer sentences": [id_ for id_ in answer_ids if id_ not in reply],
            "unknown ids of answer sentences": [id_ for id_ in reply if id_ not in set(answer_ids)],
            "values that are not lists for": [id_ for id_ in answer_ids if id_ in reply.keys() - named],
            "ids that the note lacks": [id_ for id_ in dict.fromkeys(items) if id_ not in set(sentence_ids)],
        }
    )
    return _read(named, answer_ids, sentence_ids)


def fallback_alignment(text: str, answer_ids: Sequence[str], sentence_ids: Sequence[str]) -> Alignment:
    """Read what can be read: unknown ids are dropped and counted, a missing list is empty and counted.

    Raises:
        InvalidReply: Not a single list for a sentence of the answer.
    """
    reply = first_json_object(text)
    named = {id_: reply[id_] for id_ in answer_ids if isinstance(reply.get(id_), list)}
    if not named:
        raise InvalidReply("the reply has no list for any sentence of the answer")
    return _read(named, answer_ids, sentence_ids)


def _read(
    named: Mapping[str, Sequence[Any]], answer_ids: Sequence[str], sentence_ids: Sequence[str]
) -> Alignment:
    links: dict[str, list[str]] = {}
    dropped = 0
    for answer_id in answer_ids:
        cited = {_id(item) for item in named.get(answer_id, ())}
        links[answer_id] = [id_ for id_ in sentence_ids if id_ in cited]
        dropped += len(cited) - len(links[answer_id])
    return Alignment(links, dropped, len(answer_ids) - len(named))


def _id(item: object) -> str:
    """An id as text; for other types their repr, which never matches an id."""
    found = as_id(item)
    return f"({reprlib.repr(item)})" if found is None else found


class AlignmentSettings(RecipeSection):
    """Which note sentences support each sentence of an answer (ArchEHR-QA 2026, subtask 4).

    Attributes:
        answer: Whose answer is aligned: the `generated` one, the `clinician`'s of the key file, or `none`.
        demonstrations: Cases with cited answers that the prompt shows.
    """

    answer: Literal["none", "generated", "clinician"] = "none"
    demonstrations: int = Field(3, ge=0, le=50)
    temperature: float = Field(0.0, ge=0, le=2)


class AlignAnswerInput(TypedDict):
    """The clinician's answer is in the case."""

    case_id: str
    patient_question: NotRequired[str]
    answer: NotRequired[str]


class AlignAnswerUpdate(TypedDict):
    """Only a decision if the case has no clinician's answer.

    `alignment` has every id of `answer_sentences`, with ids of note sentences in note order.
    """

    answer_sentences: NotRequired[list[AnswerLine]]
    alignment: NotRequired[dict[str, list[str]]]
    aligned_answer: NotRequired[AlignedAnswer]
    decisions: list[Decision]


def clinician_lines(case: Case) -> list[AnswerLine]:
    """Ids and texts of the clinician's answer as the key gives them, without citations.

    Raises:
        NodeFailure: An id is used twice.
    """
    lines = [AnswerLine(id=one.id, text=one_line(one.text)) for one in case.gold.answer_sentences or ()]
    twice = [id_ for id_, times in Counter(line["id"] for line in lines).items() if times > 1]
    if twice:
        raise NodeFailure("invalid_input", f"the clinician's answer has two sentences {twice[0]!r}")
    return lines


def shows_citations(case: Case) -> bool:
    """Whether a case can show how an answer is aligned: one citation at least, and none left open."""
    lines = case.gold.answer_sentences or ()
    return any(line.citations for line in lines) and all(line.citations is not None for line in lines)


async def align_answer(state: AlignAnswerInput, runtime: Runtime[Context]) -> AlignAnswerUpdate:
    """Ask the `answer` model for the links of all sentences of the answer at once."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    settings = context.section(AlignmentSettings)
    whose: AlignedAnswer = "clinician" if settings.answer == "clinician" else "generated"
    lines = clinician_lines(case) if whose == "clinician" else numbered_sentences(state["answer"])
    if not lines:
        because = "the key lacks sentences of a clinician's answer to align"
        return {"decisions": decision("align_answer", because, {"chosen": []}, flags=["no_clinician_answer"])}
    demand_sentences(case)
    question = state.get("patient_question", case.question)
    text = answer_text(replace(case, question=question), None)
    found = await choose(
        context.find(POOL),
        case,
        context.settings,
        "answer",
        text,
        settings.demonstrations,
        fits=shows_citations,
    )
    answer_ids = [line["id"] for line in lines]
    max_tokens = alignment_reply_tokens(answer_ids, case.sentence_ids)
    prompt = await fit_demonstrations(
        context,
        "align_answer",
        {**case_variables(case, question), "answer_sentences": _numbered_lines(lines)},
        found.ids,
        _demonstration,
        reply_tokens=max_tokens,
    )
    (outcome,) = await context.client.ask(
        Request(
            role="answer",
            case_id=case.id,
            messages=prompt.messages,
            reply=alignment_reply(answer_ids, case.sentence_ids),
            temperature=settings.temperature,
            max_tokens=max_tokens,
            seed=context.settings.seed,
        )
    )
    if isinstance(outcome, Failure):
        raise NodeFailure.of(outcome)
    aligned = outcome.value
    return {
        "answer_sentences": lines,
        "alignment": aligned.links,
        "aligned_answer": whose,
        "decisions": decision(
            "align_answer",
            _because(whose, aligned, len(prompt.kept)),
            {
                "aligned_answer": whose,
                "links": aligned.links,
                "dropped_ids": aligned.dropped,
                "missing_sentences": aligned.missing,
                "rescued": outcome.fallback_fault,
                **found.facts,
                **prompt.facts,
            },
            outcome.calls,
            flags=[*raised(incomplete_alignment=outcome.fallback_fault), *prompt.flags],
        ),
    }


def _demonstration(case: Case) -> dict[str, str]:
    lines = case.gold.answer_sentences or ()
    links = {line.id: [id_ for id_ in case.sentence_ids if id_ in (line.citations or ())] for line in lines}
    return {
        **case_variables(case, case.question),
        "answer_sentences": _numbered_lines(
            [AnswerLine(id=line.id, text=one_line(line.text)) for line in lines]
        ),
        "alignment": write_alignment(links),
    }


def _numbered_lines(lines: Sequence[AnswerLine]) -> str:
    return "\n".join(f"{line['id']}: {line['text']}" for line in lines)


def _because(whose: AlignedAnswer, aligned: Alignment, demonstrations: int) -> str:
    links = sum(map(len, aligned.links.values()))
    owner = "the clinician's answer" if whose == "clinician" else "the answer"
    because = (
        f"{plural(links, 'link')} from {plural(len(aligned.links), 'sentence')} of {owner} to the note,"
        f" with {plural(demonstrations, 'demonstration')}"
    )
    if aligned.dropped:
        because += f"; {aligned.dropped} ids that the note does not have were dropped"
    if aligned.missing:
        because += f"; no link from {plural(aligned.missing, 'sentence')} that the reply left out"
    return because


_LINKED_SENTENCES = 2
"""Note sentences for each sentence of a made-up alignment; 2.0 on average in the packaged cases."""


def _made_up(call: DryCall) -> str:
    """Links to neighbouring sentences, the same for the same case."""
    assert call.schema is not None
    links = {}
    for name, part in call.schema["properties"].items():
        options = part["items"]["enum"]
        start = int(share_of((call.case_id, name)) * max(1, len(options) - _LINKED_SENTENCES + 1))
        links[name] = options[start : start + _LINKED_SENTENCES]
    return json.dumps(links)


ALIGN_ANSWER = NodeSpec(
    run=align_answer,
    sections=(AlignmentSettings,),
    tools=(POOL,),
    prompts=(
        Contract(
            name="align_answer",
            required=CASE_VARIABLES | {"answer_sentences"},
            demonstration=CASE_VARIABLES | {"answer_sentences", "alignment"},
        ),
    ),
    results={"answer_sentences": withheld, "alignment": withheld, "aligned_answer": whole},
    facts={
        **CHOSEN_DEMONSTRATIONS,
        "links": LINKS,
        "rescued": Fact(keep=bool),
        **SHOWN_DEMONSTRATIONS,
        **plain("aligned_answer", "dropped_ids", "missing_sentences"),
    },
    flags={
        "no_clinician_answer": "the key lacks a clinician's answer to align",
        "incomplete_alignment": "the alignment named unknown sentences, or left some out",
        **DROPPED_DEMONSTRATIONS,
    },
    dry_replies={ALIGNMENT_REPLY: _made_up},
    demonstrations=("the alignment", "align_answer"),
    is_off=lambda recipe: recipe.section(AlignmentSettings).answer == "none",
)
