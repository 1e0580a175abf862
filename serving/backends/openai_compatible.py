"""vLLM and any other server that speaks OpenAI's protocol at an address that the user names."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx

from serving.backends.backend import Backend, Entry, Provider, Server
from serving.backends.http_json import HttpJson
from serving.backends.openai_protocol import (
    OPENAI_EFFORTS,
    answers,
    effort_fields,
    request_body,
    vllm_effort_fields,
)
from serving.policy import traffic
from serving.policy.gate import demand_route
from serving.policy.traffic import Traffic, size
from serving.protocol.abilities import Abilities
from serving.protocol.addresses import host_of
from serving.protocol.errors import CallError, ModelError, classify, redirected
from serving.protocol.keys import api_key
from serving.protocol.messages import UNKNOWN, Answer, Message, token_count
from serving.protocol.model_name import ModelName
from serving.protocol.request import PROBE, AnyRequest, Constraint
from serving.protocol.thinking import opens_thinking
from serving.vllm_server.find import find_vllm

_LOG = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 10.0
HEALTH_TIMEOUT_S = 5.0
COUNT_TIMEOUT_S = 10.0
_MAX_LIST_BYTES = 2**24
"""A list of a few hundred models takes some hundred thousand bytes."""
_NO_LIST = (404, 405, 500, 501)
"""Statuses of servers without a route for models."""
_MAX_NAMES, _MAX_NAME = 50, 200
"""Limits for a server's list of models in a message."""

_VLLM: tuple[Constraint, ...] = ("grammar", "json_schema", "json_object", "none")
_OTHERS: tuple[Constraint, ...] = ("json_schema", "object_schema", "json_object", "none")


def connect_server(name: ModelName, key_variable: str) -> Backend:
    """Reach the servers, check that they serve the model, and read its context length.

    Raises:
        ModelError: None of them answers, or the key is not allowed in a header.
    """
    key = api_key(key_variable) or "EMPTY"
    found = _look_at_all(name, key, key_variable)
    reached = [look for look in found if isinstance(look, _Look)]
    if not reached:
        raise next(look for look in found if isinstance(look, ModelError))
    http = HttpJson({"Authorization": f"Bearer {key}"})
    is_vllm = name.provider == "vllm" or any(look.is_vllm for look in reached)
    servers = tuple(
        _server(name, url, http, key_variable, is_vllm, look)
        for url, look in zip(name.base_urls, found, strict=True)
    )
    abilities = Abilities(efforts=OPENAI_EFFORTS)
    lengths = [look.context_length for look in reached if look.context_length is not None]
    # A conversation must fit wherever it is sent.
    length = min(lengths) if lengths else None
    return Backend(
        name=name,
        servers=servers,
        constraints=_VLLM if is_vllm else _OTHERS,
        many_samples=True,
        may_try_seed=not is_vllm,
        logprobs=True,
        start_connections=16,
        max_connections=128,
        context_length=length,
        count_tokens=_vllm_token_counter(name, http, servers) if is_vllm else None,
        probes=True,
        unlisted=next((look.unlisted for look in reached if look.unlisted), ""),
        abilities=abilities,
        describe=partial(_look_at_template, name, http, servers, abilities) if is_vllm else None,
    )


def _server(
    name: ModelName,
    url: str,
    http: HttpJson,
    key_variable: str,
    is_vllm: bool,
    look: _Look | ModelError,
) -> Server:
    address = url.rstrip("/")
    reached = isinstance(look, _Look)
    sick_from = 500 if is_vllm or isinstance(look, ModelError) or look.has_list else math.inf
    effort = vllm_effort_fields if is_vllm else effort_fields

    async def complete(request: AnyRequest) -> list[Answer]:
        body = request_body(name.name, request) | effort(request)
        response = await http.post(f"{address}/chat/completions", body, small=request.role == PROBE)
        return answers(response, name.name, len(request.samples))

    async def is_up() -> bool:
        # vLLM's `/health` asks the engine; a dead one still lists its models.
        place = f"{address.removesuffix('/v1')}/health" if is_vllm else f"{address}/models"
        # A gateway may serve no such route, or not to everyone; one that refuses is up. `transformers serve`
        # answers 500 without a cache folder of the hub.
        return 0 < await http.status(place, HEALTH_TIMEOUT_S) < sick_from

    return Server(address, complete, is_up, http.close, reached, key=key_variable)


class _Look:
    """A model in a server's list of models."""

    def __init__(self, entry: dict[str, object], unlisted: str = "", *, has_list: bool = True) -> None:
        # llama.cpp has a field in another object than vLLM.
        meta = entry.get("meta")
        inner = meta.get("n_ctx") if isinstance(meta, dict) else None
        length = token_count(entry.get("max_model_len", inner))
        self.context_length = length if length > 0 else None
        self.is_vllm = entry.get("owned_by") == "vllm"
        self.has_list = has_list
        # It quotes a server, and goes to terminals.
        self.unlisted = str(ModelError(unlisted)) if unlisted else ""


def _look_at_all(name: ModelName, key: str, key_variable: str) -> list[_Look | ModelError]:
    """Each server's entry for the model, or why it cannot be asked."""

    async def looks() -> list[_Look | ModelError]:
        return await asyncio.gather(*(_look(name, url, key, key_variable) for url in name.base_urls))

    # A thread, because the caller may be in an event loop; a loop, because its time limit ends everything.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, looks()).result()


async def _look(name: ModelName, base_url: str, key: str, key_variable: str) -> _Look | ModelError:
    url = f"{base_url.rstrip('/')}/models"
    if not host_of(url):
        return ModelError(f"cannot reach {url} for model {str(name)!r}: it is not the address of a server")
    try:
        served = {entry["id"]: entry for entry in json.loads(await _get(url, key))["data"]}
    except CallError as error:
        return ModelError(f"server {url} does not list its models: {error}")
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        if status in _NO_LIST:
            unlisted = f"server {base_url} answers {status} to a request for its list of models"
            return _Look({}, unlisted, has_list=False)
        # LiteLLM without a database answers 400 to a wrong key.
        remedy = f"; check {key_variable}" if status in (400, 401, 403) else ""
        return ModelError(f"server {url} answers {status}, not a list of models{remedy}")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        remedy = "Is the server up, and the address right?"
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            remedy = "Name the authority that signed its certificate: SSL_CERT_FILE=ca.pem"
        return ModelError(f"cannot reach {url} for model {str(name)!r}: {error}. {remedy}")
    except (ValueError, KeyError, TypeError, RecursionError):
        return ModelError(f"server {url} does not answer with a list of models")
    entry = served.get(name.name) or served.get(f"openai/{name.name}")
    if entry is not None:
        return _Look(entry)
    return _Look({}, f"server {base_url} does not list {name.name!r}; it lists: {_names(served)}")


def _names(served: Iterable[object]) -> str:
    """Models by name; a server may list thousands, with any names."""
    names = [str(name)[:_MAX_NAME] for name in served]
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return (", ".join(names[:_MAX_NAMES]) or "none") + more


async def _get(url: str, key: str) -> bytes:
    """A GET with a limit for the whole: httpx limits each read, and a byte now and then is a read.

    Raises:
        CallError: The server redirects.
        httpx.HTTPError: The server cannot be reached, refuses, takes too long, or sends too much.
    """
    proxy = demand_route(url, "server")
    content = bytearray()
    headers = {"Authorization": f"Bearer {key}"}
    try:
        async with (
            asyncio.timeout(PROBE_TIMEOUT_S),
            httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(proxy=proxy),
                trust_env=False,
                timeout=PROBE_TIMEOUT_S,
                follow_redirects=False,
            ) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if 300 <= response.status_code < 400:
                raise redirected(response.status_code, url, response.headers.get("location"))
            response.raise_for_status()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > _MAX_LIST_BYTES:
                    raise httpx.ReadError(f"the list of models is larger than {_MAX_LIST_BYTES // 2**20} MB")
    except TimeoutError:
        raise httpx.ReadTimeout(f"no complete list of models in {PROBE_TIMEOUT_S:g} s") from None
    return bytes(content)


async def _look_at_template(
    name: ModelName, http: HttpJson, servers: Sequence[Server], abilities: Abilities
) -> None:
    """Note that a model thinks if its chat template opens the thinking; a server that fails changes nothing.

    Without a reasoning parser its replies then have the end of it only, and no sign if they are cut before.
    """
    url = next(f"{server.endpoint.removesuffix('/v1')}/tokenize" for server in servers if server.reached)
    turns = [{"role": "user", "content": "ready"}]
    try:
        async with asyncio.timeout(COUNT_TIMEOUT_S):
            response = await http.post(
                url, {"model": name.name, "messages": turns, "return_token_strs": True}, small=True
            )
        prompt = "".join(response["token_strs"])
    except Exception as error:
        _LOG.info("%s says nothing about the chat template of its model: %s", url, error)
        return
    abilities.thinks |= opens_thinking(prompt)


def _vllm_token_counter(
    name: ModelName, http: HttpJson, servers: Sequence[Server]
) -> Callable[[Sequence[Message]], Awaitable[int]]:
    """Ask vLLM's own tokenizer; its route is next to `/v1`. All servers have the same."""
    urls = [f"{server.endpoint.removesuffix('/v1')}/tokenize" for server in servers]

    async def count(messages: Sequence[Message]) -> int:
        turns = [{"role": message.role, "content": message.text} for message in messages]
        failure: CallError | None = None
        for url in tuple(urls):
            traffic.count(url, Traffic(1, 0, size(message.text for message in messages)))
            try:
                async with asyncio.timeout(COUNT_TIMEOUT_S):
                    response = await http.post(url, {"model": name.name, "messages": turns})
                counted = token_count(response["count"])
                if counted == UNKNOWN:
                    raise CallError("connection", f"{url}: its token count is not a number")
                return counted
            except Exception as error:
                # Any failure of the counter leaves the count to the request itself.
                failure = classify(error)
                # The next count begins with another server.
                urls.remove(url)
                urls.append(url)
        assert failure is not None
        raise failure

    return count


def _connect_vllm(name: ModelName) -> Backend:
    if name.needs_server:
        raise ModelError(f"model {str(name)!r} names no server: write {name}@http://HOST:8000/v1")
    return connect_server(name, "VLLM_API_KEY")


def _vllm_catalogue() -> list[Entry]:
    try:
        state = f"ready: {find_vllm()}"
    except ModelError as error:
        state = str(error)
    return [
        Entry("vllm:NAME", state, "vLLM, started and ended by the run that uses it"),
        Entry("vllm:NAME@http://HOST:8000/v1", "ready", "a vLLM server"),
    ]


VLLM = Provider(_connect_vllm, _vllm_catalogue, lambda: ("http://127.0.0.1",))
