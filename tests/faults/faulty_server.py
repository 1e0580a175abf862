"""A model server on loopback that breaks on sockets as real ones do.

It serves OpenAI's protocol as vLLM does, `/health` and `/tokenize` included. Its replies obey the schema of
their request until a fault sets in, and again once it is repaired. It counts what it has answered.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

from tests.serving.fake_server import MODEL, obedient_completion, word_count

Json = dict[str, Any]

START_PROBES = ("banana", "random letters", "Reply with one word")
"""Words of the prompts by which a run finds out at its start what a server can do."""


@dataclass(frozen=True)
class Fault:
    """How a server misbehaves.

    Attributes:
        act: Does something to a chat completion in place of its reply.
        reach: What else is hit: `chats` nothing, `health` fails too, `all` routes get the same.
    """

    act: Callable[[Exchange], Awaitable[None]]
    reach: Literal["chats", "health", "all"] = "chats"


@dataclass
class FaultyServer:
    """`start` it, read its counts, `repair` it, `stop` it.

    Attributes:
        fault: What is wrong with it; None once it is well.
        after: Chat completions that are answered well before the fault sets in.
        times: Chat completions that meet it; None is all of them until `repair`.
        concerns: Which chat completions can meet it.
        think: Seconds that a good reply takes.
        when_asked: Something to do once so many chat completions have come in.
        when_seen: Something to do whenever somebody has found out that it is there and well.
        answered: Replies that went out whole, by roles and hashes of their prompt.
        asked: Chat completions that came in, start probes left out.
        broken: How many of them met the fault.
    """

    fault: Fault | None = None
    after: int = 0
    times: int | None = None
    concerns: Callable[[Json], bool] = lambda body: True
    think: float = 0.01
    when_asked: tuple[int, Callable[[], None]] | None = None
    when_seen: Callable[[], None] = lambda: None
    tls: ssl.SSLContext | None = None
    answered: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    broken: int = 0
    port: int = 0
    _free: asyncio.Event = field(default_factory=asyncio.Event)
    _listener: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.address}/v1"

    @property
    def model(self) -> str:
        return f"vllm:{MODEL}@{self.url}"

    def start(self) -> None:
        self._free.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self.listen())

    def repair(self) -> None:
        """Be well from now on; connections that hang are cut, as a restart would."""

        async def repaired() -> None:
            self.fault = None
            self.die()
            await self.listen()

        self._do(repaired())

    def sleep(self) -> None:
        self._loop.call_soon_threadsafe(self.die)

    def wake(self) -> None:
        asyncio.run_coroutine_threadsafe(self.listen(), self._loop)

    def hold(self) -> None:
        self._loop.call_soon_threadsafe(self._free.clear)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._free.set)

    def stop(self) -> None:
        """Refuse connections from now on, and end the thread."""

        async def ended() -> None:
            self.die()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self._do(ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        assert self._thread is not None
        self._thread.join()
        self._loop.close()

    async def listen(self) -> None:
        """Accept connections, on the same port as before; called in the server's own loop."""
        if self._listener is None:
            self._listener = await asyncio.start_server(
                self._serve, "127.0.0.1", self.port, ssl=self.tls, backlog=512
            )
            self.port = self._listener.sockets[0].getsockname()[1]

    def die(self) -> None:
        """What a kill does: no listener, no connections; called in the server's own loop."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self.cut()

    def cut(self) -> None:
        """Cut all connections; called in the server's own loop."""
        for task in self._tasks - {asyncio.current_task(self._loop)}:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
                content = await reader.readexactly(int(headers.get("content-length", 0)))
                body = json.loads(content) if content else {}
                await self._answer(Exchange(self, lines[0].split()[1], body, writer))
        except (OSError, EOFError, ssl.SSLError):
            # The client has gone.
            pass
        except asyncio.CancelledError:
            # `die` or `cut`; asyncio's own callback would report a task that ends as cancelled.
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def _answer(self, exchange: Exchange) -> None:
        chat = exchange.path == "/v1/chat/completions"
        if chat:
            await self._chat(exchange)
        elif self._is_broken() and self.fault is not None and self.fault.reach == "all":
            await self.fault.act(exchange)
        elif exchange.path == "/health":
            dead = self._is_broken() and self.fault is not None and self.fault.reach == "health"
            await exchange.send(503 if dead else 200, b"")
            self.when_seen()
        elif exchange.path == "/tokenize":
            await exchange.send(200, {"count": word_count(exchange.body["messages"])})
        else:
            await exchange.send(200, {"data": [{"id": MODEL, "max_model_len": 4096, "owned_by": "vllm"}]})

    async def _chat(self, exchange: Exchange) -> None:
        text = json.dumps(exchange.body["messages"])
        if any(words in text for words in START_PROBES):
            await exchange.send(200, exchange.good())
            return
        self.asked += 1
        if self.when_asked is not None and self.asked == self.when_asked[0]:
            self.when_asked[1]()
        if self._is_broken() and self.concerns(exchange.body):
            assert self.fault is not None
            self.broken += 1
            await self.fault.act(exchange)
            return
        # Long enough for requests to be under way together.
        await asyncio.sleep(self.think)
        await self._free.wait()
        await exchange.send(200, exchange.good())
        if exchange.body["max_tokens"] > 1:
            self.answered[exchange.prompt] += exchange.body.get("n", 1)
        else:
            # A look whether the server answers at all; its reply is for nobody.
            self.when_seen()

    def _is_broken(self) -> bool:
        set_in = sum(self.answered.values()) >= self.after
        return self.fault is not None and set_in and (self.times is None or self.broken < self.times)


@dataclass
class Exchange:
    """One request and the connection that it came on."""

    server: FaultyServer
    path: str
    body: Json
    writer: asyncio.StreamWriter

    @property
    def prompt(self) -> str:
        """Roles and hashes of the prompt, as `Bench.stored` writes them."""
        turns = [(one["role"], one["content"]) for one in self.body["messages"]]
        return json.dumps([(role, hashlib.sha256(text.encode()).hexdigest()) for role, text in turns])

    def good(self) -> Json:
        return obedient_completion(self.body)

    def good_bytes(self) -> bytes:
        return json.dumps(self.good()).encode()

    async def send(self, status: int, body: Json | bytes, headers: Mapping[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.begin(status, {"Content-Length": str(len(content)), **(headers or {})})
        await self.write(content)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.write("\r\n".join([*lines, "", ""]).encode())

    async def write(self, content: bytes) -> None:
        self.writer.write(content)
        await self.writer.drain()

    def reset(self) -> None:
        """End the connection with a TCP reset instead of a farewell (RST: close with a linger of 0 s)."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
