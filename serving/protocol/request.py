"""A request to a model, as a recipe wants it and as it is sent, and its possible outcomes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Literal, Self, TypeVar

from serving.protocol.errors import CallError
from serving.protocol.messages import Message, TokenLogprob
from serving.protocol.model_name import Role
from serving.protocol.reply import JsonSchema, ReplyFormat
from serving.protocol.thinking import Effort

T = TypeVar("T")

PROBE: Literal["probe"] = "probe"
"""The role of small requests without case text that probe a server's abilities."""

Constraint = Literal["grammar", "json_schema", "tool", "object_schema", "json_object", "none"]
"""How a reply is constrained to its schema, the strongest first; `none` leaves it to prompt and parser.

`object_schema` is JSON mode with the schema inside, which llama-cpp-python takes instead of `json_schema`.
"""

LimitField = Literal["max_tokens", "max_completion_tokens"]
"""OpenAI's two names for the limit of a reply; each is rejected by some servers."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """A prompt for the model of a role, of which one or several samples are wanted.

    A node makes it, and the client sets the fields from `model` on. The sent copy has the fields from
    `constraint` on and lacks parameters that the model does not accept; a call's key is from the original
    request.

    Attributes:
        samples: The index of each wanted sample. Asking again for a known one replays it.
        temperature: None for a model with a fixed one, in the copy that is sent.
        max_tokens: Limit of one reply without the thinking before it; in the copy that is sent, with it.
        seed: None for a model that takes none.
        logprobs: Whether the log-probabilities of the reply's tokens are wanted.
        model: Provider and name, without the address: answers stay valid when a server moves.
        revision: Known revision of the weights.
        effort: How much the model is to think; None leaves that to the provider.
        widened: Whether it repeats one whose thinking used up its limit.
        constraint: How the reply is constrained to its schema.
        effort_word: The provider's word for `effort`.
        limit_field: Field of the limit in OpenAI's protocol.
    """

    role: Role | Literal["probe"]
    case_id: str
    messages: tuple[Message, ...]
    reply: ReplyFormat[T]
    samples: tuple[int, ...] = (0,)
    temperature: float | None = 0.0
    max_tokens: int = 512
    seed: int | None = 0
    logprobs: bool = False
    model: str = ""
    revision: str = ""
    effort: Effort | None = None
    widened: bool = False
    constraint: Constraint = "none"
    effort_word: str = ""
    limit_field: LimitField = "max_tokens"

    @property
    def schema(self) -> JsonSchema | None:
        return self.reply.schema

    @property
    def choices(self) -> tuple[str, ...]:
        return self.reply.choices

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Parameters that shape a reply besides model, prompt and sample, as stored in the journal."""
        parameters: dict[str, Any] = {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "schema": self.schema,
        }
        if self.seed is not None:
            parameters["seed"] = self.seed
        if self.logprobs:
            parameters["logprobs"] = True
        if self.choices:
            parameters["choices"] = list(self.choices)
        if self.effort is not None:
            parameters["effort"] = self.effort
        if self.widened:
            parameters["widened"] = True
        return parameters

    def key(self, sample: int) -> str:
        """The journal's name of a call: SHA-256 over all that shapes its reply."""
        return self._keys[sample]

    @cached_property
    def _keys(self) -> dict[int, str]:
        turns = [[message.role, message.text] for message in self.messages]
        fields = [self.model, self.revision, turns, self.parameters]
        return {
            sample: hashlib.sha256(json.dumps([*fields, sample], sort_keys=True).encode()).hexdigest()
            for sample in self.samples
        }

    def part(self, samples: tuple[int, ...]) -> Self:
        """The same request for some of its samples; their keys are not computed anew."""
        if samples == self.samples:
            return self
        part = replace(self, samples=samples)
        part.__dict__["_keys"] = self._keys
        return part

    @property
    def max_reply_tokens(self) -> int:
        return self.max_tokens * len(self.samples)

    @property
    def is_plain(self) -> bool:
        """Whether it has no parameter that some models do not offer."""
        constrained = self.schema is not None and self.constraint != "none"
        several = len(self.samples) > 1
        return not (constrained or several or self.logprobs or self.choices or self.seed is not None)


AnyRequest = Request[Any]


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
        value: The parsed reply.
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
    """Usage of this session, without replayed calls. A call is one sample of one prompt.

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
