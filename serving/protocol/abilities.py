"""Parameters that a model accepts: stated by its provider, found by a probe, learned from rejections."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from serving.protocol.errors import CallError
from serving.protocol.request import AnyRequest, Constraint, LimitField
from serving.protocol.thinking import EFFORTS, HEADROOM, Effort, widened

Option = Literal[
    "temperature",
    "logprobs",
    "n",
    "seed",
    "effort",
    "grammar",
    "json_schema",
    "tool",
    "object_schema",
    "json_object",
]
"""Parts of a request that a model may refuse."""

FIXED_TEMPERATURE = "this model has a fixed one"

_NAMED: Mapping[Option, re.Pattern[str]] = {
    "tool": re.compile(r"tool"),
    "logprobs": re.compile(r"logprob"),
    "temperature": re.compile(r"temperature"),
    "seed": re.compile(r"\bseed\b"),
    "n": re.compile(r"candidate|['\"`]n['\"`]|\bn (must|should|is|has|>)|best_of|\bn=\d"),
    "effort": re.compile(r"effort|thinking|reasoning|budget|chat_template_kwargs|enable_thinking"),
    "grammar": re.compile(r"structured_outputs|grammar|response_format"),
    "json_schema": re.compile(r"response_?format|json_?schema|schema|structured|output_config|text.format"),
    "object_schema": re.compile(r"response_?format|json|schema"),
    "json_object": re.compile(r"response_?format|json_?object|json"),
}
"""Words by which an error message names a part of a request; the first match in this order is dropped."""

_MAX_OUTPUT = (
    re.compile(r"\d+ > (\d+), which is the maximum"),
    re.compile(r"supports at most (\d+)"),
    re.compile(r"\[1, ?(\d+)\]"),
    re.compile(r"from 1 \(inclusive\) to (\d+)"),
)
"""Messages with the largest limit that a model accepts."""

_UNSUPPORTED = re.compile(r"support|unknown|extra|unrecognized|instead")
_CONTEXT = re.compile(r"context length is (\d+) tokens.*?(\d+) (?:input|in the messages|tokens from|prompt)")
_LIMIT_TOO_LOW = "could not finish the message because max_tokens"
_REFUSALS = frozenset({"internal", "auth", "invalid_input"})
"""Error classes of requests that a server understood and refused."""

MAX_REFUSALS = 12
"""Requests after which a service that refuses one part after the other is taken to refuse all."""


@dataclass(slots=True)
class Abilities:
    """Known abilities of a model. All requests of a run share one object, updated by rejections.

    Attributes:
        thinks: Whether it is known to think; others may still do so.
        efforts: The provider's word for each effort that the model accepts; empty if unknown.
        limit_field: Which field holds the limit of a reply, for servers with OpenAI's protocol.
        max_output: Tokens of the longest reply, thinking included; None if that is not known.
        refused: Parts of requests that are left out, each with the reason.
        refused_efforts: Efforts that the service refused.
        not_sent: Sentences on values that were asked for and left out, in the order of their discovery.
    """

    thinks: bool = False
    efforts: Mapping[Effort, str] = field(default_factory=dict)
    limit_field: LimitField = "max_tokens"
    max_output: int | None = None
    refused: dict[Option, str] = field(default_factory=dict)
    refused_efforts: set[Effort] = field(default_factory=set)
    not_sent: dict[str, None] = field(default_factory=dict)
    _reported: int = 0

    def level(self, requested: Effort | None) -> Effort | None:
        """The accepted effort nearest below the requested one, else the lowest that is accepted."""
        if requested is None or "effort" in self.refused:
            return None
        accepted = [
            one
            for one in EFFORTS
            if one not in self.refused_efforts and (not self.efforts or one in self.efforts)
        ]
        lower = [one for one in accepted if EFFORTS.index(one) <= EFFORTS.index(requested)]
        return lower[-1] if lower else next(iter(accepted), None)

    def may_think(self, effort: Effort | None) -> bool:
        """Whether replies at this effort must be expected to begin with thinking."""
        return self.thinks and self.level(effort) != "off"

    def limit(self, visible: int, effort: Effort | None, room: int | None, *, wide: bool = False) -> int:
        """The limit to send for a reply of `visible` tokens.

        Args:
            visible: Tokens that the reply itself may have.
            effort: As requested.
            room: Tokens left in the context window, None if that is not known.
            wide: Whether thinking has used up the limit of a first request.
        """
        level = self.level(effort)
        if not wide and not self.may_think(effort):
            return visible
        limit = visible + HEADROOM[level]
        if wide:
            limit = widened(visible + HEADROOM[None if level == "off" else level])
        for bound in (self.max_output, room):
            if bound is not None:
                limit = max(visible, min(limit, bound))
        return limit

    def shaped(self, request: AnyRequest, constraints: Sequence[Constraint]) -> AnyRequest:
        """The request without what the model refuses; omitted values are noted in `not_sent`."""
        thinking = self.may_think(request.effort)
        level = self.level(request.effort)
        if request.effort is not None and level != request.effort:
            sent = "nothing" if level is None else level
            self.note(f"effort {request.effort} not sent, but {sent}: {self._why_effort()}")
        temperature = request.temperature
        if temperature is not None and "temperature" in self.refused:
            self.note(f"temperature {temperature:g} not sent: {self.refused['temperature']}")
            temperature = None
        if request.seed is not None and "seed" in self.refused:
            self.note(f"seed not sent: {self.refused['seed']}")
        constraint = request.constraint
        # A forced tool excludes thinking that was asked for; a default that thinks refuses it by itself.
        usable = {one for one in constraints if one not in self.refused}
        if level not in (None, "off"):
            usable.discard("tool")
        if constraint not in usable:
            below = constraints[constraints.index(constraint) + 1 :] if constraint in constraints else ()
            constraint = next((one for one in below if one in usable), "none")
        return replace(
            request,
            temperature=temperature,
            seed=None if "seed" in self.refused else request.seed,
            logprobs=request.logprobs and not thinking and "logprobs" not in self.refused,
            constraint=constraint,
            effort=level,
            effort_word="" if level is None else self.efforts.get(level, level),
            limit_field=self.limit_field,
        )

    def _why_effort(self) -> str:
        accepted = [one for one in self.efforts if one not in self.refused_efforts]
        if "effort" in self.refused:
            return self.refused["effort"]
        return f"this model takes {', '.join(accepted)}" if accepted else "the service refuses it"

    def note(self, sentence: str) -> None:
        self.not_sent.setdefault(sentence)

    def unreported(self) -> list[str]:
        """The sentences of `not_sent` since the last call."""
        new = list(self.not_sent)[self._reported :]
        self._reported = len(self.not_sent)
        return new

    def learn(self, error: CallError, request: AnyRequest) -> bool:
        """Learn from a rejection which parameters to leave out.

        Returns:
            Whether the same request, shaped anew, differs from the one that was refused.
        """
        if error.error_class not in _REFUSALS:
            return False
        words = str(error).lower()
        return self._learn_limit(words, request) or self._learn_option(words, request)

    def has_learned(self, refusal: CallError, request: AnyRequest) -> bool:
        """Whether a request no longer has the parameters that caused an earlier rejection."""
        if refusal.error_class not in _REFUSALS:
            return False
        words = str(refusal).lower()
        for pattern in _MAX_OUTPUT:
            if (found := pattern.search(words)) is not None:
                return self.max_output is not None and request.max_tokens <= int(found[1])
        if _refused_field(words) not in (None, request.limit_field):
            return True
        sent = sent_options(request)
        return any(
            option not in sent and pattern.search(words) is not None
            for option, pattern in _NAMED.items()
            if option in self.refused or (option == "effort" and self.refused_efforts)
        )

    def _learn_limit(self, words: str, request: AnyRequest) -> bool:
        for pattern in _MAX_OUTPUT:
            if (found := pattern.search(words)) is not None and int(found[1]) < request.max_tokens:
                self.max_output = int(found[1])
                return True
        if _refused_field(words) == request.limit_field:
            self.limit_field = (
                "max_completion_tokens" if request.limit_field == "max_tokens" else "max_tokens"
            )
            return True
        return False

    def _learn_option(self, words: str, request: AnyRequest) -> bool:
        sent = sent_options(request)
        for option, pattern in _NAMED.items():
            if option not in sent or pattern.search(words) is None:
                continue
            if option == "effort":
                assert request.effort is not None
                self.refused_efforts.add(request.effort)
            else:
                self.refuse(option)
            return True
        return False

    def refuse(self, option: Option) -> None:
        """Leave a part out of all further requests."""
        self.refused[option] = FIXED_TEMPERATURE if option == "temperature" else "the service refuses it"


def _refused_field(words: str) -> LimitField | None:
    """The field of the limit that a message refuses; one that it names after that is its advice."""
    if "too large" in words or _UNSUPPORTED.search(words) is None:
        return None
    fields: tuple[LimitField, ...] = ("max_tokens", "max_completion_tokens")
    return min((one for one in fields if one in words), key=words.index, default=None)


def sent_options(request: AnyRequest) -> frozenset[Option]:
    """The optional parts that a request contains."""
    sent: dict[Option, bool] = {
        "temperature": request.temperature is not None,
        "logprobs": request.logprobs,
        "n": len(request.samples) > 1,
        "seed": request.seed is not None,
        "effort": request.effort is not None,
    }
    if request.schema is not None and request.constraint != "none":
        sent[request.constraint] = True
    return frozenset(option for option, is_sent in sent.items() if is_sent)


def room_after(error: CallError) -> int | None:
    """Tokens left for a reply, read from a refusal of a limit that exceeds the context window."""
    found = _CONTEXT.search(str(error).lower().replace(",", ""))
    if found is None:
        return None
    return max(0, int(found[1]) - int(found[2]))


def is_limit_too_low(error: CallError) -> bool:
    """Whether a service rejected a request because thinking used up its limit (OpenAI, at low limits)."""
    return _LIMIT_TOO_LOW in str(error).lower()
