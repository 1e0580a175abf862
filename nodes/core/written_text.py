"""A text that is held to rules: the model writes it, and faults of it are quoted in the same conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from nodes.core.context import AskSettings, Context
from nodes.core.failure import NodeFailure
from serving.protocol.ask import Ask, CallRecord, Failure
from serving.protocol.messages import Message
from serving.protocol.reply import ReplyFormat


class WritingSettings(AskSettings, Protocol):
    """What of a recipe's section counts here."""

    @property
    def corrections(self) -> int:
        """How often a text with faults goes back."""


class Rules(NamedTuple):
    """What a text is held to.

    Attributes:
        tidy: A reply to the text that is meant.
        faults: Of a text, in words that can be quoted to the model.
        cut: Makes a text of the last attempt that keeps the rules; nothing may be left.
    """

    tidy: Callable[[str], str]
    faults: Callable[[str], list[str]]
    cut: Callable[[str], str]


class WrittenText(NamedTuple):
    """A text, the faults of each attempt before it was accepted or cut, and the calls that it took."""

    text: str
    faults: list[list[str]]
    cut: bool
    calls: list[CallRecord]


async def write_text(
    context: Context,
    case_id: str,
    prompt: str,
    messages: tuple[Message, ...],
    reply: ReplyFormat[str],
    settings: WritingSettings,
    rules: Rules,
) -> WrittenText:
    """Ask the `answer` model until a text keeps its rules, and cut the last attempt.

    Args:
        context: Of the case.
        case_id: Of the case.
        prompt: Name of the prompt, which has a correction turn.
        messages: The prompt in words.
        reply: In free text.
        settings: Of the recipe.
        rules: That the text is held to.

    Raises:
        NodeFailure: A call failed.
    """
    calls: list[CallRecord] = []
    rejected: list[list[str]] = []
    while True:
        ask = Ask(
            role="answer",
            case_id=case_id,
            messages=messages,
            reply=reply,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=context.settings.seed,
        )
        (outcome,) = await context.client.ask(ask)
        calls += outcome.calls
        if isinstance(outcome, Failure):
            raise NodeFailure(outcome.error.error_class, str(outcome.error), calls)
        text = rules.tidy(outcome.value)
        faults = rules.faults(text)
        if not faults:
            return WrittenText(text, rejected, False, calls)
        rejected.append(faults)
        if len(rejected) > settings.corrections:
            return WrittenText(rules.cut(text), rejected, True, calls)
        messages = context.corrected(prompt, messages, outcome.value, faults)
