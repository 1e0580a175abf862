"""One prompt that labels the note, answers the question and cites at once: what every graph must beat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, NotRequired, TypedDict

from langgraph.runtime import Runtime
from pydantic import Field

from cases.records import Case
from cases.texts import plural
from nodes.answer.answer_rules import AnswerRules
from nodes.answer.check_answer import BREAKS_RULES
from nodes.citing.citations import (
    NO_CITATIONS,
    CitedAnswer,
    CitedSentence,
    keep_within,
    read_citations,
    write_citations,
)
from nodes.citing.validate_citations import citation_faults
from nodes.core.context import Context
from nodes.core.dry_run import CorrectedReply, DryCall, made_up_sentences
from nodes.core.facts import (
    CHOSEN_DEMONSTRATIONS,
    DROPPED_DEMONSTRATIONS,
    LINKS,
    SHOWN_DEMONSTRATIONS,
    id_list,
    plain,
    whole,
    withheld,
)
from nodes.core.failure import NodeFailure, demand_sentences
from nodes.core.fitting import Fitted
from nodes.core.node import NodeSpec
from nodes.core.records import (
    AlignedAnswer,
    AnswerEvidence,
    AnswerLine,
    Decision,
    decision,
    raised,
    same_evidence,
)
from nodes.core.wording import CASE_VARIABLES, case_variables, essential_ids, one_line
from nodes.core.written_text import Attempt, Rules, WrittenText, correction_tokens, write_text
from nodes.retrieval.demonstration_search import POOL, choose, fit_demonstrations
from prompts import Contract
from retrieval.pools.compared import answer_text
from serving.protocol.reply import CITED_TEXT

_LABEL_LINE = re.compile(r"^\W*essential\b[^:\n]*:(?P<ids>[^\n]*)\n?", re.IGNORECASE)


class DirectSettings(AnswerRules):
    """Demonstrations and rules of the answer.

    Attributes:
        demonstrations: Annotated cases that the prompt shows; 0 asks zero-shot.
        min_sentences: The answer may be a single sentence.
    """

    min_sentences: int = Field(1, ge=1)
    demonstrations: int = Field(0, ge=0, le=50)


class AnswerDirectlyInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    rejected_answers: NotRequired[list[Attempt]]


class AnswerDirectlyUpdate(TypedDict):
    """`evidence` are the sentences that the reply calls essential."""

    draft_answer: str
    answer: str
    answer_sentences: list[AnswerLine]
    alignment: dict[str, list[str]]
    aligned_answer: AlignedAnswer
    evidence: dict[AnswerEvidence, list[str]]
    decisions: list[Decision]


class DirectReply(NamedTuple):
    """A reply taken apart; `essential` is None where it has no line of labels."""

    essential: list[str] | None
    answer: CitedAnswer


def read_direct_reply(text: str, sentence_ids: Sequence[str]) -> DirectReply:
    """A line `Essential: 2, 5`, then an answer whose sentences end with `|2, 5|`.

    Ids that the note does not have are left out.
    """
    line = _LABEL_LINE.match(text.lstrip())
    if line is None:
        return DirectReply(None, read_citations(text, sentence_ids))
    named = set(re.split(r"[^\w.-]+", line["ids"]))
    essential = [id_ for id_ in sentence_ids if id_ in named]
    return DirectReply(essential, read_citations(text.lstrip()[line.end() :], sentence_ids))


def shows_answer(case: Case) -> bool:
    """Whether a case can be a demonstration: it has labels, and an answer with citations."""
    lines = case.gold.answer_sentences or ()
    return bool(case.gold.labels) and any(line.citations for line in lines)


async def answer_directly(state: AnswerDirectlyInput, runtime: Runtime[Context]) -> AnswerDirectlyUpdate:
    """Ask the `answer` model; a reply that breaks its rules goes back, then is cut and flagged."""
    context = runtime.context
    settings = context.section(DirectSettings)
    case = context.cases[state["case_id"]]
    demand_sentences(case)
    question = state.get("patient_question", case.question)
    found = await choose(
        context.find(POOL),
        case,
        context.settings,
        "answer",
        answer_text(replace(case, question=question), None),
        settings.demonstrations,
        fits=shows_answer,
    )
    prompt = await fit_demonstrations(
        context,
        "answer_directly",
        {**_variables(case, question), "max_words": str(settings.max_words)},
        found.ids,
        _demonstration,
        reply_tokens=settings.max_tokens,
        later_tokens=correction_tokens(settings),
    )
    rules = Rules(str.strip, lambda text: _faults(text, case, settings), lambda text: text)
    written = await write_text(
        context,
        case.id,
        "answer_directly",
        prompt.messages,
        CITED_TEXT,
        settings,
        rules,
        state.get("rejected_answers", ()),
    )
    reply = read_direct_reply(written.text, case.sentence_ids)
    kept = keep_within(reply.answer.sentences, settings, count_citations=False)
    if not kept:
        raise NodeFailure("invalid_output", "the reply has no answer", written.calls)
    lines = [AnswerLine(id=str(number), text=one.text) for number, one in enumerate(kept, start=1)]
    links = {line["id"]: list(one.cited) for line, one in zip(lines, kept, strict=True)}
    cited = [id_ for id_ in case.sentence_ids if any(id_ in one.cited for one in kept)]
    essential = cited if reply.essential is None else reply.essential
    return {
        "draft_answer": written.text,
        "answer": " ".join(line["text"] for line in lines),
        "answer_sentences": lines,
        "alignment": links,
        "aligned_answer": "generated",
        "evidence": same_evidence(essential),
        "decisions": decision(
            "answer_directly",
            _because(essential, kept, written, prompt),
            {
                "essential": essential,
                "links": links,
                "cited": cited,
                "faults": written.faults,
                "attempts": len(written.faults) + (not written.cut),
                "unknown_ids": len(reply.answer.unknown),
                **found.facts,
                **prompt.facts,
            },
            written.calls,
            flags=[
                *raised(
                    answer_breaks_rules=written.cut,
                    no_citations=not cited,
                    no_labels=reply.essential is None,
                ),
                *prompt.flags,
            ],
        ),
    }


def _faults(text: str, case: Case, settings: DirectSettings) -> list[str]:
    reply = read_direct_reply(text, case.sentence_ids)
    if reply.essential is not None and not reply.answer.sentences:
        return ["it has no answer after its line of ids"]
    faults = citation_faults(reply.answer, settings, count_citations=False)
    return [*(["it has no line of essential ids"] if reply.essential is None else []), *faults]


def _demonstration(case: Case) -> dict[str, str]:
    lines = [
        CitedSentence(one_line(line.text), tuple(line.citations or ()))
        for line in case.gold.answer_sentences or ()
    ]
    reply = f"Essential: {', '.join(essential_ids(case))}\n{write_citations(lines)}"
    return {**_variables(case, case.question), "reply": reply}


def _variables(case: Case, question: str) -> dict[str, str]:
    """Sentences in quotes, so that no text can look like the begin of another."""
    sentences = "\n".join(f"{one.id}: '{one_line(one.text)}'" for one in case.sentences)
    return case_variables(case, question) | {"sentences": sentences}


def _because(
    essential: Sequence[str], kept: Sequence[CitedSentence], written: WrittenText, prompt: Fitted
) -> str:
    because = (
        f"{plural(len(essential), 'sentence')} called essential and an answer of"
        f" {plural(len(kept), 'sentence')}, in one reply"
        f" with {plural(len(prompt.kept), 'demonstration')}"
    )
    if written.cut:
        return f"{because}; accepted with a flag: {'; '.join(written.faults[-1])}"
    return f"{because}, {written.course}" if written.course else because


def _made_up(call: DryCall) -> str:
    settings = call.recipe.section(DirectSettings)
    return "Essential: 1, 2, 3\n" + " |1|\n".join(
        made_up_sentences(settings.max_words, settings.max_sentences, settings.min_sentences)
    )


ANSWER_DIRECTLY = NodeSpec(
    run=answer_directly,
    sections=(DirectSettings,),
    tools=(POOL,),
    prompts=(
        Contract(
            name="answer_directly",
            required=CASE_VARIABLES,
            optional=frozenset({"max_words"}),
            demonstration=CASE_VARIABLES | {"reply"},
            correction=True,
        ),
    ),
    results={
        "evidence": whole,
        "answer": withheld,
        "answer_sentences": withheld,
        "alignment": withheld,
        "aligned_answer": whole,
    },
    facts={
        **CHOSEN_DEMONSTRATIONS,
        "essential": id_list("essential"),
        "links": LINKS,
        **plain("cited", "faults", "attempts", "unknown_ids"),
        **SHOWN_DEMONSTRATIONS,
    },
    flags={
        **BREAKS_RULES,
        **NO_CITATIONS,
        "no_labels": "the reply named no essential sentences, so those that it cites count as such",
        **DROPPED_DEMONSTRATIONS,
    },
    demonstrations=("the reply", "answer_directly"),
    dry_replies={CITED_TEXT: _made_up},
    corrected=CorrectedReply(
        CITED_TEXT,
        "answer_directly",
        lambda recipe: recipe.section(DirectSettings),
        lambda recipe: citation_faults(
            CitedAnswer(()), recipe.section(DirectSettings), count_citations=False
        ),
    ),
)
