"""What a model's refusals teach, and what is sent afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from serving.protocol.abilities import Abilities, Option, room_after, sent_options
from serving.protocol.errors import CallError
from serving.protocol.request import Constraint
from serving.protocol.thinking import Effort
from tests.serving.asks import as_sent

LADDER: tuple[Constraint, ...] = ("tool", "json_schema", "json_object", "none")
CALL = as_sent(
    {"type": "object"},
    samples=(0, 1),
    temperature=0.7,
    max_tokens=278,
    seed=1,
    constraint="json_schema",
    logprobs=True,
    effort="minimal",
)


def refusal(message: str) -> CallError:
    return CallError("internal", message)


@pytest.mark.parametrize(
    ("message", "option"),
    [
        (
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value"
            " is supported.",
            "temperature",
        ),
        ("`temperature` is deprecated for this model.", "temperature"),
        ("You are not allowed to request logprobs from this model", "logprobs"),
        ("Multiple candidates is not enabled for this model", "n"),
        ("Unsupported parameter: 'seed' is not supported with this model.", "seed"),
        ("Invalid response_format: json_schema is not supported", "json_schema"),
    ],
)
def test_the_part_that_a_refusal_names_is_left_out(message: str, option: Option) -> None:
    abilities = Abilities()
    assert abilities.learn(refusal(message), CALL)
    assert set(abilities.refused) == {option}
    call = abilities.shaped(replace(CALL, samples=(0,) if option == "n" else CALL.samples), LADDER)
    assert option in sent_options(CALL) and option not in sent_options(call)


@pytest.mark.parametrize(
    "message",
    [
        "Thinking may not be enabled when tool_choice forces tool use.",
        "Thinking mode does not support this tool_choice",
    ],
)
def test_a_forced_tool_that_thinking_excludes_gives_way_to_the_next_constraint(message: str) -> None:
    abilities = Abilities()
    call = replace(CALL, constraint="tool")
    assert abilities.learn(refusal(message), call)
    assert abilities.shaped(call, LADDER).constraint == "json_schema"


@pytest.mark.parametrize(
    ("efforts", "refused", "requested", "sent"),
    [
        ((), (), "low", "low"),
        ((), ("minimal",), "minimal", "off"),
        (("low", "medium", "high"), (), "max", "high"),
        (("low", "high", "max"), (), "medium", "low"),
        (("low", "medium", "high"), (), "off", "low"),
        (("minimal", "low"), ("minimal",), "off", "low"),
    ],
)
def test_a_refused_effort_gives_way_to_the_nearest_lower_one_or_the_lowest(
    efforts: tuple[Effort, ...], refused: tuple[Effort, ...], requested: Effort, sent: Effort
) -> None:
    abilities = Abilities(efforts={one: one for one in efforts}, refused_efforts=set(refused))
    assert abilities.level(requested) == sent


def test_an_effort_that_is_not_sent_is_reported_once() -> None:
    abilities = Abilities(efforts={"low": "low", "medium": "medium"})
    for _ in range(2):
        assert abilities.shaped(replace(CALL, effort="max"), LADDER).effort == "medium"
    assert abilities.unreported() == ["effort max not sent, but medium: this model takes low, medium"]
    assert abilities.unreported() == []


def test_what_was_refused_is_left_out_and_reported_with_its_reason() -> None:
    refused = Abilities(
        refused={"temperature": "fixed", "seed": "none", "logprobs": "none", "effort": "no levels"}
    )
    call = refused.shaped(replace(CALL, constraint="tool"), LADDER)
    assert (call.temperature, call.seed, call.logprobs, call.effort, call.effort_word) == (None,) * 2 + (
        False,
        None,
        "",
    )
    assert call.constraint == "tool"
    assert refused.unreported() == [
        "effort minimal not sent, but nothing: no levels",
        "temperature 0.7 not sent: fixed",
        "seed not sent: none",
    ]


def test_what_is_accepted_is_sent_in_the_words_of_the_service() -> None:
    abilities = Abilities(
        thinks=True, efforts={"off": "none", "minimal": "1024"}, refused={"json_schema": "no"}
    )
    call = abilities.shaped(CALL, LADDER)
    assert (call.temperature, call.seed, call.effort, call.effort_word) == (0.7, 1, "minimal", "1024")
    # Thinking excludes log-probabilities and a forced tool.
    assert (call.logprobs, call.constraint) == (False, "json_object")
    assert abilities.shaped(replace(CALL, constraint="tool"), LADDER).constraint == "json_object"
    off = abilities.shaped(replace(CALL, effort="off", constraint="tool"), LADDER)
    assert (off.logprobs, off.constraint, off.effort_word) == (True, "tool", "none")
    assert abilities.shaped(replace(CALL, constraint="grammar"), LADDER).constraint == "none"
    assert abilities.unreported() == []


def test_the_name_of_the_limit_is_learned_in_both_directions() -> None:
    abilities = Abilities()
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
        " instead."
    )
    assert abilities.learn(refusal(message), CALL)
    call = abilities.shaped(CALL, LADDER)
    assert call.limit_field == "max_completion_tokens"
    assert not abilities.learn(refusal("unrelated"), replace(call, effort=None))
    assert abilities.learn(refusal("unknown field: max_completion_tokens"), call)
    assert abilities.shaped(CALL, LADDER).limit_field == "max_tokens"


def test_a_request_that_lost_what_was_refused_can_be_sent_anew() -> None:
    abilities = Abilities()
    earlier = replace(CALL, effort=None)
    for message in (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'",
        "Unsupported value: 'temperature' does not support 0.5 with this model.",
        "max_tokens is too large: 9000. This model supports at most 8192 completion tokens",
    ):
        call = replace(abilities.shaped(earlier, LADDER), max_tokens=9000)
        assert not abilities.has_learned(refusal(message), call)
        assert abilities.learn(refusal(message), call)
        now = replace(abilities.shaped(earlier, LADDER), max_tokens=8192)
        assert abilities.has_learned(refusal(message), now)
        assert not abilities.learn(refusal(message), now)
    assert not abilities.has_learned(refusal("content policy"), now)


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens for this model",
        "max_tokens is too large: 9000. This model supports at most 8192 completion tokens",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    ],
)
def test_the_longest_reply_is_read_from_a_refusal(message: str) -> None:
    abilities = Abilities(thinks=True)
    assert abilities.learn(refusal(message), replace(CALL, max_tokens=9000))
    assert abilities.limit(278, None, None) == 8192


@pytest.mark.parametrize(
    ("thinks", "effort", "room", "wide", "limit"),
    [
        (False, None, None, False, 278),
        (True, None, None, False, 10_278),
        (True, "off", None, False, 278),
        (True, "low", None, False, 4_374),
        (True, "high", None, False, 16_278),
        (True, "max", None, False, 32_278),
        (True, None, 3_000, False, 3_000),
        (True, None, 100, False, 278),
        (False, None, None, True, 41_112),
    ],
)
def test_limits_have_room_for_thinking(
    thinks: bool, effort: Effort | None, room: int | None, wide: bool, limit: int
) -> None:
    assert Abilities(thinks=thinks).limit(278, effort, room, wide=wide) == limit


def test_the_room_is_read_from_a_context_that_is_exceeded() -> None:
    message = (
        "'max_tokens' or 'max_completion_tokens' is too large: 10278. This model's maximum context length is"
        " 8192 tokens and your request has 1200 input tokens"
    )
    assert room_after(CallError("context_length", message)) == 6992
    assert room_after(CallError("context_length", "too long")) is None
