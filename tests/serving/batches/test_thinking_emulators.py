"""The emulated services refuse, think and count as the services do whose models think."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from tests.serving.batches.emulator import emulator
from tests.serving.batches.emulators.replies import words
from tests.serving.batches.emulators.thinking import MOST_TOKENS, thought, within

TURNS = [{"role": "user", "content": "Why was the drain placed?"}]
CHAT = "/v1/chat/completions"
PATHS = {
    "openai": CHAT,
    "deepseek": CHAT,
    "vllm": CHAT,
    "anthropic": "/v1/messages",
    "google_genai": "/v1beta/models/{model}:generateContent",
}
HEADERS = {
    "Authorization": "Bearer a-key",
    "x-api-key": "a-key",
    "x-goog-api-key": "a-key",
    "anthropic-version": "2023-06-01",
}
TOOL = {"type": "function", "function": {"name": "word", "parameters": {"enum": ["a"]}}}
CLAUDE_TOOL = {"name": "word", "input_schema": {"type": "object"}}


async def asked(provider: str, model: str, body: dict[str, Any], **settings: Any) -> tuple[int, Any]:
    """Status and body of the answer to a request."""
    one = emulator(provider)
    for name, value in settings.items():
        setattr(one, name, value)
    whole = {"contents": [{"role": "user", "parts": [{"text": TURNS[0]["content"]}]}], **body}
    if provider != "google_genai":
        whole = {"model": model, "messages": TURNS, **body}
    async with one.serving(), aiohttp.ClientSession(headers=HEADERS) as session:
        path = PATHS[provider].format(model=model)
        async with session.post(f"{one.url}{path}", json=whole) as answer:
            return answer.status, await answer.json()


REFUSED = [
    ("openai", "gpt-5-mini", {"max_tokens": 9}, 400, "Unsupported parameter: 'max_tokens'"),
    ("openai", "gpt-5-mini", {"temperature": 0}, 400, "'temperature' does not support 0 with this model."),
    ("openai", "gpt-5-mini", {"logprobs": True}, 403, "You are not allowed to request logprobs"),
    ("openai", "gpt-5-mini", {"max_completion_tokens": 1}, 400, "Could not finish the message"),
    (
        "openai",
        "gpt-5-mini",
        {"reasoning_effort": "none"},
        400,
        "'none' is not supported with the 'gpt-5-mini'",
    ),
    ("openai", "gpt-5.1", {"reasoning_effort": "minimal"}, 400, "not supported with the 'gpt-5.1' model"),
    (
        "openai",
        "gpt-5.1",
        {"reasoning_effort": "low", "temperature": 0},
        400,
        "'temperature' does not support",
    ),
    ("openai", "gpt-5.1", {"temperature": 0}, 200, ""),
    (
        "anthropic",
        "claude-sonnet-5",
        {"max_tokens": 9, "temperature": 0.5},
        400,
        "`temperature` is deprecated",
    ),
    (
        "anthropic",
        "claude-sonnet-5",
        {"max_tokens": 128_001},
        400,
        "max_tokens: 128001 > 128000, which is the",
    ),
    (
        "anthropic",
        "claude-sonnet-5",
        {"max_tokens": 9_000, "thinking": {"type": "enabled", "budget_tokens": 2_000}},
        400,
        '"thinking.type.enabled" is not supported for this model',
    ),
    (
        "anthropic",
        "claude-opus-5-5",
        {"max_tokens": 9, "thinking": {"type": "disabled"}},
        400,
        '"thinking.type.disabled" is not supported',
    ),
    (
        "anthropic",
        "claude-sonnet-5",
        {
            "max_tokens": 9,
            "thinking": {"type": "adaptive"},
            "tools": [CLAUDE_TOOL],
            "tool_choice": {"type": "tool", "name": "word"},
        },
        400,
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    (
        "google_genai",
        "gemini-3.5-flash",
        {"generationConfig": {"candidateCount": 2}},
        400,
        "Multiple candidates",
    ),
    (
        "google_genai",
        "gemini-2.5-pro",
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}},
        400,
        "Budget 0 is invalid. This model only works in thinking mode.",
    ),
    (
        "deepseek",
        "deepseek-v4-pro",
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "word"}}},
        400,
        "Thinking mode does not support this tool_choice",
    ),
    ("deepseek", "deepseek-v4-pro", {"temperature": 0.3}, 200, ""),
    ("vllm", "thinker", {"thinking_token_budget": 9}, 400, "reasoning_config"),
]


@pytest.mark.parametrize(("provider", "model", "body", "status", "message"), REFUSED)
async def test_what_a_model_that_thinks_refuses(
    provider: str, model: str, body: dict[str, Any], status: int, message: str
) -> None:
    found, answer = await asked(provider, model, body)
    assert found == status
    assert status == 200 or message in answer["error"]["message"]


def of_openai(answer: Any) -> tuple[str | None, str, int, int]:
    """Text, reason of its end, thinking, and all tokens that were written."""
    (choice,), usage = answer["choices"], answer["usage"]
    thinking = usage.get("completion_tokens_details", {}).get("reasoning_tokens", 0)
    return choice["message"]["content"], choice["finish_reason"], thinking, usage["completion_tokens"]


def of_anthropic(answer: Any) -> tuple[str | None, str, int, int]:
    """As `of_openai`."""
    text = "".join(block.get("text", "") for block in answer["content"])
    usage = answer["usage"]
    thinking = usage["output_tokens_details"]["thinking_tokens"]
    return text, answer["stop_reason"], thinking, usage["output_tokens"]


def of_google(answer: Any) -> tuple[str | None, str, int, int]:
    """As `of_openai`; Google counts thoughts apart."""
    usage = answer["usageMetadata"]
    (candidate,) = answer["candidates"] or [{"content": {}, "finishReason": "MAX_TOKENS"}]
    text = "".join(part["text"] for part in candidate["content"].get("parts", ()))
    thinking = usage.get("thoughtsTokenCount", 0)
    return text, candidate["finishReason"], thinking, thinking + usage["candidatesTokenCount"]


LIMITS: list[tuple[str, str, Any, Any, str]] = [
    ("openai", "gpt-5-mini", lambda limit: {"max_completion_tokens": limit}, of_openai, "length"),
    ("anthropic", "claude-sonnet-5", lambda limit: {"max_tokens": limit}, of_anthropic, "max_tokens"),
    (
        "google_genai",
        "gemini-2.5-pro",
        lambda limit: {"generationConfig": {"maxOutputTokens": limit}},
        of_google,
        "MAX_TOKENS",
    ),
    ("deepseek", "deepseek-v4-pro", lambda limit: {"max_tokens": limit}, of_openai, "length"),
    ("vllm", "thinker", lambda limit: {"max_tokens": limit}, of_openai, "length"),
]


@pytest.mark.parametrize(("provider", "model", "limited", "read", "cut"), LIMITS)
async def test_the_limit_counts_thinking_and_a_reply_that_is_cut_has_no_text(
    provider: str, model: str, limited: Any, read: Any, cut: str
) -> None:
    ends = set()
    for limit in (40, 45, 60_000, 60_001):
        status, answer = await asked(provider, model, limited(limit))
        text, reason, thinking, written = read(answer)
        assert status == 200 and written <= limit and written == thinking + words(text or "")
        assert (await asked(provider, model, limited(limit)))[1] == answer
        if reason == cut and thinking == limit:
            assert not text
            ends.add("cut")
        elif limit > MOST_TOKENS:
            assert text and reason != cut
            ends.add("whole")
    assert ends == {"cut", "whole"}


@pytest.mark.parametrize("opens", [True, False])
async def test_without_a_parser_thinking_is_in_the_text_and_a_schema_prevents_it(opens: bool) -> None:
    settings = {"parser": False, "opens": opens}
    texts = [
        (await asked("vllm", "thinker", {"max_tokens": limit}, **settings))[1]["choices"][0]["message"][
            "content"
        ]
        for limit in range(60_000, 60_004)
    ]
    assert any("hm</think>" in text for text in texts)
    assert any(text.startswith("<think>") for text in texts) == opens
    schema = {"type": "json_schema", "json_schema": {"name": "word", "schema": {"enum": ["a"]}}}
    _, bound = await asked("vllm", "thinker", {"max_tokens": 40, "response_format": schema}, **settings)
    assert bound["choices"][0]["message"]["content"] == '"a"'


def test_thinking_is_of_any_length_and_sometimes_of_none() -> None:
    lengths = [thought({"request": number}, 0) for number in range(200)]
    assert 0 in lengths and max(lengths) <= MOST_TOKENS
    assert len(set(lengths)) > 150 and max(lengths) > 0.9 * MOST_TOKENS
    assert within(10, "a b c", 8).text == "a b"
