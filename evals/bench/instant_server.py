"""A model server without processing time: OpenAI's protocol, valid replies, a fixed delay.

    python -m evals.bench.instant_server --port 8000 --seconds 1

It answers every chat completion according to the request's schema or grammar, taking the first choice
everywhere, after the given delay, however many requests are in progress. It only imports the standard
library, so that it starts at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from dataclasses import dataclass, field
from typing import Any

MODEL = "instant"
CONTEXT_LENGTH = 131_072

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
_ANSWER = (
    "This answer comes from a benchmark's server and from no language model. "
    "It has two sentences, as the rules for answers ask."
)
_TOKENS_READ = 1_000
_TOKENS_WRITTEN = 60


def reply_text(body: dict[str, Any]) -> str:
    """A valid reply to a request: what its grammar or its schema accepts first, else two sentences."""
    grammar = (body.get("structured_outputs") or {}).get("grammar")
    if grammar is not None:
        return first_sentence(grammar)
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    if schema is not None:
        return json.dumps({name: value["enum"][0] for name, value in schema["properties"].items()})
    return _ANSWER


def first_sentence(grammar: str) -> str:
    """A text that a grammar of literals and named choices accepts, taking the first choice everywhere."""
    root, *choices = (line.split(" ::= ", 1)[1] for line in grammar.splitlines())
    first = [_LITERAL.findall(choice)[0] for choice in choices]
    parts = re.sub(r"choice(\d+)", lambda match: first[int(match[1])], root)
    return "".join(json.loads(literal) for literal in _LITERAL.findall(parts))


def completion(body: dict[str, Any]) -> dict[str, Any]:
    """The response to a chat completion."""
    text, samples = reply_text(body), int(body.get("n") or 1)
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
            "logprobs": _logprobs(text) if body.get("logprobs") else None,
        }
        for index in range(samples)
    ]
    written = samples * _TOKENS_WRITTEN
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": choices,
        "usage": {
            "prompt_tokens": _TOKENS_READ,
            "completion_tokens": written,
            "total_tokens": _TOKENS_READ + written,
        },
    }


def _logprobs(text: str) -> dict[str, Any]:
    top = [{"token": text, "logprob": 0.0, "bytes": None}]
    return {"content": [{"token": text, "logprob": 0.0, "bytes": None, "top_logprobs": top}]}


def _response(value: Any) -> bytes:
    content = json.dumps(value).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


_MODELS = _response(
    {"data": [{"id": MODEL, "object": "model", "owned_by": "vllm", "max_model_len": CONTEXT_LENGTH}]}
)


@dataclass(slots=True)
class Replies:
    """Responses by what shapes them, made once: all requests for one note have one reply.

    Attributes:
        requests: Chat completions answered so far.
    """

    requests: int = 0
    _made: dict[str, bytes] = field(default_factory=dict)

    def to(self, content: bytes) -> bytes:
        self.requests += 1
        body = json.loads(content)
        shape = json.dumps([value for name, value in body.items() if name != "messages"])
        made = self._made.get(shape)
        if made is None:
            made = self._made[shape] = _response(completion(body))
        return made


class Connection(asyncio.Protocol):
    """HTTP/1.1 with kept connections, as far as JSON clients need it."""

    def __init__(self, replies: Replies, seconds: float) -> None:
        self._replies = replies
        self._seconds = seconds
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(_HEAD_END)) >= 0:
            head = self._received[:end]
            found = _LENGTH.search(head)
            whole = end + len(_HEAD_END) + (int(found[1]) if found else 0)
            if len(self._received) < whole:
                return
            content = self._received[end + len(_HEAD_END) : whole]
            self._received = self._received[whole:]
            self._answer(head, content)

    def _answer(self, head: bytes, content: bytes) -> None:
        if head.startswith(b"GET"):
            counts = b"/requests " in head.partition(b"\r\n")[0]
            self._send(_response({"requests": self._replies.requests}) if counts else _MODELS)
            return
        response = self._replies.to(content)
        if self._seconds > 0:
            asyncio.get_running_loop().call_later(self._seconds, self._send, response)
        else:
            self._send(response)

    def _send(self, response: bytes) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(response)


async def serve(port: int, seconds: float, until_input_ends: bool) -> None:
    """Listen on loopback and print the port."""
    replies = Replies()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(replies, seconds), "127.0.0.1", port, backlog=512)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    if not until_input_ends:
        await server.serve_forever()
    # The parent holds the other end of standard input, so the server ends with it, however the parent ends.
    await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.instant_server")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--seconds", type=float, default=0.0, help="delay of every reply")
    parser.add_argument("--until-input-ends", action="store_true", help="end with standard input")
    options = parser.parse_args()
    asyncio.run(serve(options.port, options.seconds, options.until_input_ends))


if __name__ == "__main__":
    main()
