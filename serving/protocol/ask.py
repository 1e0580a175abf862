"""A question to a model and its possible outcomes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from serving.protocol.errors import CallError
from serving.protocol.messages import Message, TokenLogprob
from serving.protocol.model_name import Role
from serving.protocol.reply import ReplyFormat
from serving.protocol.thinking import Effort

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """One question to a model, asked once or several times.

    Attributes:
        samples: The index of each wanted sample. Asking again for a known one replays it.
        max_tokens: Limit of one reply without the thinking before it.
        logprobs: Whether the log-probabilities of the reply's tokens are wanted.
    """

    role: Role
    case_id: str
    messages: tuple[Message, ...]
    reply: ReplyFormat[T]
    samples: tuple[int, ...] = (0,)
    temperature: float = 0.0
    max_tokens: int = 512
    seed: int = 0
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One stored call as the trace shows it; prompt and reply are in the journal under `key`.

    `estimated` is of its tokens, in the session that made the call: the server's counts could not be used.
    `thinking_tokens` are part of `output_tokens`, `effort` is as requested, and `widened` calls repeat one
    whose thinking used up its limit.
    `incomplete` replies were faulty after their correction, and a part of them was used.
    """

    key: str
    role: str
    sample: int
    model: str
    prompt: tuple[str, ...]
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    seconds: float
    retries: int
    replayed: bool
    fault: str | None = None
    server: str = ""
    estimated: bool = False
    thinking_tokens: int = 0
    effort: Effort | None = None
    widened: bool = False
    incomplete: bool = False

    def as_line(self) -> dict[str, Any]:
        """As the trace has it, without the fields from `estimated` on that have their defaults."""
        line = {name: getattr(self, name) for name in self.__slots__}
        for name in ("estimated", "thinking_tokens", "effort", "widened", "incomplete"):
            if not line[name]:
                del line[name]
        return line


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """A parsed reply, the text it was parsed from, and the calls that it took.

    Attributes:
        value: What was parsed.
        text: The text of the reply.
        calls: The calls it took, the correction turn included.
        fallback_fault: The fault of a reply that only the fallback parser could read.
        logprobs: The tokens of `text`; empty where they were not asked for or the provider gives none.
    """

    value: T
    text: str
    calls: tuple[CallRecord, ...]
    fallback_fault: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A sample that ended without a usable reply."""

    error: CallError
    calls: tuple[CallRecord, ...] = ()


@dataclass(slots=True)
class Usage:
    """What this session has used, replayed calls left out. A call is one sample of one prompt.

    `cost` is None where the user gave no prices. `estimated` calls are those whose server counts no tokens.
    `thinking_tokens` are part of `output_tokens`; `widened` calls repeat one whose thinking used up its
    limit.
    `retries` counts requests that were sent again, by the error class of the attempt before.
    """

    calls: int = 0
    replayed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    estimated: int = 0
    thinking_tokens: int = 0
    widened: int = 0
    retries: Counter[str] = field(default_factory=Counter)
