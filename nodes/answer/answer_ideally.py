"""The answer in words (Verma et al. 2025, section 3.3); BioASQ calls it ideal."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime
from pydantic import Field

from cases.biomedical import QuestionType
from cases.records import Case
from cases.texts import plural
from nodes.answer.answer_exactly import first_synonyms
from nodes.answer.answer_rules import AnswerRules, find_faults, shorten
from nodes.answer.check_answer import BREAKS_RULES
from nodes.answer.exact_reply import Exact, ExactSettings, demand_type, exact_words
from nodes.answer.question_prompt import (
    ANSWERED_QUESTIONS,
    PASSAGE_VARIABLES,
    QUESTION_PROMPT_FACTS,
    QUESTION_PROMPT_FLAGS,
    QuestionPrompt,
    Wording,
    question_prompt,
)
from nodes.core.context import Context
from nodes.core.dry_run import CorrectedReply, DryCall, made_up_sentences
from nodes.core.facts import plain, withheld
from nodes.core.node import NodeSpec
from nodes.core.recipe import Recipe, RecipeSection
from nodes.core.records import Decision, decision, raised
from nodes.core.wording import one_line
from nodes.core.written_text import Attempt, Rules, WrittenText, correction_tokens, write_text
from nodes.retrieval.document_records import ChosenSnippet
from nodes.retrieval.document_settings import DocumentSettings
from prompts import Contract

IDEAL_REPLY = "ideal_answer"
"""Name of the reply's format."""


class IdealSettings(RecipeSection):
    """The answer in words.

    Attributes:
        max_words: BioASQ's 200.
        corrections: How often an answer that is too long is sent back before it is cut and flagged.
    """

    max_words: int = Field(200, ge=10)
    corrections: int = Field(1, ge=0, le=5)
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(400, ge=16)


class AnswerIdeallyInput(TypedDict):
    case_id: str
    snippets: list[ChosenSnippet]
    exact_answer: NotRequired[Exact]
    rejected_answers: NotRequired[list[Attempt]]


class AnswerIdeallyUpdate(TypedDict):
    answer: str
    decisions: list[Decision]


async def answer_ideally(state: AnswerIdeallyInput, runtime: Runtime[Context]) -> AnswerIdeallyUpdate:
    """Ask the `answer` model; an answer that breaks its rules goes back, then is cut and flagged."""
    context = runtime.context
    settings = context.section(IdealSettings)
    case = context.cases[state["case_id"]]
    type_ = demand_type(case)
    hint = _hint(context, type_, exact_words(state.get("exact_answer")))
    prompt = await question_prompt(
        context, case, type_, [one["text"] for one in state["snippets"]], _wording(context, type_, hint)
    )
    rules = Rules(
        one_line,
        lambda text: find_ideal_faults(text, settings.max_words),
        lambda text: shorten(text, _rules(text, settings.max_words)),
    )
    written = await write_text(
        context,
        case.id,
        "answer_ideally",
        prompt.messages,
        IDEAL_REPLY,
        settings,
        rules,
        state.get("rejected_answers", ()),
    )
    return {
        "answer": written.text,
        "decisions": decision(
            "answer_ideally",
            _because(written, prompt, hinted=bool(hint)),
            {
                "question_type": type_,
                "style": context.section(ExactSettings).style,
                "hinted": bool(hint),
                **written.facts,
                "most_words": settings.max_words,
                **prompt.facts,
            },
            written.calls,
            flags=[*raised(answer_breaks_rules=written.cut), *prompt.flags],
        ),
    }


def find_ideal_faults(text: str, max_words: int) -> list[str]:
    """Broken rules, in words that can be quoted to the model; sentences are not limited."""
    return find_faults(text, _rules(text, max_words))


def _rules(text: str, max_words: int) -> AnswerRules:
    most = max(1, len(text.split()))
    return AnswerRules(max_words=max_words, min_sentences=1, max_sentences=most)


def _wording(context: Context, type_: QuestionType, hint: str) -> Wording:
    settings = context.section(IdealSettings)
    words = {"max_words": str(settings.max_words)}
    instructions = context.section(ExactSettings).instructions
    same = {"instruction": context.prompts["answer_ideally"].text(f"ideal_{instructions}", words)}

    def of_shot(shot: Case) -> dict[str, str]:
        gold = shot.gold
        assert gold.ideal_answers
        entries = first_synonyms(gold.exact_answer, type_) if gold.exact_answer else []
        known = {"hint": _hint(context, type_, "; ".join(entries))}
        return same | known | {"answer": one_line(gold.ideal_answers[0])}

    return Wording(
        prompt="answer_ideally",
        role="answer",
        own=same | words | {"hint": hint},
        of_shot=of_shot,
        reply_tokens=settings.max_tokens,
        later_tokens=correction_tokens(settings),
    )


def _hint(context: Context, type_: QuestionType, answer: str) -> str:
    """Hint of query template 2, for all but summaries; empty without one."""
    if type_ == "summary" or not answer or not context.section(ExactSettings).hints:
        return ""
    return context.prompts["answer_ideally"].text("hint", {"short_answer": answer})


def _because(written: WrittenText, prompt: QuestionPrompt, *, hinted: bool) -> str:
    hint = "with the exact answer as a hint" if hinted else "without a hint"
    words = f"{plural(len(written.text.split()), 'word')} from {prompt.sources}, {hint}"
    return f"{words}; {written.course}" if written.course else words


def _made_up(call: DryCall) -> str:
    return " ".join(made_up_sentences(call.recipe.section(IdealSettings).max_words))


def _all_faults(recipe: Recipe) -> list[str]:
    most = recipe.section(IdealSettings).max_words
    return find_ideal_faults(f"It said {'so ' * most}again. And then", most)


ANSWER_IDEALLY = NodeSpec(
    run=answer_ideally,
    sections=(IdealSettings, ExactSettings),
    tools=(ANSWERED_QUESTIONS,),
    prompts=(
        Contract(
            name="answer_ideally",
            required=PASSAGE_VARIABLES | {"hint"},
            optional=frozenset({"max_words"}),
            demonstration=PASSAGE_VARIABLES | {"hint", "answer"},
            correction=True,
            texts={
                "ideal_1": frozenset({"max_words"}),
                "ideal_2": frozenset({"max_words"}),
                "hint": frozenset({"short_answer"}),
            },
        ),
    ),
    results={"answer": withheld},
    facts={
        **QUESTION_PROMPT_FACTS,
        **plain("question_type", "style", "hinted", "attempts", "faults", "words", "most_words"),
    },
    flags={**BREAKS_RULES, **QUESTION_PROMPT_FLAGS},
    dry_replies={IDEAL_REPLY: _made_up},
    corrected=CorrectedReply(
        IDEAL_REPLY, "answer_ideally", lambda recipe: recipe.section(IdealSettings), _all_faults
    ),
    is_off=lambda recipe: not recipe.section(DocumentSettings).answers,
)
