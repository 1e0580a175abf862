"""What is read from each provider's replies by its real class."""

from __future__ import annotations

import json

import pytest

from tests.serving.hosted_models import answers, call, point_at
from tests.serving.hosted_server import (
    Body,
    HostedServer,
    Http,
    anthropic_message,
    anthropic_text,
    anthropic_tool,
    completion,
    function_call,
    google_reply,
)

TEXT = '{"word": "yes"}'


@pytest.fixture(autouse=True)
def reach(hosted: HostedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(hosted, monkeypatch)


@pytest.mark.parametrize(
    ("provider", "reply"),
    [
        ("anthropic", anthropic_tool({"word": "é"})),
        ("deepseek", completion(function_call('{"word": "é"}'), reason="tool_calls")),
    ],
)
async def test_the_input_of_a_forced_tool_is_the_reply(
    hosted: HostedServer, provider: str, reply: Http
) -> None:
    hosted.plan(reply)
    (answer,) = await answers(provider, call("tool"))
    assert answer.text == '{"word": "é"}'


async def test_words_beside_a_forced_tool_are_left_out(hosted: HostedServer) -> None:
    tool = {"type": "tool_use", "id": "toolu_1", "name": "word", "input": {"word": "yes"}}
    hosted.plan(anthropic_message({"type": "text", "text": "Sure."}, tool, stop_reason="tool_use"))
    (answer,) = await answers("anthropic", call("tool"))
    assert answer.text == TEXT


async def test_the_broken_input_of_a_tool_is_kept_as_it_is(hosted: HostedServer) -> None:
    hosted.plan(completion(function_call('{"word": "ye'), reason="length"))
    (answer,) = await answers("deepseek", call("tool"))
    assert (answer.text, answer.finish_reason) == ('{"word": "ye', "length")


async def test_thoughts_are_no_part_of_the_reply(hosted: HostedServer) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    hosted.plan(anthropic_message(thought, {"type": "text", "text": TEXT}))
    (answer,) = await answers("anthropic", call())
    assert answer.text == TEXT


BLOCKED_PROMPT = Http(
    200, {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 12}}
)


@pytest.mark.parametrize(
    ("provider", "reply", "reason"),
    [
        ("openai", completion({"content": "{"}, reason="length"), "length"),
        ("openai", completion({"content": "x"}, reason="content_filter"), "content_filter"),
        ("openai", completion({"refusal": "I cannot."}), "refusal"),
        ("openai", completion({"content": TEXT}), "stop"),
        ("anthropic", anthropic_text("{", "max_tokens"), "length"),
        ("anthropic", anthropic_text("{", "model_context_window_exceeded"), "length"),
        ("anthropic", anthropic_text("", "refusal"), "refusal"),
        ("anthropic", anthropic_text(TEXT), "end_turn"),
        ("google_genai", google_reply("{", reason="MAX_TOKENS"), "length"),
        ("google_genai", google_reply("", reason="SAFETY"), "content_filter"),
        ("google_genai", google_reply("", reason="SPII"), "content_filter"),
        ("google_genai", google_reply("", reason="RECITATION"), "content_filter"),
        ("google_genai", BLOCKED_PROMPT, "content_filter"),
        ("google_genai", google_reply(TEXT), "STOP"),
        ("deepseek", completion({"content": "x"}, reason="content_filter"), "content_filter"),
    ],
)
async def test_the_reason_of_an_end(hosted: HostedServer, provider: str, reply: Http, reason: str) -> None:
    hosted.plan(reply)
    (answer,) = await answers(provider, call())
    assert answer.finish_reason == reason


async def test_a_refusal_is_the_reply(hosted: HostedServer) -> None:
    hosted.plan(completion({"refusal": "I cannot."}, {"refusal": "No."}, {"content": TEXT}))
    found = await answers("openai", call(samples=3))
    assert [answer.finish_reason for answer in found] == ["refusal", "refusal", "stop"]
    assert found[0].text == "I cannot."


async def test_a_blocked_prompt_answers_all_samples(hosted: HostedServer) -> None:
    hosted.plan(BLOCKED_PROMPT)
    found = await answers("google_genai", call(samples=3))
    assert [answer.finish_reason for answer in found] == ["content_filter"] * 3


@pytest.mark.parametrize(
    ("provider", "reply"),
    [
        ("openai", completion({"content": TEXT}, usage={"prompt_tokens_details": {"cached_tokens": 8}})),
        ("deepseek", completion({"content": TEXT}, usage={"prompt_cache_hit_tokens": 8})),
        ("google_genai", google_reply(TEXT, cached=8)),
    ],
)
async def test_cached_tokens_are_a_part_of_those_read(
    hosted: HostedServer, provider: str, reply: Http
) -> None:
    hosted.plan(reply)
    (answer,) = await answers(provider, call())
    assert (answer.input_tokens, answer.output_tokens, answer.cached_tokens) == (12, 5, 8)


@pytest.mark.parametrize(
    ("provider", "reply"),
    [
        ("openai", completion({"content": "a"}, {"content": "b"})),
        ("google_genai", google_reply("a", "b")),
    ],
)
async def test_the_usage_of_a_request_is_shared_by_its_samples(
    hosted: HostedServer, provider: str, reply: Http
) -> None:
    hosted.plan(reply)
    found = await answers(provider, call(samples=2))
    assert [answer.text for answer in found] == ["a", "b"]
    assert [answer.input_tokens for answer in found] == [12, 0]
    assert [answer.output_tokens for answer in found] == [5, 5]


@pytest.mark.parametrize("provider", ["openai", "deepseek"])
async def test_log_probabilities_are_read(hosted: HostedServer, provider: str) -> None:
    top: Body = {"token": "no", "logprob": -1.5, "bytes": None}
    entry = {"token": "yes", "logprob": -0.25, "bytes": None, "top_logprobs": [top]}
    hosted.plan(completion({"content": "yes"}, logprobs={"content": [entry]}))
    (answer,) = await answers(provider, call(logprobs=True))
    assert [tuple(token) for token in answer.logprobs] == [("yes", -0.25, (("no", -1.5),))]


async def test_the_reply_of_a_schema_is_never_parsed_on_the_way(hosted: HostedServer) -> None:
    broken = '{"word": "ye'
    hosted.plan(completion({"content": broken}, reason="length"))
    (answer,) = await answers("openai", call("json_schema"))
    assert answer.text == broken
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.text)


async def test_a_reply_of_google_without_candidates_was_cut_off(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at(hosted, monkeypatch)
    hosted.plan(google_reply())
    (answer,) = await answers("google_genai", call())
    assert answer.is_unwritten and answer.output_tokens == call().max_tokens
