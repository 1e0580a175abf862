"""Model servers that answer what no sound server would, at the start of a run or in its middle."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.acts import Act, endless_white_space, flood, hang, reset_in_the_body, slow_loris
from tests.faults.faulty_server import START_PROBES, Exchange, FaultyServer
from tools.hostile.files import Bench, record
from tools.hostile.judging import Found, Outcome, end_of, judge_files
from tools.hostile.texts import DEEP, MB, VALUES, Draw, hostile_text
from tools.hostile.worker import Worker

STAGES = ("list of models", "first requests", "requests", "all")
"""Of a run, in which a server is hostile."""

Bodies = Callable[[Exchange, str, Draw], bytes]


@dataclass
class HostileServer(FaultyServer):
    """Hostile at one stage, and sound at the others."""

    act: Act = hang
    stage: str = "all"

    async def _answer(self, exchange: Exchange) -> None:
        text = json.dumps(exchange.body)
        stage = "list of models"
        if exchange.path.endswith(("/chat/completions", "/messages")) or ":" in exchange.path:
            stage = "first requests" if any(words in text for words in START_PROBES) else "requests"
        if self.stage in (stage, "all") and (exchange.path != "/health" or self.stage == "all"):
            await self.act(exchange)
        elif stage == "list of models":
            await super()._answer(exchange)
        else:
            await exchange.send(200, exchange.good())


def _raw(*parts: bytes, endless: bytes = b"") -> Act:
    async def act(exchange: Exchange) -> None:
        for part in parts:
            await exchange.write(part)
        while endless:
            await exchange.write(endless)
            await asyncio.sleep(0)
        exchange.writer.close()

    return act


def _sent(body: Bodies, marker: str, draw: Draw, **headers: str) -> Act:
    async def act(exchange: Exchange) -> None:
        await exchange.send(200, body(exchange, marker, draw), headers)

    return act


def _good(exchange: Exchange) -> dict[str, Any]:
    if "messages" in exchange.body:
        return exchange.good()
    return {"data": [{"id": "tiny", "max_model_len": 4096, "owned_by": "vllm"}]}


def _with_value(exchange: Exchange, marker: str, draw: Draw) -> bytes:
    """A sound reply with one value that is none."""
    good = _good(exchange)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(one, (dict, list)):
                walk(one)

    walk(good)
    holder, key = draw.choice(places)
    if draw.random() < 0.4:
        holder[key] = hostile_text(marker, draw)[1]
        return json.dumps(good).encode("utf-8", "surrogatepass")
    holder[key] = "@@RAW@@"
    return json.dumps(good).replace('"@@RAW@@"', draw.choice([*VALUES.values()])).encode()


def _with_usage(exchange: Exchange, marker: str, draw: Draw) -> bytes:
    odd = ("-5", "1e308", "1" + "0" * 30, str(2**63 - 1), "NaN", '"12"', "null", "[]", "0.5", "true")
    usage = {"prompt_tokens": "@1@", "completion_tokens": "@2@", "total_tokens": 3}
    text = json.dumps({**_good(exchange), "usage": usage})
    return text.replace('"@1@"', draw.choice(odd)).replace('"@2@"', draw.choice(odd)).encode()


def _with_text(exchange: Exchange, marker: str, draw: Draw) -> bytes:
    good = _good(exchange)
    for choice in good.get("choices", []):
        choice["message"]["content"] = hostile_text(marker, draw)[1]
        choice["finish_reason"] = draw.choice(("stop", "length", marker, None))
    return json.dumps(good).encode("utf-8", "surrogatepass")


def _with_wrong_ids(exchange: Exchange, marker: str, draw: Draw) -> bytes:
    good = _good(exchange)
    for choice in good.get("choices", []):
        choice["message"]["content"] = json.dumps(
            {marker: "essential", "1": "essential", "99": marker, "../1": 1}
        )
    return json.dumps(good).encode()


def _with_names(exchange: Exchange, marker: str, draw: Draw) -> bytes:
    names = [hostile_text(marker, draw)[1] for _ in range(3)]
    entries = [{"id": name, "max_model_len": draw.choice((-1, 10**30, "x", None))} for name in names]
    return json.dumps({"data": entries, "model": marker, "choices": []}).encode("utf-8", "surrogatepass")


def _error(marker: str, draw: Draw) -> Act:
    status = draw.choice((400, 401, 404, 408, 413, 418, 422, 429, 500, 503))
    text = hostile_text(marker, draw)[1]
    waits = ("-5", "1e999", "NaN", marker, "Thu, 99 Nov 9999", "0", "9" * 400)
    headers = {"Retry-After": draw.choice(waits)} if draw.random() < 0.5 else {}
    body: Any = draw.choice(({"error": {"message": text}}, {"error": text}, {"detail": [text]}, text, [text]))

    async def act(exchange: Exchange) -> None:
        await exchange.send(status, json.dumps(body).encode("utf-8", "surrogatepass"), headers)

    return act


def _redirect(place: str, draw: Draw) -> Act:
    status = draw.choice((301, 302, 303, 307, 308))

    async def act(exchange: Exchange) -> None:
        await exchange.send(status, b"", {"Location": place})

    return act


def draw_act(marker: str, draw: Draw, trap: str) -> tuple[str, Act]:
    """What a server does, and how it is called; `trap` is another host, which must not be contacted."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    packed = gzip.compress(b" " * (200 * MB))
    mark = marker.encode()
    bombs = {"Content-Encoding": "gzip"}
    acts: dict[str, Act] = {
        "garbage": _raw(head + b"Content-Length: 9\r\n\r\n{garbage}"),
        "no HTTP": _raw(b"\x1b[31m" + mark + b"\r\n\r\n"),
        "nothing at all": _raw(b""),
        "half a head": _raw(b"HTTP/1.1 200 O"),
        "a status that is none": _raw(b"HTTP/1.1 9999 X\r\nContent-Length: 0\r\n\r\n"),
        "a negative length": _raw(head + b"Content-Length: -5\r\n\r\n{}"),
        "a huge length": _raw(head + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}"),
        "two lengths": _raw(head + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"),
        "chunks that are none": _raw(head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + mark + b"\r\n"),
        "a chunk of a huge size": _raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\nx"),
        "endless headers": _raw(head, endless=b"X-" + mark + b": " + b"a" * 1000 + b"\r\n"),
        "a header that never ends": _raw(head + b"X: ", endless=b"a" * 65536),
        "endless 100-continue": _raw(endless=b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
        "endless 103": _raw(endless=b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 50),
        "switching protocols": _raw(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n" + mark),
        "an endless body": flood,
        "an endless slow body": endless_white_space,
        "a byte now and then": slow_loris,
        "silence": hang,
        "an early close": reset_in_the_body,
        "another type": _raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset="
            + mark
            + b"\r\nContent-Length: 6\r\n\r\n<html>"
        ),
        "a gzip bomb": _sent(lambda *_: packed, marker, draw, **bombs),
        "gzip that is none": _sent(lambda *_: b"x" * 100, marker, draw, **bombs),
        "an encoding that nobody knows": _sent(lambda *_: b"x", marker, draw, **{"Content-Encoding": marker}),
        "a document 10^5 deep": _sent(lambda *_: b"[" * DEEP + b"]" * DEEP, marker, draw),
        "a number of 5,000 digits": _sent(lambda *_: b'{"choices": ' + b"7" * 5000 + b"}", marker, draw),
        "null": _sent(lambda *_: b"null", marker, draw),
        "invalid UTF-8": _sent(lambda *_: b'{"data": "\xff\xfe\xc0"}', marker, draw),
        "a redirect": _redirect(
            draw.choice((f"{trap}/{marker}", f"//{trap.partition('//')[2]}", "/v1/x", "")), draw
        ),
        "a redirect to a file": _redirect(f"file:///etc/passwd#{marker}\x1b[31m", draw),
        "an odd value": _sent(_with_value, marker, draw),
        "an odd value ": _sent(_with_value, marker, draw),
        "an odd usage": _sent(_with_usage, marker, draw),
        "a hostile text": _sent(_with_text, marker, draw),
        "a hostile text ": _sent(_with_text, marker, draw),
        "wrong ids": _sent(_with_wrong_ids, marker, draw),
        "odd names of models": _sent(_with_names, marker, draw),
        "an error with a hostile message": _error(marker, draw),
        "an error with a hostile message ": _error(marker, draw),
        "cookies and a hostile header": _sent(
            lambda exchange, *_: json.dumps(_good(exchange)).encode(),
            marker,
            draw,
            **{"Set-Cookie": f"{marker}=x; Domain=.com", "X-Request-Id": f"\x1b[31m{marker}"},
        ),
    }
    name = draw.choice([*acts])
    return name.strip(), acts[name]


@contextmanager
def _trap(contacted: list[str]) -> Iterator[str]:
    """A host that a run must not speak to."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            contacted.append("another host was contacted")
            connection.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


PROVIDERS = {
    "vllm": ("vllm:tiny@{url}/v1", {}),
    "openai": ("openai:tiny", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "{url}/v1"}),
    "deepseek": ("deepseek:tiny", {"DEEPSEEK_API_KEY": "k", "DEEPSEEK_API_BASE": "{url}/v1"}),
    "anthropic": ("anthropic:tiny", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "{url}"}),
    "google_genai": ("google_genai:tiny", {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "{url}"}),
}


def play(worker: Worker, shared: Path, base: Path, marker: str, draw: Draw) -> Outcome:
    """Run cases with a hostile server, and judge the run."""
    bench = Bench(worker, shared, base, marker, draw, Found())
    bench.work.mkdir(parents=True)
    before = {base / "a", base / "a" / "b", bench.work}
    provider = draw.choice(("vllm", "vllm", "vllm", "vllm", *list(PROVIDERS)[1:]))
    stage = draw.choice(STAGES)
    contacted: list[str] = []
    with _trap(contacted) as trap:
        what, act = draw_act(marker, draw, trap)
        server = HostileServer(act=act, stage=stage, think=0.0)
        server.start()
        url = f"http://{server.address}"
        model, variables = PROVIDERS[provider]
        (bench.work / "c.jsonl").write_text(json.dumps(record("h1")) + "\n")
        shutil.copy(shared / "lexical.yaml", bench.work)
        ended = bench.do(
            *("run", "tamu", "c.jsonl", "--recipe", "lexical.yaml", "--model", model.format(url=url)),
            *("--out", "r", "--timeout", "1.5", "--max-retries", "0", "--max-outage", "0"),
            environment={name: value.format(url=url) for name, value in variables.items()},
        )
        server.stop()
    for fault in contacted:
        bench.found.add(fault)
    if (bench.work / "r").exists():
        bench.do("check", "r")
        bench.read(1)
    judge_files(before, base, bench.work, marker, bench.found)
    trick = f"{what} instead of the {stage}"
    return Outcome(f"server, {provider}", trick, end_of(ended), tuple(bench.found.faults))
