"""The question that a clinician would ask, read out of a patient's message (ArchEHR-QA 2026, subtask 1).

This node predicts the case's clinician question: neither its prompt nor its search for demonstrations may see
it.
"""

from __future__ import annotations

import re
from typing import Literal, NotRequired, TypedDict

from langgraph.runtime import Runtime
from pydantic import Field

from cases.records import Case
from cases.texts import plural
from nodes.core.context import Context
from nodes.core.dry_run import WORDS_SHARE, DryCall, as_sentence, made_up_words
from nodes.core.facts import (
    CHOSEN_DEMONSTRATIONS,
    DROPPED_DEMONSTRATIONS,
    SHOWN_DEMONSTRATIONS,
    plain,
    withheld,
)
from nodes.core.failure import NodeFailure
from nodes.core.fitting import Fitted
from nodes.core.node import NodeSpec
from nodes.core.recipe import RecipeSection
from nodes.core.records import Decision, decision, raised
from nodes.core.wording import one_line
from nodes.core.written_text import Rules, WrittenText, correction_tokens, write_text
from nodes.question.adopt_patient_question import NO_QUESTION
from nodes.retrieval.demonstration_search import POOL, choose, fit_demonstrations
from prompts import Contract

_LABEL = re.compile(r"(?:the )?(?:clinician(?:['\u2019]s)? )?question(?:\*\*)?:", re.IGNORECASE)
_AROUND = " \n\"'`*\u201c\u201d\u2018\u2019"


def bare_question(text: str) -> str:
    """A reply without quotation marks around it and without a label such as `Question:` before it."""
    bare = text.strip(_AROUND)
    label = _LABEL.match(bare)
    return bare[label.end() :].strip(_AROUND) if label else bare


def find_question_faults(question: str, max_words: int) -> list[str]:
    """Broken rules, in words that can be quoted to the model."""
    lines = [line for line in question.splitlines() if line.strip()]
    words = len(question.split())
    if not words:
        return ["it is empty"]
    faults = []
    if len(lines) > 1:
        faults.append(f"it has {plural(len(lines), 'line')} and must be one line")
    if words > max_words:
        faults.append(f"it has {plural(words, 'word')} and the limit is {max_words}")
    return faults


def cut_question(question: str, max_words: int) -> str:
    """One line of at most so many words: the first that asks, else the first one; empty if there is none.

    Models often announce a question on one line, and explain it on another.
    """
    lines = [bare for line in question.splitlines() if (bare := bare_question(line))]
    line = next((line for line in lines if line.endswith("?")), lines[0] if lines else "")
    words = line.split()
    if len(words) <= max_words:
        return " ".join(words)
    return " ".join(words[:max_words]).rstrip(",;:.") + "?"


QUESTION_REPLY = "question"
"""Name of the reply's format."""


class QuestionSettings(RecipeSection):
    """The clinician question that is read out of a patient's message (ArchEHR-QA 2026, subtask 1).

    Attributes:
        interpret: `missing` writes one for cases without a clinician question, where `never` uses the
            patient's own words. `always` writes one for every case; a case with its own question is still
            answered on that.
        max_words: Separated by white space, as the task counts them.
        demonstrations: Messages with their clinician questions that the prompt shows.
        corrections: How often a faulty question is sent back before it is cut and flagged.
    """

    interpret: Literal["never", "missing", "always"] = "never"
    max_words: int = Field(15, ge=1)
    demonstrations: int = Field(5, ge=0, le=50)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(64, ge=16)
    corrections: int = Field(1, ge=0, le=5)


class InterpretQuestionInput(TypedDict):
    case_id: str


class InterpretQuestionUpdate(TypedDict):
    """Without a patient's message, the question is absent.

    `patient_question` is the same question, if the case has no clinician question.
    """

    interpreted_question: NotRequired[str]
    patient_question: NotRequired[str]
    decisions: list[Decision]


async def interpret_question(
    state: InterpretQuestionInput, runtime: Runtime[Context]
) -> InterpretQuestionUpdate:
    """Ask the `answer` model; a question that breaks its rules goes back, then is cut and flagged."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    if not case.narrative.strip():
        because = "the case has no patient's message to read a question out of"
        if not context.settings.labels_evidence:
            raise NodeFailure("invalid_input", because)
        return {"decisions": decision("interpret_question", because, {"chosen": []}, flags=["no_narrative"])}
    settings = context.section(QuestionSettings)
    message = one_line(case.narrative)

    def fits(other: Case) -> bool:
        """Neither the same message under another id nor with another question."""
        theirs = one_line(other.narrative)
        return bool(other.question.strip()) and bool(theirs) and theirs.lower() != message.lower()

    found = await choose(
        context.find(POOL), case, context.settings, "evidence", message, settings.demonstrations, fits=fits
    )
    prompt = await fit_demonstrations(
        context,
        "interpret_question",
        {"narrative": message, "max_words": str(settings.max_words)},
        found.ids,
        _demonstration,
        reply_tokens=settings.max_tokens,
        later_tokens=correction_tokens(settings),
    )
    written = await _write(context, case, prompt)
    stands_in = not case.question.strip()
    update = InterpretQuestionUpdate(interpreted_question=written.text, decisions=[])
    if stands_in:
        update["patient_question"] = written.text
    update["decisions"] = decision(
        "interpret_question",
        _because(written, len(prompt.kept), stands_in),
        {
            **found.facts,
            **prompt.facts,
            **written.facts,
            "stands_in": stands_in,
        },
        written.calls,
        flags=[
            *raised(no_clinician_question=stands_in, question_breaks_rules=written.cut),
            *prompt.flags,
        ],
    )
    return update


async def _write(context: Context, case: Case, prompt: Fitted) -> WrittenText:
    """Attempts in one conversation.

    Raises:
        NodeFailure: A call failed, or nothing is left of the last attempt.
    """
    settings = context.section(QuestionSettings)
    rules = Rules(
        bare_question,
        lambda text: find_question_faults(text, settings.max_words),
        lambda text: cut_question(text, settings.max_words),
    )
    written = await write_text(
        context, case.id, "interpret_question", prompt.messages, QUESTION_REPLY, settings, rules
    )
    if not written.text:
        raise NodeFailure(
            "invalid_output", "the question is empty without its quotation marks", written.calls
        )
    return written


def _demonstration(case: Case) -> dict[str, str]:
    return {"narrative": one_line(case.narrative), "question": one_line(case.question)}


def _because(written: WrittenText, demonstrations: int, stands_in: bool) -> str:
    shown = plural(demonstrations, "demonstration")
    words = f"a question of {plural(len(written.text.split()), 'word')} with {shown}"
    if written.course:
        words += f", {written.course}"
    own = "it is asked, as the case has none" if stands_in else "the case is answered on its own question"
    return f"{words}; {own}"


def _made_up(call: DryCall) -> str:
    words = made_up_words(round(WORDS_SHARE * call.recipe.section(QuestionSettings).max_words))
    return f"{as_sentence(words).removesuffix('.')}?"


INTERPRET_QUESTION = NodeSpec(
    run=interpret_question,
    sections=(QuestionSettings,),
    tools=(POOL,),
    prompts=(
        Contract(
            name="interpret_question",
            required=frozenset({"narrative"}),
            optional=frozenset({"max_words"}),
            # This prompt predicts the case's own question: only demonstrations have one.
            demonstration=frozenset({"narrative", "question"}),
            correction=True,
        ),
    ),
    results={"interpreted_question": withheld},
    facts={
        **CHOSEN_DEMONSTRATIONS,
        **SHOWN_DEMONSTRATIONS,
        **plain("attempts", "faults", "words", "stands_in"),
    },
    flags={
        "no_narrative": "the case has no patient's message to interpret",
        "question_breaks_rules": "the interpreted question broke its rules and was cut",
        **NO_QUESTION,
        **DROPPED_DEMONSTRATIONS,
    },
    dry_replies={QUESTION_REPLY: _made_up},
    demonstrations=("the question", "interpret_question"),
    is_off=lambda recipe: recipe.section(QuestionSettings).interpret == "never",
)
