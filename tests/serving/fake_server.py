"""A real HTTP server on loopback with OpenAI's protocol and vLLM's `/tokenize` that misbehaves on order.

It answers each chat completion with the next planned act, and with `default` once none is left. What a run
asks at its start to probe the server is answered by its `abilities`, and recorded in `probes`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from typing import Any

import numpy as np

from retrieval.embeddings import LexicalEmbedder
from serving.backends.scripted import ScriptedCall, made_up_reply
from tests.serving.fake_abilities import Abilities, is_probe, probe_text, refused_field

MODEL = "tiny"
DIMENSIONS = 32


@dataclass(frozen=True)
class Say:
    """A reply. `texts`, `reasons` and `refusals` are used in turn for the choices.

    `choices` overrides how many come back, and `seconds` is how long the server thinks.
    """

    texts: tuple[str, ...] = ('{"word": "yes"}',)
    reasons: tuple[str, ...] = ("stop",)
    refusals: tuple[str | None, ...] = (None,)
    choices: int | None = None
    cached_tokens: int = 0
    seconds: float = 0.0
    logprobs: bool = True
    """Whether log-probabilities come with the reply where they are asked for."""
    model: str | None = None
    """Who says that it answers, if not the model that was asked."""


@dataclass(frozen=True)
class Refuse:
    """An HTTP error."""

    status: int
    message: str = "no"
    retry_after: str | None = None
    code: str | None = None


@dataclass(frozen=True)
class HangUp:
    """The connection is closed without a word."""


@dataclass(frozen=True)
class Raw:
    """These bytes, whatever they are."""

    content: bytes
    status: int = 200


@dataclass(frozen=True)
class Drip:
    """A reply of which a byte comes now and then, and which never ends."""

    pause: float = 0.02


@dataclass(frozen=True)
class Obey:
    """Replies that follow the request's own schema, made up as `scripted:auto` makes them."""


_LITERAL_OR_RULE = re.compile(r'"(?:[^"\\]|\\.)*"|\w+|\|')

Act = Say | Refuse | HangUp | Raw | Drip | Obey

COUNTED = object()

CONTEXT_FULL = Refuse(
    400,
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    code="context_length_exceeded",
)


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    authorization: str
    body: dict[str, Any]


@dataclass
class FakeServer:
    """`start` it, `plan` what it does, read what it `received`, `stop` it."""

    models: Any = field(
        default_factory=lambda: {"data": [{"id": MODEL, "max_model_len": 4096}, {"id": "other"}]}
    )
    """What `/v1/models` answers; a text is sent as it is."""
    models_status: int = 200
    health_status: int = 200
    tokenize: Any = None
    """What `/tokenize` answers, if not the number of words."""
    usage: Any = COUNTED
    """What completions report as their usage, if not the number of words."""
    default: Act = field(default_factory=Say)
    abilities: Abilities = field(default_factory=Abilities)
    received: list[Received] = field(default_factory=list)
    peak: int = 0
    """The most chat completions that were under way at once."""
    port: int = 0
    _acts: deque[Act] = field(default_factory=deque)
    _busy: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def chats(self) -> list[dict[str, Any]]:
        """The bodies of the chat completions that were asked for, probes left out."""
        return [body for body in self._completions() if not is_probe(body)]

    @property
    def probes(self) -> list[dict[str, Any]]:
        """The bodies of the chat completions that only find out what the server can do."""
        return [body for body in self._completions() if is_probe(body)]

    def _completions(self) -> list[dict[str, Any]]:
        return [request.body for request in self.received if request.path == "/v1/chat/completions"]

    @property
    def running(self) -> bool:
        return self._server is not None

    def plan(self, *acts: Act) -> None:
        self._acts.extend(acts)

    def start(self) -> None:
        """Listen; after `stop`, on the same port as before."""
        self._server = _Server(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self._server = None

    def next_act(self) -> Act:
        with self._lock:
            return self._acts.popleft() if self._acts else self.default

    def enter(self) -> None:
        with self._lock:
            self._busy += 1
            self.peak = max(self.peak, self._busy)

    def leave(self) -> None:
        with self._lock:
            self._busy -= 1


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left before its answer came is not reported."""


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer
    _counted = False

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._note({})
        if self.path == "/health":
            self._send(self.fake.health_status, "")
        else:
            self._send(self.fake.models_status, self.fake.models)

    def _chat(self, body: dict[str, Any]) -> None:
        if is_probe(body):
            self._act(self._probed(body), body)
            return
        self.fake.enter()
        self._counted = True
        try:
            self._act(self.fake.next_act(), body)
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._counted:
            self._counted = False
            self.fake.leave()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._note(body)
        if self.path == "/tokenize":
            count = {"count": word_count(body["messages"])}
            self._send(200, count if self.fake.tokenize is None else self.fake.tokenize)
        elif self.path == "/v1/embeddings":
            self._send(200, _embeddings(body))
        else:
            self._chat(body)

    def _probed(self, body: dict[str, Any]) -> Act:
        able = self.fake.abilities
        number = len(self.fake.probes) - able.sick_after
        sick = number > 0 and (able.sick_for is None or number <= able.sick_for)
        if able.status != 200 and sick:
            return Refuse(able.status, "EngineDeadError")
        unknown = refused_field(body, able)
        if unknown is not None:
            return Refuse(able.refuses_with, f"unknown field {unknown}")
        text = probe_text(body, able, len(self.fake.probes))
        reasons = ("length",) if able.thinks else ("stop",)
        return Say((text,), reasons, choices=able.choices, logprobs=able.logprobs)

    def _note(self, body: dict[str, Any]) -> None:
        self.fake.received.append(Received(self.path, self.headers.get("Authorization", ""), body))

    def _act(self, act: Act, body: dict[str, Any]) -> None:
        if isinstance(act, HangUp):
            return
        if isinstance(act, Drip):
            self._drip(act)
            return
        if isinstance(act, Raw):
            self._send(act.status, act.content)
            return
        if isinstance(act, Refuse):
            error = {"message": act.message, "type": "error", "param": None, "code": act.code}
            self._send(act.status, {"error": error}, act.retry_after)
            return
        said = _obedient(body) if isinstance(act, Obey) else act
        time.sleep(said.seconds)
        answer = _completion(said, body)
        self._send(200, answer if self.fake.usage is COUNTED else answer | {"usage": self.fake.usage})

    def _drip(self, act: Drip) -> None:
        self.send_response(200)
        self.end_headers()
        while self.fake.running:
            self.wfile.write(b" ")
            time.sleep(act.pause)

    def _send(self, status: int, value: Any, retry_after: str | None = None) -> None:
        text = value if isinstance(value, (str, bytes)) else json.dumps(value)
        content = text.encode() if isinstance(text, str) else text
        # Before the answer: its reader may ask again at once, and would be counted with it.
        self._leave()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(content)


def _handler(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"fake": fake})


def word_count(messages: list[dict[str, Any]]) -> int:
    return sum(len(str(message["content"]).split()) for message in messages)


def _obedient(body: dict[str, Any]) -> Say:
    prompt = [(message["role"], message["content"]) for message in body["messages"]]
    if "structured_outputs" in body:
        return Say((first_sentence(body["structured_outputs"]["grammar"]),))
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return Say(
        tuple(
            made_up_reply(ScriptedCall(sample=sample, prompt=prompt, schema_=schema))
            for sample in range(body.get("n", 1))
        )
    )


def first_sentence(grammar: str) -> str:
    """What a grammar of literals and rules accepts, the first alternative taken everywhere."""
    rules = dict(line.split(" ::= ", 1) for line in grammar.splitlines())

    def expanded(rule: str) -> str:
        first = takewhile(lambda part: part != "|", _LITERAL_OR_RULE.findall(rules[rule]))
        return "".join(json.loads(part) if part.startswith('"') else expanded(part) for part in first)

    return expanded("root")


def obedient_completion(body: dict[str, Any]) -> dict[str, Any]:
    """A whole response whose replies follow the request's own schema."""
    return _completion(_obedient(body), body)


def _completion(act: Say, body: dict[str, Any]) -> dict[str, Any]:
    number = body.get("n", 1) if act.choices is None else act.choices
    texts = [act.texts[index % len(act.texts)] for index in range(number)]
    refusals = [act.refusals[index % len(act.refusals)] for index in range(number)]
    read, written = word_count(body["messages"]), sum(len(text.split()) for text in texts)
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1,
        "model": act.model or body["model"],
        "choices": [
            {
                "index": index,
                "message": {
                    "role": "assistant",
                    "content": None if refusal else text,
                    "refusal": refusal,
                },
                "finish_reason": act.reasons[index % len(act.reasons)],
                "logprobs": _logprobs(text) if act.logprobs and body.get("logprobs") else None,
            }
            for index, (text, refusal) in enumerate(zip(texts, refusals, strict=True))
        ],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": act.cached_tokens},
        },
    }


def _logprobs(text: str) -> dict[str, Any]:
    """Words are this server's tokens; the later one is, the less sure it was."""
    tokens = [
        {
            "token": word,
            "logprob": -0.25 * index,
            "top_logprobs": [{"token": word, "logprob": -0.25 * index}, {"token": "?", "logprob": -9.5}],
        }
        for index, word in enumerate(text.split())
    ]
    return {"content": tokens}


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    # Not of length 1, so that a client which does not normalise is found out.
    vectors = 3 * asyncio.run(LexicalEmbedder(DIMENSIONS).aembed(body["input"]))
    return {
        "object": "list",
        "model": body["model"],
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": _encoded(vector, body.get("encoding_format")),
            }
            for index, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def _encoded(vector: Any, encoding: str | None) -> Any:
    if encoding == "base64":
        return base64.b64encode(np.asarray(vector, dtype=np.float32).tobytes()).decode()
    return [float(number) for number in vector]
