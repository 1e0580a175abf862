"""A text that is held to rules: the model writes it, and faults of it are quoted in the same conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict

from cases.texts import plural
from nodes.core.context import AskSettings, Context
from nodes.core.failure import NodeFailure
from serving.protocol.messages import Message
from serving.protocol.reply import ReplyFormat, free_text
from serving.protocol.request import CallRecord, Failure, Reply


class WritingSettings(AskSettings, Protocol):
    """Settings of a recipe's section for writing."""

    @property
    def corrections(self) -> int:
        """How often a text with faults goes back."""


class Attempt(TypedDict):
    """A text that was sent back, and why; `unsupported` if it kept its rules but the note does not say it."""

    text: str
    faults: list[str]
    unsupported: NotRequired[bool]


def rule_breaks(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The attempts that broke rules, which `corrections` counts."""
    return [one for one in attempts if not one.get("unsupported", False)]


class Rules(NamedTuple):
    """Rules of a text.

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

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "attempts": len(self.faults) + (not self.cut),
            "faults": self.faults,
            "words": len(self.text.split()),
        }

    @property
    def course(self) -> str:
        """How faults were handled, in words; empty where the first attempt had none."""
        if self.cut:
            return f"cut after {plural(len(self.faults) - 1, 'correction')}: {'; '.join(self.faults[-1])}"
        return f"after the fault was quoted: {'; '.join(self.faults[-1])}" if self.faults else ""


def correction_tokens(settings: WritingSettings) -> int:
    """Room for later turns: two replies for each correction, the rejected attempt and the quoted faults."""
    return 2 * settings.max_tokens * settings.corrections


async def write_attempt(
    context: Context,
    case_id: str,
    prompt: str,
    messages: tuple[Message, ...],
    reply: str,
    settings: AskSettings,
    rejected: Sequence[Attempt],
) -> Reply[str]:
    """Ask the `answer` model once, in a conversation that continues after each rejected attempt.

    Args:
        context: Of the case.
        case_id: Of the case.
        prompt: Name of the prompt, which has a correction turn.
        messages: The prompt in words.
        reply: Name of the reply's format.
        settings: Of the recipe.
        rejected: Earlier attempts.

    Raises:
        NodeFailure: The call failed.
    """
    for attempt in rejected:
        messages = context.corrected(prompt, messages, attempt["text"], attempt["faults"])
    # A text that was cut off is held to its rules like any other.
    free = ReplyFormat(name=reply, schema=None, parse=free_text, may_be_cut=True)
    outcome = await context.ask("answer", case_id, messages, free, settings)
    if isinstance(outcome, Failure):
        raise NodeFailure.of(outcome)
    return outcome


async def write_text(
    context: Context,
    case_id: str,
    prompt: str,
    messages: tuple[Message, ...],
    reply: str,
    settings: WritingSettings,
    rules: Rules,
    earlier: Sequence[Attempt] = (),
) -> WrittenText:
    """Ask until a text keeps its rules, and cut the last attempt.

    Args:
        context: Of the case.
        case_id: Of the case.
        prompt: Name of the prompt, which has a correction turn.
        messages: The prompt in words.
        reply: Name of the reply's format.
        settings: Of the recipe.
        rules: Rules that the text must keep.
        earlier: Attempts that were sent back before, which count for no correction.

    Raises:
        NodeFailure: A call failed; it has the calls of all attempts.
    """
    calls: list[CallRecord] = []
    rejected: list[Attempt] = []
    while True:
        try:
            outcome = await write_attempt(
                context, case_id, prompt, messages, reply, settings, [*earlier, *rejected]
            )
        except NodeFailure as failure:
            raise NodeFailure(failure.error_class, str(failure), [*calls, *failure.calls]) from None
        calls += outcome.calls
        text = rules.tidy(outcome.value)
        faults = rules.faults(text)
        quoted = [attempt["faults"] for attempt in rejected]
        if not faults:
            return WrittenText(text, quoted, False, calls)
        if len(rejected) == settings.corrections:
            return WrittenText(rules.cut(text), [*quoted, faults], True, calls)
        rejected.append(Attempt(text=outcome.value, faults=faults))
