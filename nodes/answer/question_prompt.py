"""The prompt on a question and its snippets, with answered questions before it (Verma et al. 2025, figure 3).

Where it does not fit the context window, shots go first, the last drawn first, then snippets from the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cases.biomedical import QuestionType
from cases.records import Case
from cases.texts import hash_order, plural
from nodes.answer.exact_reply import ExactSettings
from nodes.core.context import Context, Tool
from nodes.core.facts import DROPPED_DEMONSTRATIONS, PLAIN, SHOWN_DEMONSTRATIONS, Fact
from nodes.core.failure import NodeFailure
from nodes.core.fitting import Fitted, fit_prompt, fit_sentences
from nodes.core.records import raised
from nodes.core.wording import one_line
from serving.protocol.messages import Message
from serving.protocol.model_name import Role

ANSWERED_QUESTIONS: Tool[Mapping[QuestionType, Sequence[Case]]] = Tool("answered_questions")
"""Answered questions that prompts may show, by type."""


def can_be_shown(case: Case) -> bool:
    """Whether a question has all parts of a shot: a type, snippets, an ideal answer and an exact one.

    A summary question has no exact answer and needs none.
    """
    asked, gold = case.biomedical, case.gold
    if asked is None or asked.type is None or not asked.snippets or not gold.ideal_answers:
        return False
    return asked.type == "summary" or bool(gold.exact_answer)


def choose_shots(
    shots: Iterable[Case], case: Case, count: int, seed: int, excluded: Collection[str]
) -> list[Case]:
    """Draw `count` of the shots for a question, or all of them where they are fewer.

    A draw depends on the seed and on ids alone, not on the order of a file, so that it is the same again.

    Args:
        shots: Of the question's type.
        case: The question; itself, and the same words under another id, are never drawn.
        count: How many.
        seed: Another one draws others.
        excluded: Ids that are never drawn.
    """
    own = _words(case)
    fitting = [one for one in shots if one.id != case.id and one.id not in excluded and _words(one) != own]
    return hash_order(fitting, lambda one: f"{seed}\n{case.id}\n{one.id}")[:count]


def _words(case: Case) -> str:
    return one_line(case.question).casefold()


_NO_SNIPPETS = "(none)"


@dataclass(frozen=True, slots=True)
class Within:
    """Snippets that are together no longer than a limit.

    Attributes:
        texts: In their order.
        left_out: How many were left out from the end.
        cut: Whether the first one alone was too long, and only its beginning is kept.
    """

    texts: list[str]
    left_out: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Wording:
    """How a node words a prompt.

    Attributes:
        prompt: Name of the prompt.
        role: Role of the model.
        own: Variables of the question itself, in addition to its text and its snippets.
        of_shot: The same of an answered question, with the answer.
        reply_tokens: Room that the reply itself needs.
        later_tokens: Room for later turns.
    """

    prompt: str
    role: Role
    own: dict[str, str]
    of_shot: Callable[[Case], dict[str, str]]
    reply_tokens: int
    later_tokens: int


@dataclass(frozen=True, slots=True)
class QuestionPrompt:
    """A prompt that fits.

    Attributes:
        messages: To be sent.
        shots: Ids of the answered questions that it shows.
        dropped_shots: Ids of those that the context window has no room for.
        missing_shots: How many fewer there are than the recipe asks for.
        shown_snippets: How many of the question's own.
        left_out_snippets: Left out by the recipe's limit of characters.
        dropped_snippets: Left out for lack of room in the context window.
        cut: Whether only the beginning of the first snippet is shown.
    """

    messages: tuple[Message, ...]
    shots: list[str]
    dropped_shots: list[str]
    missing_shots: int
    shown_snippets: int
    left_out_snippets: int
    dropped_snippets: int
    cut: bool

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "demonstrations": self.shots,
            "dropped_demonstrations": self.dropped_shots,
            "missing_shots": self.missing_shots,
            "shown_snippets": self.shown_snippets,
            "left_out_snippets": self.left_out_snippets,
            "dropped_snippets": self.dropped_snippets,
        }

    @property
    def sources(self) -> str:
        return f"{plural(self.shown_snippets, 'snippet')} and {plural(len(self.shots), 'shot')}"

    @property
    def flags(self) -> list[str]:
        return raised(
            few_shots=self.missing_shots,
            dropped_demonstrations=self.dropped_shots,
            left_out_snippets=self.left_out_snippets,
            dropped_snippets=self.dropped_snippets,
            cut_snippets=self.cut,
        )


async def question_prompt(
    context: Context, case: Case, type_: QuestionType, snippets: Sequence[str], wording: Wording
) -> QuestionPrompt:
    """Word the prompt and make it fit.

    Args:
        context: With the shots by type.
        case: The question.
        type_: Of the question; shots are of the same.
        snippets: Texts, the most useful first.
        wording: Of the node.

    Raises:
        NodeFailure: The question does not fit the context window with a single snippet.
    """
    settings = context.section(ExactSettings)
    drawn = choose_shots(
        (context.find(ANSWERED_QUESTIONS) or {}).get(type_, ()),
        case,
        settings.shots,
        context.settings.seed,
        context.settings.held_out,
    )
    shown = {shot.id: shot for shot in drawn}
    within = limit_snippets(snippets, settings.max_snippet_characters)

    def render(ids: Sequence[str], texts: Sequence[str]) -> tuple[Message, ...]:
        shots = [
            _variables(shown[id_], _snippets_of(shown[id_], settings.max_snippet_characters))
            | wording.of_shot(shown[id_])
            for id_ in ids
        ]
        return context.messages(wording.prompt, _variables(case, texts) | wording.own, shots)

    prompt, count = await _fitted(context, wording, list(shown), within.texts, render)
    return QuestionPrompt(
        messages=prompt.messages,
        shots=prompt.kept,
        dropped_shots=prompt.dropped,
        missing_shots=settings.shots - len(drawn),
        shown_snippets=count,
        left_out_snippets=within.left_out,
        dropped_snippets=len(within.texts) - count,
        cut=within.cut,
    )


async def _fitted(
    context: Context,
    wording: Wording,
    shots: list[str],
    texts: Sequence[str],
    render: Callable[[Sequence[str], Sequence[str]], tuple[Message, ...]],
) -> tuple[Fitted, int]:
    room = {"reply_tokens": wording.reply_tokens, "later_tokens": wording.later_tokens}
    try:
        fitted = await fit_prompt(
            context.client, wording.role, shots, lambda ids: (render(ids, texts), list(ids)), **room
        )
        return fitted, len(texts)
    except NodeFailure as failure:
        if failure.error_class != "context_length" or not texts:
            raise
    found = await fit_sentences(
        context.client,
        wording.role,
        [str(place) for place in range(len(texts))],
        lambda places: render((), texts[: len(places)]),
        what="snippet",
        **room,
    )
    return Fitted(found.messages, [], shots), len(found.shown)


def limit_snippets(snippets: Sequence[str], most: int) -> Within:
    """Keep snippets from the first on, as long as they have at most so many characters together."""
    texts: list[str] = []
    room = most
    for snippet in snippets:
        text = one_line(snippet)
        if len(text) > room:
            break
        texts.append(text)
        room -= len(text)
    if snippets and not texts:
        return Within([one_line(snippets[0])[:most]], len(snippets) - 1, cut=True)
    return Within(texts, len(snippets) - len(texts))


def _snippets_of(shot: Case, most: int) -> list[str]:
    given = shot.biomedical.snippets if shot.biomedical else ()
    return limit_snippets([one.text for one in given if one.text.strip()], most).texts


def _variables(case: Case, snippets: Sequence[str]) -> dict[str, str]:
    """Each snippet on one line, so that no text can look like a further one, or like the question."""
    lines = [f"- {text}" for text in snippets]
    return {"question": one_line(case.question), "snippets": "\n".join(lines) or _NO_SNIPPETS}


PASSAGE_VARIABLES = frozenset({"question", "snippets", "instruction"})
"""Variables of every prompt on a question and its snippets."""

QUESTION_PROMPT_FACTS: Mapping[str, Fact] = {
    **SHOWN_DEMONSTRATIONS,
    "missing_shots": PLAIN,
    "shown_snippets": PLAIN,
    "left_out_snippets": PLAIN,
    "dropped_snippets": PLAIN,
}
"""Facts of a node that fills such a prompt."""

QUESTION_PROMPT_FLAGS = {
    "few_shots": "there are fewer answered questions of this type to show than the recipe asks for",
    "left_out_snippets": "the last snippets are beyond the recipe's limit of characters and were left out",
    "dropped_snippets": "the last snippets were left out, as the prompt was too long",
    "cut_snippets": "only the beginning of the first snippet was shown, as it is beyond the recipe's limit",
    **DROPPED_DEMONSTRATIONS,
}
"""Flags of such a node."""
