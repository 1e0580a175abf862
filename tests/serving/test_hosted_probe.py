"""What the probe finds out of each provider, whose service takes or refuses, obeys or ignores."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

import pytest

from serving.protocol.errors import ModelError
from serving.requests.probe import Findings, probe
from tests.serving.hosted_models import Connected, point_at
from tests.serving.hosted_server import (
    Body,
    HostedServer,
    Http,
    anthropic_error,
    anthropic_text,
    anthropic_tool,
    completion,
    function_call,
    google_error,
    google_reply,
    openai_error,
)

IGNORED = '{"word": "banana"}'
"""The probe's prompt asks for this, so it is what a model says that is held to nothing."""


@pytest.fixture(autouse=True)
def reach(hosted: HostedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(hosted, monkeypatch)


async def found(provider: str) -> Findings:
    async with Connected(provider) as backend:
        return (await probe(backend))[1]


def obedient(schema: Body) -> Body:
    return {"word": schema["properties"]["word"]["enum"][0]}


def asked(body: Body) -> tuple[str, Body]:
    """How a request holds its reply to a schema, in our words, and the schema."""
    if "tools" in body:
        tool = body["tools"][0]
        return "tool", tool.get("input_schema") or tool["function"]["parameters"]
    if "output_config" in body:
        return "json_schema", body["output_config"]["format"]["schema"]
    if "response_format" in body:
        form = body["response_format"]
        return form["type"], form.get("json_schema", {}).get("schema", {})
    config = body.get("generationConfig", {})
    if "responseJsonSchema" in config:
        return "json_schema", config["responseJsonSchema"]
    return ("json_object" if "responseMimeType" in config else "none"), {}


REFUSALS: dict[str, Callable[[int, str], Http]] = {
    "openai": openai_error,
    "anthropic": anthropic_error,
    "google_genai": google_error,
    "deepseek": openai_error,
}


def service(provider: str, *, takes: Collection[str], obeys: Collection[str]) -> Callable[[Body], Http]:
    """Answers 400 to what it does not take, and follows only the schemas that it obeys."""

    def answer(body: Body) -> Http:
        form, schema = asked(body)
        if form not in takes:
            return REFUSALS[provider](400, f"{form} is not supported")
        text = json.dumps(obedient(schema)) if form in obeys and schema else IGNORED
        return said(provider, body, form, text)

    return answer


def said(provider: str, body: Body, form: str, text: str) -> Http:
    if provider == "anthropic":
        return anthropic_tool(json.loads(text)) if form == "tool" else anthropic_text(text)
    if provider == "google_genai":
        return google_reply(*[text] * body["generationConfig"].get("candidateCount", 1))
    message = function_call(text) if form == "tool" else {"content": text}
    return completion(*[message] * body.get("n", 1))


LADDERS = {
    "openai": ("json_schema", "json_object", "none"),
    "anthropic": ("json_schema", "tool", "none"),
    "google_genai": ("json_schema", "json_object", "none"),
    "deepseek": ("tool", "json_object", "none"),
}
RUNGS = [(provider, rung) for provider, ladder in LADDERS.items() for rung in ladder]


@pytest.mark.parametrize(("provider", "rung"), RUNGS)
async def test_the_best_form_that_is_taken_is_used(hosted: HostedServer, provider: str, rung: str) -> None:
    ladder = LADDERS[provider]
    takes = ladder[ladder.index(rung) :]
    hosted.default = service(provider, takes=takes, obeys=takes)
    assert (await found(provider)).constraint == rung


@pytest.mark.parametrize(
    ("provider", "rung"),
    [
        ("openai", "json_object"),
        ("anthropic", "tool"),
        ("google_genai", "json_object"),
        ("deepseek", "json_object"),
    ],
)
async def test_a_form_that_is_taken_and_ignored_is_not_used(
    hosted: HostedServer, provider: str, rung: str
) -> None:
    ladder = LADDERS[provider]
    hosted.default = service(provider, takes=ladder, obeys=ladder[1:])
    assert (await found(provider)).constraint == rung


async def test_google_may_refuse_several_candidates(hosted: HostedServer) -> None:
    obey = service("google_genai", takes=LADDERS["google_genai"], obeys=["json_schema"])

    def answer(body: Body) -> Http:
        if body["generationConfig"]["candidateCount"] > 1:
            return google_error(400, "Multiple candidates is not enabled for this model")
        return obey(body)

    hosted.default = answer
    findings = await found("google_genai")
    assert (findings.many_samples, findings.constraint) == (False, "json_schema")


@pytest.mark.parametrize("provider", ["openai", "google_genai"])
async def test_a_seed_that_repeats_a_reply_is_found(hosted: HostedServer, provider: str) -> None:
    hosted.default = service(provider, takes=LADDERS[provider], obeys=LADDERS[provider])
    assert (await found(provider)).takes_seed is True


@pytest.mark.parametrize("provider", ["anthropic", "deepseek"])
async def test_no_seed_is_sent_where_there_is_none(hosted: HostedServer, provider: str) -> None:
    hosted.default = service(provider, takes=LADDERS[provider], obeys=LADDERS[provider])
    assert (await found(provider)).takes_seed is None
    assert all("seed" not in body for body in hosted.received)


async def test_a_wrong_key_ends_the_start_with_the_providers_words(hosted: HostedServer) -> None:
    hosted.default = anthropic_error(401, "invalid x-api-key", "authentication_error")
    with pytest.raises(ModelError, match="invalid x-api-key"):
        await found("anthropic")
