"""What goes over the wire to a server, and what is said of servers that cannot be used."""

from __future__ import annotations

import pytest

from serving.backends import Backend, connect
from serving.backends.reply_schemas import fixed_layout_grammar
from serving.journal.journal import Journal
from serving.protocol.errors import ModelError
from serving.protocol.model_name import ModelName
from serving.protocol.reply import ReplyFormat, free_text
from serving.requests.client import ModelClient
from tests.serving.asks import PROMPT, PROMPT_WORDS, SCHEMA, Connect, Reach, turns, word_ask
from tests.serving.fake_server import MODEL, FakeServer


def refused(name: ModelName) -> str:
    with pytest.raises(ModelError) as caught:
        connect(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_request_holds_the_schema_the_samples_and_no_seed(
    server: FakeServer, connect_client: Connect, reach: Reach
) -> None:
    client = connect_client(backend=reach(ModelName("openai", MODEL, server.url)))
    await client.ask(word_ask(samples=(0, 1, 2)))
    (body,) = server.chats
    assert turns(body) == [(message.role, message.text) for message in PROMPT]
    assert body["model"] == MODEL
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "word", "schema": SCHEMA, "strict": True},
    }
    assert (body["n"], body["temperature"], body["max_tokens"]) == (3, 0.7, 40)
    assert not {"seed", "tools"} & body.keys()


async def test_vllm_gets_a_grammar_that_fixes_the_layout(server: FakeServer, client: ModelClient) -> None:
    await client.ask(word_ask())
    (body,) = server.chats
    assert body["structured_outputs"] == {"grammar": fixed_layout_grammar(SCHEMA)}
    assert "response_format" not in body


async def test_vllm_gets_a_schema_where_the_layout_cannot_be_fixed(
    server: FakeServer, client: ModelClient
) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    await client.ask(word_ask(reply=ReplyFormat("free", schema, free_text)))
    (body,) = server.chats
    assert body["response_format"]["json_schema"]["schema"] == schema


def test_a_connected_server_is_described(server: FakeServer, backend: Backend) -> None:
    assert (backend.servers[0].endpoint, backend.context_length) == (server.url, 4096)
    assert backend.many_samples and not backend.takes_seed
    other = connect(ModelName("openai", "other", server.url))
    assert (other.context_length, other.count_tokens) == (None, None)


async def test_tokens_are_counted_by_the_server(server: FakeServer, backend: Backend) -> None:
    assert backend.count_tokens is not None
    assert await backend.count_tokens(PROMPT) == PROMPT_WORDS
    request = server.received[-1]
    assert request.path == "/tokenize"
    assert request.body["model"] == MODEL
    assert turns(request.body) == [(message.role, message.text) for message in PROMPT]


KEYS = {"VLLM_API_KEY": "for-vllm", "OPENAI_API_KEY": "for-openai", "DEEPSEEK_API_KEY": "for-deepseek"}


@pytest.mark.parametrize(
    ("provider", "key"),
    [("vllm", "for-vllm"), ("openai", "for-openai"), ("deepseek", "for-deepseek")],
)
async def test_each_provider_sends_its_own_key_only(
    server: FakeServer,
    journal: Journal,
    reach: Reach,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    key: str,
) -> None:
    for variable, value in KEYS.items():
        monkeypatch.setenv(variable, value)
    backend = reach(ModelName(provider, MODEL, server.url))
    await ModelClient({"label": backend}, journal).ask(word_ask())
    if backend.count_tokens is not None:
        await backend.count_tokens(PROMPT)
    assert {request.authorization for request in server.received} == {f"Bearer {key}"}


def test_a_server_that_is_not_there(server: FakeServer) -> None:
    server.stop()
    message = refused(ModelName("vllm", MODEL, server.url))
    assert f"cannot reach {server.url}/models" in message
    assert "Is the server up" in message


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/v1", "http://[::1/v1", "http:///v1"])
def test_an_address_that_is_none(url: str) -> None:
    assert url in refused(ModelName("vllm", MODEL, url))


def test_a_model_that_is_not_served_names_those_that_are(server: FakeServer) -> None:
    unlisted = connect(ModelName("vllm", "tini", server.url)).unlisted
    assert "does not list 'tini'; it lists: tiny, other" in unlisted
    server.models = {"data": []}
    assert "it lists: none" in connect(ModelName("vllm", MODEL, server.url)).unlisted


def test_a_gateway_lists_a_model_under_the_name_of_its_protocol(server: FakeServer) -> None:
    server.models = {"data": [{"id": f"openai/{MODEL}"}]}
    assert not connect(ModelName("openai", MODEL, server.url)).unlisted


@pytest.mark.parametrize("status", [400, 401, 403, 503])
def test_a_server_that_answers_with_an_error(server: FakeServer, status: int) -> None:
    server.models_status = status
    message = refused(ModelName("vllm", MODEL, server.url))
    assert f"{server.url}/models answers {status}" in message
    assert message.endswith("check VLLM_API_KEY") == (status in (400, 401, 403))


@pytest.mark.parametrize(("at_first", "later", "up"), [(500, 500, True), (200, 503, False), (200, 403, True)])
async def test_a_server_that_never_lists_its_models_is_up_if_it_answers(
    server: FakeServer, reach: Reach, at_first: int, later: int, up: bool
) -> None:
    server.models_status = at_first
    backend = reach(ModelName("openai", MODEL, server.url))
    assert backend.servers[0].is_up is not None
    server.models_status = later
    assert await backend.servers[0].is_up() is up
    server.stop()
    assert not await backend.servers[0].is_up()


@pytest.mark.parametrize(
    "answer", ["<html>Hello</html>", "", {}, {"data": None}, {"data": [1]}, {"data": [{}]}, [], "null"]
)
def test_a_server_that_answers_something_else(server: FakeServer, answer: object) -> None:
    server.models = answer
    assert "does not answer with a list of models" in refused(ModelName("vllm", MODEL, server.url))


def test_the_context_length_is_read_as_llama_cpp_gives_it(server: FakeServer, reach: Reach) -> None:
    server.models = {"data": [{"id": MODEL, "owned_by": "llamacpp", "meta": {"n_ctx": 8192}}]}
    assert reach(ModelName("openai", MODEL, server.url)).context_length == 8192
