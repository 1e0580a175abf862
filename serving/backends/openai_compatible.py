"""vLLM and any other server that speaks OpenAI's protocol at an address that the user names."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from serving.backends.backend import Backend, CallParameters
from serving.backends.fixed_layout import fixed_layout_grammar
from serving.errors import ModelError, classify
from serving.journal import Message
from serving.model_name import ModelName
from serving.reply import JsonSchema

REQUEST_TIMEOUT_S = 600.0
PROBE_TIMEOUT_S = 10.0
_KEY_VARIABLE = {"vllm": "VLLM_API_KEY", "openai": "OPENAI_API_KEY", "deepseek": "DEEPSEEK_API_KEY"}


def connect_server(name: ModelName) -> Backend:
    """Reach the server, check that it serves the model, and read its context length.

    Raises:
        ModelError: The server does not answer, or serves other models.
    """
    assert name.base_url is not None
    key = os.environ.get(_KEY_VARIABLE.get(name.provider, "")) or "EMPTY"
    context_length = _probe(name, name.base_url, key)
    http = httpx.AsyncClient(timeout=REQUEST_TIMEOUT_S)
    model = ChatOpenAI(
        model=name.name,
        base_url=name.base_url,
        api_key=SecretStr(key),
        # Retries belong to the client's own loop; the SDK's would multiply with them.
        max_retries=0,
        timeout=REQUEST_TIMEOUT_S,
        http_async_client=http,
    )
    return Backend(
        name=name,
        chat_model=model,
        endpoint=name.base_url.rstrip("/"),
        revision="",
        many_samples=True,
        takes_seed=False,
        max_connections=32,
        context_length=context_length,
        arguments=_vllm_arguments if name.provider == "vllm" else json_schema_arguments,
        count_tokens=_vllm_token_counter(name, key, http) if name.provider == "vllm" else None,
        close=http.aclose,
    )


def json_schema_arguments(call: CallParameters) -> dict[str, Any]:
    """Keyword arguments of a request in OpenAI's protocol.

    The schema goes in `extra_body`: that route never raises on cut or broken replies, so text and usage
    survive. No seed is sent: it ends vLLM's CPU engine when two requests run together.
    """
    arguments: dict[str, Any] = {"temperature": call.temperature, "max_tokens": call.max_tokens}
    if len(call.samples) > 1:
        arguments["n"] = len(call.samples)
    if call.schema is not None:
        schema = {"name": call.schema_name, "schema": _strict(call.schema), "strict": True}
        arguments["extra_body"] = {"response_format": {"type": "json_schema", "json_schema": schema}}
    return arguments


def _strict(schema: JsonSchema) -> JsonSchema:
    """A schema without `uniqueItems`, which strict mode answers with 400; the parser still checks it."""
    properties = {
        name: {key: part for key, part in value.items() if key != "uniqueItems"}
        for name, value in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties} if properties else schema


def _vllm_arguments(call: CallParameters) -> dict[str, Any]:
    """As everywhere, but with a grammar in vLLM's own field where the layout can be fixed."""
    arguments = json_schema_arguments(call)
    grammar = fixed_layout_grammar(call.schema) if call.schema is not None else None
    if grammar is not None:
        arguments["extra_body"] = {"structured_outputs": {"grammar": grammar}}
    return arguments


def _probe(name: ModelName, base_url: str, key: str) -> int | None:
    url = f"{base_url.rstrip('/')}/models"
    try:
        response = httpx.get(url, headers={"Authorization": f"Bearer {key}"}, timeout=PROBE_TIMEOUT_S)
        response.raise_for_status()
        served = {entry["id"]: entry for entry in response.json()["data"]}
    except httpx.HTTPStatusError as error:
        raise ModelError(f"server {url} answers {error.response.status_code}, not a list of models") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ModelError(
            f"cannot reach {url} for model {str(name)!r}: {error}. Is the server up, and the address right?"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise ModelError(f"server {url} does not answer with a list of models") from None
    if name.name not in served:
        raise ModelError(
            f"server {base_url} does not serve {name.name!r}; it serves: {', '.join(served) or 'none'}"
        )
    length = served[name.name].get("max_model_len")
    return length if isinstance(length, int) else None


def _vllm_token_counter(
    name: ModelName, key: str, http: httpx.AsyncClient
) -> Callable[[Sequence[Message]], Awaitable[int]]:
    """Ask vLLM's own tokenizer; its route stands beside `/v1`."""
    assert name.base_url is not None
    url = f"{name.base_url.rstrip('/').removesuffix('/v1')}/tokenize"
    headers = {"Authorization": f"Bearer {key}"}

    async def count(messages: Sequence[Message]) -> int:
        turns = [{"role": message.role, "content": message.text} for message in messages]
        try:
            body = {"model": name.name, "messages": turns}
            response = await http.post(url, json=body, headers=headers, timeout=PROBE_TIMEOUT_S)
            response.raise_for_status()
            return int(response.json()["count"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise classify(error) from error

    return count
