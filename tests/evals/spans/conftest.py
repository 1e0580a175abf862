"""A run in which everything goes wrong that quotes, and a receiver of spans on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from graph.recipe import make_recipe
from runs.execute.assemble import Request
from runs.execute.batch import Options
from runs.execute.sessions import start
from runs.execute.watcher import SilentWatcher
from runs.record.folder import RunFolder
from serving.protocol.limits import Limits
from serving.protocol.model_name import assign_roles

SCRIPT = '''
"""Whatever it writes, and whatever fails, says zebra."""
from serving.backends.scripted import made_up_reply
from serving.protocol.errors import CallError

def reply(call):
    valid = made_up_reply(call)
    if call.case_id == "plain":
        return valid
    if call.format == "intent":
        return "zebra"
    if call.role == "label" and call.sample == 0:
        return valid.replace("{", '{"zebra": "essential", ', 1)
    if call.role == "label" and call.sample == 1:
        raise CallError("internal", "the server quotes zebra")
    if call.role == "reflect" and call.sample == 2:
        raise CallError("refusal", "the server quotes zebra")
    if call.format == "alignment":
        return valid.replace('": [', '": ["zebra", ', 1)
    if call.role == "answer":
        if call.case_id == "fails" and call.format == "answer":
            raise CallError("context_length", "the server quotes zebra")
        return "zebra " * 90
    return valid
'''
RECIPE = {
    "system": "tamu",
    "embedding": "lexical:64",
    "question": {"interpret": "always", "demonstrations": 1},
    "evidence": {"votes": 3, "threshold": 2, "demonstrations": 1},
    "answer": {"demonstrations": 1},
    "alignment": {"answer": "generated", "demonstrations": 1},
}


def _case(case_id: str) -> dict[str, object]:
    """Its texts differ from those of other cases, whose replies would be replayed for it otherwise."""
    return {
        "case_id": case_id,
        "narrative": f"A quagga in {case_id}! Why?",
        "question": "Why the quagga?",
        "sentences": [f"Sentence {number} of {case_id} tells of a quagga." for number in range(5)],
    }


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Cases `plain`, `quotes`, `fails`: all their texts say quagga, all faulty replies and errors zebra."""
    folder = tmp_path_factory.mktemp("spans")
    (folder / "script.py").write_text(SCRIPT)
    lines = [json.dumps(_case(case_id)) for case_id in ("plain", "quotes", "fails")]
    (folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
    request = Request(
        make_recipe(RECIPE, "r"),
        "r",
        (folder / "cases.jsonl",),
        (),
        assign_roles([f"scripted:{folder / 'script.py'}:reply"], {}),
    )
    options = Options("run", limits=Limits(max_retries=0))
    return asyncio.run(start(request, folder / "run", options, stop=asyncio.Event(), watcher=SilentWatcher()))


@dataclass
class Receiver:
    """Takes OTLP over HTTP. `statuses` come first, 0 as no answer, then 200; `refuses` so many spans."""

    statuses: list[int] = field(default_factory=list)
    refuses: int = 0
    received: list[ExportTraceServiceRequest] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.paths.append(self.path)
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            if not status:
                self.close_connection = True
                return
            answer = ExportTraceServiceResponse()
            if status == 200:
                receiver.received.append(ExportTraceServiceRequest.FromString(body))
                if receiver.refuses:
                    answer.partial_success.rejected_spans = receiver.refuses
                    answer.partial_success.error_message = "too old"
            content = answer.SerializeToString()
            self.send_response(status)
            if status in (301, 307, 308):
                self.send_header("location", f"{receiver.url}/elsewhere")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler


@contextlib.contextmanager
def listening() -> Iterator[Receiver]:
    """A receiver for the length of a block."""
    receiver = Receiver()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(receiver)) as server:
        receiver.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield receiver
        server.shutdown()
        thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening() as one:
        yield one
