from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import httpx
import httpx2
import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from serving.policy.policy import PolicyError
from serving.protocol.errors import CallError, classify, retry_after
from tests.serving.fake_server import CONTEXT_FULL, MODEL, FakeServer, HangUp, Refuse


async def raised_by_the_sdk(server: FakeServer, seconds: float = 5) -> CallError:
    model = ChatOpenAI(
        model=MODEL, base_url=server.url, api_key=SecretStr("EMPTY"), max_retries=0, timeout=seconds
    )
    with pytest.raises(openai.OpenAIError) as caught:
        await model.ainvoke("Hello")
    return classify(caught.value)


@pytest.mark.parametrize(
    ("act", "error_class", "retry_after"),
    [
        (Refuse(429, retry_after="7"), "rate_limit", 7.0),
        (Refuse(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), "rate_limit", 0.0),
        (Refuse(429), "rate_limit", None),
        (Refuse(500, "EngineDeadError"), "connection", None),
        (Refuse(503, retry_after="2"), "connection", 2.0),
        (Refuse(504), "timeout", None),
        (Refuse(408), "timeout", None),
        (CONTEXT_FULL, "context_length", None),
        (Refuse(400, "maximum context length is 10 tokens"), "context_length", None),
        (Refuse(413, "prompt too long"), "context_length", None),
        (
            Refuse(400, "request (9031 tokens) exceeds the available context size (8192 tokens)"),
            "context_length",
            None,
        ),
        (Refuse(400, "unknown field"), "internal", None),
        (Refuse(401, "wrong key"), "auth", None),
        (Refuse(404, "no such model"), "internal", None),
        (HangUp(), "connection", None),
    ],
)
async def test_errors_of_the_openai_client(
    server: FakeServer, act: Refuse | HangUp, error_class: str, retry_after: float | None
) -> None:
    server.plan(act)
    error = await raised_by_the_sdk(server)
    assert (error.error_class, error.retry_after) == (error_class, retry_after)
    assert "\n" not in str(error)
    if isinstance(act, Refuse):
        assert act.message in str(error)


def test_what_the_gate_refuses_is_found_in_what_clients_make_of_it() -> None:
    refused = PolicyError("policy 'ours', rule hosts: gpu02 may see no text")
    at_once = ExceptionGroup("connecting", [refused])
    wrapped = openai.APIConnectionError(request=httpx2.Request("POST", "http://gpu02"))
    wrapped.__cause__ = at_once
    for error in (refused, at_once, wrapped):
        made = classify(error)
        assert (str(made), made.error_class, made.retryable) == (str(refused), "internal", False)


class Foreign(Exception):
    """As other providers' clients raise them."""

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        self.__dict__.update(fields)


class ReadTimeoutException(Exception): ...


class RateLimitExceeded(Exception): ...


class ConnectionFailed(Exception): ...


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (Foreign("quota", code=429), "rate_limit"),
        (Foreign("overloaded", status_code=529), "rate_limit"),
        (Foreign("gone", code=503), "connection"),
        (Foreign("late", code=504), "timeout"),
        (Foreign("prompt is too long: 5000 tokens", status_code=400), "context_length"),
        (Foreign("the prompt exceeds max_model_len"), "context_length"),
        (Foreign("no key", status_code=403), "auth"),
        (Foreign("Your input was flagged: usage policy", status_code=403), "refusal"),
        (Foreign("Incorrect API key provided", status_code=400), "auth"),
        (Foreign("odd", code="not a number"), "internal"),
        (Foreign("odd", code=lambda: 5), "internal"),
        (ReadTimeoutException("slow"), "timeout"),
        (RateLimitExceeded("slow down"), "rate_limit"),
        (ConnectionFailed("no route"), "connection"),
        (ConnectionRefusedError("refused"), "connection"),
        (TimeoutError(), "timeout"),
        (httpx.ReadError("reset"), "connection"),
        (httpx.ConnectTimeout("slow"), "timeout"),
        (ValueError("nonsense"), "internal"),
    ],
)
def test_errors_of_other_clients(error: Exception, error_class: str) -> None:
    assert classify(error).error_class == error_class


def test_the_time_to_wait_is_read_from_any_response() -> None:
    headers = {"retry-after": "1.5"}
    error = Foreign("busy", status_code=429, response=SimpleNamespace(headers=headers))
    assert classify(error).retry_after == 1.5


@pytest.mark.parametrize("broken", ["", "soon", None, "inf", "nan", "-inf", "1e999", "Wed, 99 Oct"])
def test_a_time_to_wait_that_is_none_is_left_out(broken: object) -> None:
    error = Foreign("busy", status_code=429, response=SimpleNamespace(headers={"retry-after": broken}))
    assert classify(error).retry_after is None


def test_a_message_is_one_line_of_bounded_length() -> None:
    assert str(classify(ValueError("first\nsecond"))) == "ValueError: first"
    assert str(classify(ValueError(""))) == "ValueError: ValueError"
    assert len(str(classify(Foreign("x" * 10_000, status_code=500)))) == 500


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7.0), ("0.5", 0.5), (" 3 ", 3.0), ("-1", 0.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
def test_a_time_to_wait_is_a_number_of_seconds_never_below_zero(text: str, seconds: float) -> None:
    assert retry_after({"Retry-After": text}) == retry_after({"retry-after": text}) == seconds


def test_a_time_to_wait_may_be_a_date() -> None:
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    seconds = retry_after({"Retry-After": in_a_minute})
    assert seconds is not None and 0 < seconds <= 60
