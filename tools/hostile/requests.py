"""Hostile requests to the viewer, over its real socket."""

from __future__ import annotations

import json
import logging
import re
import shutil
import socket
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import uvicorn

from runs.record.folder import RunFolder
from runs.review.reviewers import ReviewedRun
from tools.hostile.judging import Found, Outcome, markup_faults
from tools.hostile.texts import MB, TEXTS, Draw
from viewer.library import Library
from viewer.listening import configured, listen
from viewer.server import application

KEY = "the-key-of-the-viewer"
ANSWER_S = 60.0

PATHS = (
    *("/", "/runs/run", "/runs/run/rows.json", "/runs/run/case?id=h1"),
    *("/runs/run/review?id=h1", "/runs/run/state?id=h1", "/runs/run/gold.jsonl", "/runs/run/reviewers"),
    *("/runs/run/adjudicate?id=h1", "/runs/run/call?id=h1&key=x", "/runs/run/verify?id=h1"),
    *("/compare?run=run&run=good", "/compare/case?run=run&run=good&id=good", "/assets/page.css"),
)
METHODS = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PATCH",
    "get",
    "G\x1bT",
    "X" * 3000,
)
HEADERS: dict[str, Callable[[str, int], str]] = {
    "another host": lambda m, port: f"Host: {m}.example.org",
    "a host with another port": lambda m, port: "Host: 127.0.0.1:1",
    "a host that is a path": lambda m, port: f"Host: 127.0.0.1:{port}/../{m}",
    "a host of 60 kB": lambda m, port: "Host: " + "a" * 60_000,
    "two hosts": lambda m, port: f"Host: 127.0.0.1:{port}\r\nHost: {m}",
    "a user in the host": lambda m, port: f"Host: {m}@127.0.0.1:{port}",
    "no host": lambda m, port: f"X: {m}",
    "an odd port": lambda m, port: "Host: 127.0.0.1:99999",
    "a host with digits of others": lambda m, port: "Host: 127.0.0.1:\u0661",
    "a forwarded host": lambda m, port: (
        f"Host: 127.0.0.1:{port}\r\nX-Forwarded-Host: {m}\r\nForwarded: host={m}"
    ),
}
MORE: dict[str, Callable[[str], str]] = {
    "an odd cookie": lambda m: f'Cookie: evigraph_x="{m}\\"; $Path=/; =; ;;;\x01',
    "cookies of 60 kB": lambda m: "Cookie: " + "a=b; " * 12_000,
    "another origin": lambda m: f"Origin: http://{m}.example.org",
    "an origin that is none": lambda m: "Origin: null",
    "a request of another site": lambda m: "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors",
    "a range": lambda m: "Range: bytes=0-0," + "1-2," * 500,
    "an encoding": lambda m: f"Accept-Encoding: gzip;q=\u00e9, {m}",
    "a length that is none": lambda m: f"Content-Length: {m}",
    "a negative length": lambda m: "Content-Length: -1",
    "two lengths": lambda m: "Content-Length: 5\r\nContent-Length: 6",
    "a length and chunks": lambda m: "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "chunks of another kind": lambda m: f"Transfer-Encoding: {m}",
    "an upgrade": lambda m: "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x",
    "a continued line": lambda m: f"X: a\r\n {m}",
    "a NUL": lambda m: f"X: \x00{m}",
    "a name with a blank": lambda m: f"X {m}: 1",
    "1,000 headers": lambda m: "\r\n".join(f"X{n}: {m}" for n in range(1000)),
    "100 kB of headers": lambda m: "X: " + "a" * 100_000,
    "an expectation": lambda m: "Expect: 100-continue",
    "another method": lambda m: "X-HTTP-Method-Override: DELETE",
}


class _Log(logging.Handler):
    """What the server says of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            self.said.append(self.format(record))


class Viewer:
    """A viewer of two runs, on a separate port."""

    def __init__(self, shared: Path) -> None:
        self._shared = shared
        self._log = _Log()

    def __enter__(self) -> Self:
        folder = self._shared / "viewed"
        for name in ("run", "good"):
            shutil.copytree(self._shared / name, folder / name)
        self.run = folder / "run"
        self._library = Library([folder])
        self._bound = listen("127.0.0.1", 0)
        self.port: int = self._bound.getsockname()[1]
        self._server = uvicorn.Server(configured(application(self._library, self.port, KEY)))
        logging.getLogger("uvicorn.error").addHandler(self._log)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._bound]})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._bound.close()
        self._library.close()
        logging.getLogger("uvicorn.error").removeHandler(self._log)

    @property
    def cookie(self) -> str:
        """The header of a browser that has the key."""
        return f"evigraph_{self.port}={KEY}"

    def send(self, request: bytes, wait_s: float = 2.0) -> bytes:
        """All that comes back until the connection is closed, or for so long."""
        answer = bytearray()
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)
        with connection, suppress(OSError):
            connection.sendall(request)
            connection.settimeout(wait_s)
            while part := connection.recv(1 << 16):
                answer += part
        return bytes(answer)

    def sound(self, path: str) -> bytes:
        """The answer to a sound request."""
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nCookie: {self.cookie}\r\n"
        return self.send(f"{head}Connection: close\r\n\r\n".encode(), ANSWER_S)

    def errors(self) -> list[str]:
        """What it has said of itself since the last time."""
        said, self._log.said = self._log.said, []
        return said


def _hostile_path(marker: str, draw: Draw) -> tuple[str, str]:
    path = draw.choice(PATHS)
    name = draw.choice([one for one in TEXTS if one != "10 MB"])
    text = TEXTS[name](marker)[:20_000]
    raw = text.encode("utf-8", "surrogatepass").decode("latin-1").replace("\r", "%0D").replace("\n", "%0A")
    coded = quote(text.encode("utf-8", "surrogatepass"), safe="")
    text = draw.choice(
        (coded, raw.replace(" ", "%20"), coded.replace("%", "%25"), "%" + raw[:40].replace(" ", ""))
    )
    odd = {
        "a parameter": re.sub(r"=[^&]*", lambda match: f"={text}", path, count=1)
        if "=" in path
        else f"{path}?x={text}",
        "the run": re.sub(r"/runs/run", lambda match: f"/runs/{text}", path),
        "a folder upwards": f"/{draw.choice(('..', '%2e%2e', '..%2f', '....//', '%c0%ae%c0%ae'))}/" * 4
        + "etc/passwd",
        "more of the path": f"{path}/{text}",
        "two slashes": f"//{marker}.example.org/{path}",
        "a whole address": f"http://{marker}.example.org{path}",
        "an asterisk": "*",
        "a NUL": f"/runs/run%00{text[:50]}",
        "a key": f"{path.partition('?')[0]}?token={text}",
        "many parameters": f"{path.partition('?')[0]}?" + "&".join(f"id={marker}{n}" for n in range(2000)),
        "an asset": f"/assets/{text}",
    }
    what = draw.choice([*odd])
    return f"{name} as {what} of the path", odd[what]


def _form(viewer: Viewer, marker: str, draw: Draw) -> tuple[str, bytes]:
    """A review as the form sends it, with a hostile text in one field."""
    line = next(one for one in RunFolder(viewer.run).cases() if one["case_id"] == "h2")
    fields: dict[str, Any] = {
        "reviewer": "Ann",
        "answer": line["answer"] or "",
        "comment": "Fine.",
        "labels_right": "1",
        "view": ReviewedRun(viewer.run).standing("h2").view(line),
        "label-0": "essential",
        "seconds": "3",
    }
    name = draw.choice([one for one in TEXTS if one != "10 MB"])
    key = draw.choice([*fields, "label-x", "more"])
    fields[key] = TEXTS[name](marker).encode("utf-8", "surrogatepass")
    return f"{name} as {key} of a review", urlencode(fields).encode()


def draw_request(viewer: Viewer, marker: str, draw: Draw) -> tuple[str, str, bytes]:
    """Which kind it is, what is odd about it, and its bytes."""
    kind = draw.choice(("path", "path", "method", "headers", "host", "body", "form", "bytes", "encoding"))
    method, path, host, more, body = "GET", draw.choice(PATHS), f"Host: 127.0.0.1:{viewer.port}", "", b""
    what = kind
    if kind == "path":
        what, path = _hostile_path(marker, draw)
    elif kind == "method":
        method = draw.choice(METHODS)
        what = f"method {method[:8]!r}"
    elif kind == "headers":
        what = draw.choice([*MORE])
        more = MORE[what](marker) + "\r\n"
    elif kind == "host":
        what = draw.choice([*HEADERS])
        host = HEADERS[what](marker, viewer.port)
    elif kind == "encoding":
        what = "bytes that are not UTF-8"
        raw = draw.choice(("", "\xff\xfe"))
        path = (
            f"{path}{'&' if '?' in path else '?'}{draw.choice(('id', 'x'))}=%ff%fe{marker}{raw}&%ff=%ed%a0%80"
        )
    elif kind == "form":
        method, path = "POST", "/runs/run/review?id=h2"
        what, body = _form(viewer, marker, draw)
    elif kind == "body":
        method, path = "POST", draw.choice(("/runs/run/review?id=h1", "/runs/run/adjudicate?id=h1", "/"))
        bodies = {
            "no form": json.dumps({"reviewer": marker}).encode(),
            "percent signs": b"reviewer=%" + marker.encode() + b"%zz%ff&=&&;=",
            "5 MB": b"comment=" + b"a" * (5 * MB),
            "100,000 fields": b"a=1&" * 100_000,
            "a field of 3 MB": b"comment=" + marker.encode() * 300_000,
            "NULs": b"reviewer=\0" + marker.encode(),
            "parts": b"--x\r\nContent-Disposition: form-data; name=reviewer\r\n\r\n"
            + marker.encode()
            + b"\r\n--x--",
        }
        what = draw.choice([*bodies])
        body = bodies[what]
    if body or method == "POST":
        types = ("application/x-www-form-urlencoded",) * 4 + (
            "application/json",
            "multipart/form-data; boundary=x",
            marker,
        )
        chosen = types[0] if kind == "form" else draw.choice(types)
        more += f"Origin: http://127.0.0.1:{viewer.port}\r\nContent-Type: {chosen}\r\n"
        more += f"Content-Length: {len(body)}\r\n"
    cookie = f"Cookie: {viewer.cookie}\r\n" if draw.random() < 0.85 else ""
    head = f"{method} {path} HTTP/1.1\r\n{host}\r\n{cookie}Connection: close\r\n{more}\r\n"
    request = head.encode("latin-1", "replace") + body
    if kind == "bytes":
        what, request = draw.choice(
            (
                ("random bytes", draw.randbytes(3000)),
                ("half a request", request[: len(request) // 2]),
                ("the speech of TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + draw.randbytes(500)),
                ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + draw.randbytes(50)),
                ("HTTP/0.9", b"GET /\r\n\r\n"),
                ("another version", request.replace(b"HTTP/1.1", b"HTTP/9.9", 1)),
                ("bare line feeds", request.replace(b"\r\n", b"\n")),
                ("two requests at once", request.replace(b"close", b"keep-alive", 1) * 2),
                ("one request in another", request[:-2] + b"Content-Length: 40\r\n\r\n" + request),
                ("blank lines before", b"\r\n" * 2000 + request),
                ("a flipped bit", _flipped(request, draw)),
            )
        )
    return kind, what, request


def _flipped(request: bytes, draw: Draw) -> bytes:
    place = draw.randrange(len(request))
    return request[:place] + bytes([request[place] ^ 1 << draw.randrange(8)]) + request[place + 1 :]


def play(viewer: Viewer, marker: str, draw: Draw) -> Outcome:
    """Send a hostile request, and judge what comes back."""
    kind, what, request = draw_request(viewer, marker, draw)
    found = Found()
    answer = viewer.send(request)
    status = _judge_answer(answer, marker, found)
    for said in viewer.errors():
        found.add(f"the server says: {said[-600:]!r}")
    for path in ("/", "/runs/run/case?id=h2") if kind == "form" else ("/",):
        page = viewer.sound(path)
        if not page.startswith(b"HTTP/1.1 200"):
            found.add(f"{path} is answered no longer: {page[:100]!r}")
        for fault in markup_faults(_body(page), marker):
            found.add(f"{path} afterwards: {fault}")
    end = "taken" if 200 <= status < 400 else "refused"
    return Outcome(f"viewer, {kind}", what, end, tuple(found.faults))


def _judge_answer(answer: bytes, marker: str, found: Found) -> int:
    """The status, 0 where there is none; several answers stand behind one another."""
    status = 0
    if answer and not answer.startswith(b"HTTP/1.1 "):
        found.add(f"no HTTP: {answer[:80]!r}")
    for one in re.split(rb"(?=HTTP/1\.1 \d{3} )", answer):
        match = re.match(rb"HTTP/1\.1 (\d{3}) ", one)
        if match is None:
            continue
        status = int(match[1])
        head, _, _ = one.partition(b"\r\n\r\n")
        if status >= 500:
            found.add(f"status {status}: {one[:300]!r}")
        names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]]
        if any(marker.lower().encode() in name for name in names):
            found.add(f"a header of the request in the answer: {head[:300]!r}")
        # Anything but HTTP is rejected by the server below, in three fixed words.
        if b"content-security-policy" not in names and b"Invalid HTTP request" not in one and status != 100:
            found.add(f"no policy for its content: {one[:300]!r}")
        location = re.search(rb"(?im)^location: (.*)", head)
        if location and not re.match(rb"/(?![/\\])", location[1]):
            found.add(f"sends to {location[1][:100]!r}")
        body = _body(one)
        if b"text/html" in head or b"image/svg" in head:
            for fault in markup_faults(body, marker):
                found.add(fault)
        if "Traceback" in body or "root:x:" in body or KEY in body:
            found.add(f"foreign content in a page: {body[:200]!r}")
    return status


def _body(answer: bytes) -> str:
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"content-encoding: gzip" in head.lower():
        body = zlib.decompressobj(wbits=31).decompress(body)
    return body.decode("utf-8", "replace")
