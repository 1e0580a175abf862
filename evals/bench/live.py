"""Shared by benchmarks of servers: requests noted as they are sent, cold caches, a bare client."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.bench.benchmark import BenchError
from evals.bench.workload import ready, run_cases
from graph.recipe import Recipe
from runs.execute.assemble import Assembly
from serving.backends.backend import Backend, Server
from serving.backends.http_json import HttpJson
from serving.backends.openai_protocol import answers, request_body
from serving.protocol import keys
from serving.protocol.limits import Limits
from serving.protocol.made_up_replies import made_up_text
from serving.protocol.messages import Answer
from serving.protocol.model_name import ModelName, parse_model_name
from serving.protocol.request import AnyRequest

if TYPE_CHECKING:
    import aiohttp


Body = dict[str, Any]


@dataclass(slots=True)
class Sent:
    """One request; times are seconds of `time.perf_counter`, `usage` is the server's own."""

    role: str
    case_id: str
    body: Body
    started: float
    ended: float = 0.0
    usage: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Tap:
    """Notes what passes.

    Attributes:
        extra: Fields that every request carries in addition, such as a cache salt.
        sends: Whether requests are sent; else each gets a made-up reply.
        requests: In the order of sending.
    """

    extra: Body = field(default_factory=dict)
    sends: bool = True
    requests: list[Sent] = field(default_factory=list)

    def on(self, assembly: Assembly) -> Assembly:
        """The same run through this tap.

        Raises:
            BenchError: A model is at no address that speaks OpenAI's protocol.
        """
        tapped: dict[int, Backend] = {}
        for backend in assembly.backends.values():
            tapped.setdefault(id(backend), self._backend(backend))
        backends = {role: tapped[id(backend)] for role, backend in assembly.backends.items()}
        return replace(assembly, backends=backends)

    def _backend(self, backend: Backend) -> Backend:
        if not backend.name.base_urls:
            raise BenchError(f"model {backend.name} names no server: write vllm:NAME@http://HOST:8000/v1")
        http = HttpJson({"Authorization": f"Bearer {api_key()}"})
        servers = tuple(self._server(backend, server, http) for server in backend.servers)
        return replace(backend, servers=servers)

    def _server(self, backend: Backend, server: Server, http: HttpJson) -> Server:
        async def post(body: Body) -> Any:
            return await http.post(f"{server.endpoint}/chat/completions", body)

        async def close() -> None:
            await http.close()
            # The probe has used the server's own connections.
            if server.close is not None:
                await server.close()

        return replace(server, complete=self._completer(backend.name.name, post), close=close)

    def _completer(
        self, model: str, post: Callable[[Body], Awaitable[Any]]
    ) -> Callable[[AnyRequest], Awaitable[list[Answer]]]:
        async def complete(request: AnyRequest) -> list[Answer]:
            body = request_body(model, request) | self.extra
            sent = Sent(request.role, request.case_id, body, time.perf_counter())
            self.requests.append(sent)
            if not self.sends:
                prompt = [(message.role, message.text) for message in request.messages]
                name, schema = request.reply.name, request.schema
                texts = [made_up_text(prompt, sample, name, schema) for sample in request.samples]
                return [Answer(text, "stop", 0, 0) for text in texts]
            response = await post(body)
            sent.ended = time.perf_counter()
            sent.usage = response.get("usage") or {}
            return answers(response, model, len(request.samples))

        return complete

    @property
    def seconds(self) -> float:
        """From the first request sent to the last reply."""
        return elapsed(self.requests)


def api_key() -> str:
    """The key for vLLM, as in a run."""
    return keys.api_key("VLLM_API_KEY") or "EMPTY"


def elapsed(requests: Sequence[Sent]) -> float:
    """Seconds from the first request sent to the last reply."""
    return max(one.ended for one in requests) - min(one.started for one in requests)


def written_tokens(requests: Sequence[Sent]) -> int:
    """Tokens that the server wrote, by its own count."""
    return sum(int(one.usage.get("completion_tokens") or 0) for one in requests)


def read_tokens(requests: Sequence[Sent]) -> int:
    """Tokens of all prompts, by the server's own count."""
    return sum(int(one.usage.get("prompt_tokens") or 0) for one in requests)


Repeats = list[list[Sent]]
"""The requests of one side in each repeat."""


@dataclass(frozen=True, slots=True)
class Live:
    """A server at one address with the cases and the recipe that it is measured with."""

    model: ModelName
    url: str
    cases: Path
    recipe: Recipe
    limits: Limits

    async def run(self, folder: Path, *, sends: bool = True) -> list[Sent]:
        """A batch run with cold caches, or with made-up replies; its requests in the order of sending."""
        tap = Tap(fresh_salt() if sends else {}, sends)
        await run_cases(tap.on(await ready(self.recipe, self.cases, self.model)), folder, self.limits)
        return tap.requests


def live_model(text: str) -> tuple[ModelName, str]:
    """A model string and its one address.

    Raises:
        BenchError: It names no vLLM server, or several.
    """
    name = parse_model_name(text)
    if name.provider != "vllm" or len(name.base_urls) != 1:
        raise BenchError(
            f"--model {text}: this benchmark needs one vLLM server: vllm:NAME@http://HOST:8000/v1"
        )
    return name, name.base_urls[0].rstrip("/")


def fresh_salt() -> Body:
    """Makes vLLM keep the prefixes of these requests separate from all others: a cold cache."""
    return {"cache_salt": secrets.token_hex(8)}


@asynccontextmanager
async def bare_client(connections: int) -> AsyncIterator[aiohttp.ClientSession]:
    """An asynchronous client with so many connections."""
    import aiohttp

    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {api_key()}"},
        connector=aiohttp.TCPConnector(limit=connections),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield session


async def ask(session: aiohttp.ClientSession, url: str, body: Body, sent: list[Sent]) -> Any:
    """Send and record one request; returns the response.

    Raises:
        BenchError: The server refuses it.
    """
    one = Sent("", "", body, time.perf_counter())
    sent.append(one)
    async with session.post(f"{url}/chat/completions", json=body) as response:
        content = await response.json()
        if response.status != 200:
            raise BenchError(f"{url} answers {response.status}: {str(content)[:200]}")
    one.ended = time.perf_counter()
    one.usage = content["usage"]
    return content


async def replay(url: str, recorded: Sequence[Sent], connections: int, **changed: Any) -> list[Sent]:
    """Send recorded requests again in order, so many at once, with cold caches and some fields changed."""
    changed |= fresh_salt()
    places = asyncio.Semaphore(connections)
    sent: list[Sent] = []
    async with bare_client(connections) as session:

        async def send(body: Body) -> None:
            async with places:
                await ask(session, url, body | changed, sent)

        await asyncio.gather(*(send(one.body) for one in recorded))
    return sent


async def warm_up(url: str, recorded: Sequence[Sent], connections: int) -> None:
    """Let the server compile every grammar before either side needs it, by a prompt of two words."""
    prompt = [{"role": "user", "content": "warm up"}]
    await replay(url, recorded, connections, messages=prompt, max_tokens=1, n=1)
