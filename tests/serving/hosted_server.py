"""A real HTTP server on loopback that speaks the protocols of Anthropic, Google, OpenAI and DeepSeek.

It answers each request with the next planned reply, and with `default` once none is left. A reply is a
status with a body, or a function that makes one of the request's body.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Http:
    """What goes over the wire."""

    status: int
    body: Body
    headers: Mapping[str, str] = field(default_factory=dict)


Act = Http | Callable[[Body], Http] | None
"""None hangs up."""


@dataclass
class HostedServer:
    """`start` it, `plan` replies, read what it `received`, `stop` it."""

    default: Act = None
    received: list[Body] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    port: int = 0
    _acts: deque[Act] = field(default_factory=deque)
    _server: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def plan(self, *acts: Act) -> None:
        self._acts.extend(acts)

    def next_act(self) -> Act:
        return self._acts.popleft() if self._acts else self.default

    def start(self) -> None:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
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


class _Handler(BaseHTTPRequestHandler):
    fake: HostedServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.fake.received.append(body)
        self.fake.paths.append(self.path)
        names = ("x-api-key", "x-goog-api-key", "Authorization")
        self.fake.keys.append(next((self.headers[name] for name in names if name in self.headers), ""))
        act = self.fake.next_act()
        if act is None:
            return
        answer = act if isinstance(act, Http) else act(body)
        content = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        # A client that has timed out is gone.
        with contextlib.suppress(BrokenPipeError):
            self.wfile.write(content)


def anthropic_message(*blocks: Body, stop_reason: str = "end_turn", cached: int = 0) -> Http:
    """A message; `input_tokens` are those that were not cached, as Anthropic counts them."""
    usage = {"input_tokens": 12, "output_tokens": 5, "cache_read_input_tokens": cached}
    return Http(
        200,
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": list(blocks),
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": usage,
        },
    )


def anthropic_text(text: str, stop_reason: str = "end_turn", cached: int = 0) -> Http:
    return anthropic_message({"type": "text", "text": text}, stop_reason=stop_reason, cached=cached)


def anthropic_tool(value: Body, stop_reason: str = "tool_use") -> Http:
    return anthropic_message(
        {"type": "tool_use", "id": "toolu_1", "name": "word", "input": value}, stop_reason=stop_reason
    )


def google_reply(*texts: str, reason: str = "STOP", cached: int = 0) -> Http:
    """One candidate for each text; an empty one has no content."""
    return Http(
        200,
        {
            "candidates": [
                {
                    "index": index,
                    "finishReason": reason,
                    **({"content": {"role": "model", "parts": [{"text": text}]}} if text else {}),
                }
                for index, text in enumerate(texts)
            ],
            "usageMetadata": {
                "promptTokenCount": 12,
                "candidatesTokenCount": 5 * len(texts),
                "totalTokenCount": 12 + 5 * len(texts),
                "cachedContentTokenCount": cached,
            },
            "modelVersion": "gemini",
        },
    )


def completion(*messages: Body, reason: str = "stop", usage: Body | None = None, **choice: Any) -> Http:
    """A chat completion with a choice for each message."""
    counts = {"prompt_tokens": 12, "completion_tokens": 5 * len(messages), "total_tokens": 0}
    return Http(
        200,
        {
            "id": "chat-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": None, **message},
                    "finish_reason": reason,
                    **choice,
                }
                for index, message in enumerate(messages)
            ],
            "usage": counts | (usage or {}),
        },
    )


def function_call(arguments: str) -> Body:
    function = {"name": "word", "arguments": arguments}
    return {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


def openai_error(status: int, message: str, code: str | None = None, **headers: str) -> Http:
    return Http(status, {"error": {"message": message, "type": "error", "code": code}}, headers)


def anthropic_error(status: int, message: str, kind: str = "invalid_request_error", **headers: str) -> Http:
    return Http(status, {"type": "error", "error": {"type": kind, "message": message}}, headers)


def google_error(status: int, message: str, *details: Body, name: str = "INVALID_ARGUMENT") -> Http:
    error = {"code": status, "message": message, "status": name, "details": list(details)}
    return Http(status, {"error": error})
