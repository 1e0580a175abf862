"""A backend whose requests are noted as they are sent: bodies, times and tokens."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evals.bench.benchmark import BenchError
from runs.assemble import Assembly
from serving.backends.backend import Backend, CallParameters, Server
from serving.backends.http_json import HttpJson
from serving.backends.openai_protocol import answers, request_body
from serving.made_up_replies import made_up_text
from serving.messages import Answer, Message

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
        extra: Fields that every request carries besides its own, such as a cache salt.
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
    ) -> Callable[[Sequence[Message], CallParameters], Awaitable[list[Answer]]]:
        async def complete(messages: Sequence[Message], call: CallParameters) -> list[Answer]:
            body = request_body(model, messages, call) | self.extra
            sent = Sent(call.role, call.case_id, body, time.perf_counter())
            self.requests.append(sent)
            if not self.sends:
                return _made_up(messages, call)
            response = await post(body)
            sent.ended = time.perf_counter()
            sent.usage = response.get("usage") or {}
            return answers(response, model, len(call.samples))

        return complete

    @property
    def seconds(self) -> float:
        """From the first request sent to the last reply."""
        return elapsed(self.requests)


def _made_up(messages: Sequence[Message], call: CallParameters) -> list[Answer]:
    prompt = [(message.role, message.text) for message in messages]
    texts = [made_up_text(prompt, sample, call.schema_name, call.schema) for sample in call.samples]
    return [Answer(text, "stop", 0, 0) for text in texts]


def api_key() -> str:
    """What vLLM is shown, as in a run."""
    return os.environ.get("VLLM_API_KEY") or "EMPTY"


def elapsed(requests: Sequence[Sent]) -> float:
    """Seconds from the first request sent to the last reply."""
    return max(one.ended for one in requests) - min(one.started for one in requests)


def written_tokens(requests: Sequence[Sent]) -> int:
    """Tokens that the server wrote, by its own count."""
    return sum(int(one.usage.get("completion_tokens") or 0) for one in requests)


def read_tokens(requests: Sequence[Sent]) -> int:
    """Tokens of all prompts, by the server's own count."""
    return sum(int(one.usage.get("prompt_tokens") or 0) for one in requests)
