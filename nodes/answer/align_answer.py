"""Which sentences of the note support each sentence of an answer (ArchEHR-QA 2026, subtask 4).

The clinician's answer is an input of that task, and its citations are what is predicted: of the case itself
only ids and texts of answer sentences may reach a prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from nodes.answer.alignment_reply import Alignment, alignment_reply, alignment_reply_tokens, write_alignment
from nodes.answer.answer_rules import split_sentences
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.fitting import Fitted, fit_prompt
from nodes.core.records import AlignedAnswer, AnswerLine, Decision, decision
from nodes.core.settings import Settings
from nodes.core.wording import case_variables, one_line
from nodes.retrieval.demonstration_search import Found, nearest_fitting
from retrieval.demonstrations import DemonstrationPool, answer_text
from serving.ask import Ask, Failure
from serving.messages import Message


class AlignAnswerInput(TypedDict):
    """What the node reads. A clinician's answer is in the case."""

    case_id: str
    patient_question: NotRequired[str]
    answer: NotRequired[str]


class AlignAnswerUpdate(TypedDict):
    """What the node owns; nothing but a decision where the case has no clinician's answer.

    `alignment` has every id of `answer_sentences`, with ids of note sentences in note order.
    """

    answer_sentences: NotRequired[list[AnswerLine]]
    alignment: NotRequired[dict[str, list[str]]]
    aligned_answer: NotRequired[AlignedAnswer]
    decisions: list[Decision]


def numbered(answer: str) -> list[AnswerLine]:
    """The sentences of an answer with the ids "1", "2" and so on."""
    return [AnswerLine(id=str(n), text=text) for n, text in enumerate(split_sentences(answer), start=1)]


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


async def choose_cited(pool: DemonstrationPool, case: Case, question: str, settings: Settings) -> Found:
    """The K nearest cases with cited answers; never the case itself nor one held out."""
    excluded = pool.twins(case) | set(settings.held_out)
    text = answer_text(replace(case, question=question), None)
    wanted = settings.alignment.demonstrations
    return Found(await nearest_fitting(pool, "answer", text, wanted, excluded, shows_citations), excluded)


async def align_answer(state: AlignAnswerInput, runtime: Runtime[Context]) -> AlignAnswerUpdate:
    """Ask the `answer` model for the links of all sentences of the answer at once."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    whose: AlignedAnswer = "clinician" if context.settings.alignment.answer == "clinician" else "generated"
    lines = clinician_lines(case) if whose == "clinician" else numbered(state["answer"])
    if not lines:
        because = "the key gives no sentences of a clinician's answer to align"
        return {"decisions": decision("align_answer", because, {"chosen": []}, flags=["no_clinician_answer"])}
    if not case.sentences:
        raise NodeFailure("invalid_input", "the note has no sentences")
    question = state.get("patient_question", case.question)
    pool = context.demonstrations
    found = Found([], frozenset())
    if pool is not None and context.settings.alignment.demonstrations:
        found = await choose_cited(pool, case, question, context.settings)
    answer_ids = [line["id"] for line in lines]
    max_tokens = alignment_reply_tokens(answer_ids, case.sentence_ids)
    prompt = await _prompt(context, case, question, lines, found, max_tokens)
    (outcome,) = await context.client.ask(
        Ask(
            role="answer",
            case_id=case.id,
            messages=prompt.messages,
            reply=alignment_reply(answer_ids, case.sentence_ids),
            temperature=context.settings.alignment.temperature,
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
                "rescued": outcome.rescued,
                "chosen": found.shown,
                "excluded": sorted(found.excluded),
                "demonstrations": prompt.kept,
                "dropped_demonstrations": prompt.dropped,
            },
            outcome.calls,
            flags=[
                *(["incomplete_alignment"] if outcome.rescued else []),
                *(["dropped_demonstrations"] if prompt.dropped else []),
            ],
        ),
    }


async def _prompt(
    context: Context, case: Case, question: str, lines: Sequence[AnswerLine], found: Found, reply_tokens: int
) -> Fitted:
    variables = {**case_variables(case, question), "answer_sentences": _numbered_lines(lines)}

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        ordered = sorted(ids)
        pool = context.demonstrations
        demonstrations = [_demonstration(pool.case(case_id)) for case_id in ordered] if pool else []
        turns = context.prompts["align_answer"].render(variables, demonstrations)
        return tuple(Message(role, text) for role, text in turns), ordered

    chosen = [one["case_id"] for one in found.shown]
    return await fit_prompt(
        context.client, "answer", chosen, render, reply_tokens=reply_tokens, later_tokens=0
    )


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
        f"{links} links from {len(aligned.links)} sentences of {owner} to the note,"
        f" with {demonstrations} demonstrations"
    )
    if aligned.dropped:
        because += f"; {aligned.dropped} ids that the note does not have were dropped"
    if aligned.missing:
        because += f"; {aligned.missing} sentences that the reply left out have no link"
    return because
