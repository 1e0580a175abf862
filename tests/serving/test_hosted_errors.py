"""Handling of each provider's rejections, as raised by its real class."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from serving.backends.backend import exchange
from serving.protocol.errors import CallError
from tests.serving.hosted_models import MODELS, Connected, answers, call, point_at
from tests.serving.hosted_server import (
    Body,
    HostedServer,
    Http,
    anthropic_error,
    anthropic_text,
    google_error,
    openai_error,
)

RETRY_INFO: Body = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}
TOO_MANY_TOKENS = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."


@pytest.fixture(autouse=True)
def reach(hosted: HostedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(hosted, monkeypatch)


async def failure(provider: str) -> CallError:
    with pytest.raises(CallError) as caught:
        await answers(provider, call())
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("provider", ["openai", "deepseek"])
@pytest.mark.parametrize(
    ("refusal", "error_class"),
    [
        (openai_error(401, "Incorrect API key provided"), "auth"),
        (openai_error(403, "Country, region, or territory not supported"), "auth"),
        (openai_error(404, "The model does not exist", "model_not_found"), "internal"),
        (openai_error(429, "Rate limit reached"), "rate_limit"),
        (openai_error(500, "The server had an error"), "connection"),
        (openai_error(503, "Overloaded"), "connection"),
        (openai_error(400, "maximum context length is 8192 tokens"), "context_length"),
        (openai_error(400, "Filtered", "content_filter"), "refusal"),
        (openai_error(400, "Content Exists Risk"), "refusal"),
        (openai_error(400, "flagged as potentially violating our usage policy"), "refusal"),
        (openai_error(400, "Unsupported value: 'temperature'"), "internal"),
    ],
)
async def test_errors_of_openais_protocol(
    hosted: HostedServer, provider: str, refusal: Http, error_class: str
) -> None:
    hosted.plan(refusal)
    assert (await failure(provider)).error_class == error_class


@pytest.mark.parametrize(
    ("refusal", "error_class"),
    [
        (anthropic_error(401, "invalid x-api-key", "authentication_error"), "auth"),
        (anthropic_error(404, "model: claude-0", "not_found_error"), "internal"),
        (anthropic_error(429, "This request would exceed your limit", "rate_limit_error"), "rate_limit"),
        (anthropic_error(500, "Internal server error", "api_error"), "connection"),
        (anthropic_error(529, "Overloaded", "overloaded_error"), "rate_limit"),
        (anthropic_error(400, "prompt is too long: 210000 tokens > 200000 maximum"), "context_length"),
        (
            anthropic_error(
                400, "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000"
            ),
            "context_length",
        ),
        (anthropic_error(400, "Output blocked by content filtering policy"), "refusal"),
        (anthropic_error(400, "output_config: unexpected field"), "internal"),
    ],
)
async def test_errors_of_anthropic(hosted: HostedServer, refusal: Http, error_class: str) -> None:
    hosted.plan(refusal)
    assert (await failure("anthropic")).error_class == error_class


@pytest.mark.parametrize(
    ("refusal", "error_class"),
    [
        (google_error(400, "API key not valid. Please pass a valid API key."), "auth"),
        (google_error(403, "Permission denied", name="PERMISSION_DENIED"), "auth"),
        (google_error(404, "models/g is not found", name="NOT_FOUND"), "internal"),
        (google_error(429, "Quota exceeded", name="RESOURCE_EXHAUSTED"), "rate_limit"),
        (google_error(500, "Internal", name="INTERNAL"), "connection"),
        (google_error(503, "The model is overloaded", name="UNAVAILABLE"), "connection"),
        (google_error(504, "Deadline expired", name="DEADLINE_EXCEEDED"), "timeout"),
        (google_error(400, TOO_MANY_TOKENS), "context_length"),
        (google_error(408, "Too slow"), "timeout"),
    ],
)
async def test_errors_of_google(hosted: HostedServer, refusal: Http, error_class: str) -> None:
    hosted.plan(refusal)
    assert (await failure("google_genai")).error_class == error_class


@pytest.mark.parametrize(
    ("provider", "refusal"),
    [
        ("openai", openai_error(429, "slow down", **{"Retry-After": "7.5"})),
        ("deepseek", openai_error(429, "slow down", **{"Retry-After": "7.5"})),
        ("anthropic", anthropic_error(429, "slow down", **{"Retry-After": "7.5"})),
        ("anthropic", anthropic_error(529, "Overloaded", **{"Retry-After": "7.5"})),
        ("google_genai", google_error(429, "slow down", RETRY_INFO)),
    ],
)
async def test_the_time_to_wait_is_read(hosted: HostedServer, provider: str, refusal: Http) -> None:
    hosted.plan(refusal)
    error = await failure(provider)
    assert (error.error_class, error.retry_after) == ("rate_limit", 7.5)


KEYS = {name: f"{name.removesuffix('_genai').upper()}_API_KEY" for name in MODELS}
REFUSALS: dict[str, Callable[..., Http]] = {
    "openai": openai_error,
    "anthropic": anthropic_error,
    "google_genai": google_error,
    "deepseek": openai_error,
}


@pytest.mark.parametrize("provider", MODELS)
async def test_a_refused_key_names_its_variable(hosted: HostedServer, provider: str) -> None:
    hosted.plan(REFUSALS[provider](401, "no such key"))
    assert f"{provider}: access denied, check {KEYS[provider]}: " in str(await failure(provider))


@pytest.mark.parametrize("provider", MODELS)
async def test_a_403_to_an_optional_parameter_says_nothing_of_the_key(
    hosted: HostedServer, provider: str
) -> None:
    message = "You are not allowed to request logprobs from this model"
    hosted.plan(*[REFUSALS[provider](403, message)] * 2)
    plain = await failure(provider)
    with pytest.raises(CallError) as caught:
        await answers(provider, call("tool" if provider == "deepseek" else "json_schema"))
    assert (plain.error_class, plain.status) == ("auth", 403)
    assert (caught.value.error_class, caught.value.status) == ("internal", 403)
    assert "API_KEY" not in str(caught.value) and message in str(caught.value)


@pytest.mark.parametrize("provider", MODELS)
async def test_a_404_names_the_address_that_was_tried(hosted: HostedServer, provider: str) -> None:
    hosted.plan(REFUSALS[provider](404, "not here"))
    error = await failure(provider)
    assert error.status == 404
    assert f"(tried {hosted.url}{hosted.paths[-1].partition('?')[0]}" in str(error)


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_no_class_tries_again_by_itself(hosted: HostedServer, provider: str, status: int) -> None:
    hosted.default = openai_error(status, "no")
    await failure(provider)
    assert len(hosted.received) == 1


@pytest.mark.parametrize("provider", MODELS)
async def test_our_time_limit_ends_the_exchange(hosted: HostedServer, provider: str) -> None:
    hosted.default = _slow
    async with Connected(provider) as backend:
        with pytest.raises(CallError) as caught:
            await exchange(backend.servers[0], call(), limit_s=0.5, retries=0)
    assert caught.value.error_class == "timeout"
    assert "0.5 s" in str(caught.value)


def _slow(_: Body) -> Http:
    time.sleep(1.5)
    return anthropic_text("late")
