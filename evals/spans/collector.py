"""Writes the spans of runs to a file, or sends them to an OTLP receiver; one request in memory at a time."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from evals.spans.of_run import resource, traces
from evals.spans.otlp import Span, SpanExportError, json_lines
from runs.record.folder import RunFolder
from serving.policy.gate import demand, demand_host
from serving.protocol.addresses import redacted, redirect_fault
from storage.files import write_atomically

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from evals.spans.encode import Refusal


Report = Callable[[int], None]
"""Called with the number of passes that have been read."""

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
"""The only variable of OpenTelemetry that is read: receivers such as Langfuse want a key in a header."""

_PATH = "/v1/traces"
_GRPC_PORT = 4317
_RETRYABLE = frozenset({429, 502, 503, 504})
_ATTEMPTS = 3
_CONNECT_S, _ANSWER_S = 3.0, 20.0


class _Unavailable(Exception):
    """A receiver that is not available right now."""


class Collector:
    """An OTLP receiver; a context manager.

    Payloads only go to the host that the user named: no environment variable sets a target, a proxy or a
    certificate, and redirects are not followed. (OpenSSL reads `SSL_CERT_FILE`.)
    """

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ) -> None:
        """Take an address, with or without `/v1/traces`, and the headers of `OTEL_EXPORTER_OTLP_HEADERS`.

        Raises:
            SpanExportError: The address or the headers cannot be read.
        PolicyError: A policy of the runs that are open does not name this host.
        """
        self.endpoint = traces_endpoint(url)
        # Naming a receiver and requesting payloads is the consent.
        demand_host(self.endpoint, "receiver of spans", consent=False)
        parts = urlsplit(self.endpoint)
        self.name = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
        headers = read_headers(environment.get(HEADERS_VARIABLE, ""))
        self.header_names = sorted(headers)
        self._client = httpx.Client(
            headers={**headers, "content-type": "application/x-protobuf"},
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            verify=ssl.create_default_context(),
            trust_env=False,
            follow_redirects=False,
        )

    def send(self, request: ExportTraceServiceRequest) -> Refusal | None:
        """Send a request, up to three times within seconds if the receiver is away or busy.

        Raises:
            SpanExportError: It was not accepted, in one line that names the receiver.
        """
        content = request.SerializeToString()
        attempts = Retrying(
            retry=retry_if_exception_type(_Unavailable),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(multiplier=0.25, max=2.0),
            reraise=True,
        )
        try:
            return attempts(self._post, content)
        except _Unavailable as error:
            raise SpanExportError(f"{self.name}: {error}") from None

    def _post(self, content: bytes) -> Refusal | None:
        from evals.spans.encode import read_refusal

        try:
            response = self._client.post(self.endpoint, content=content)
        except httpx.ConnectError as error:
            raise _Unavailable(f"nothing takes spans there ({error}); is the collector running?") from error
        except httpx.TimeoutException:
            raise SpanExportError(f"{self.name}: no answer in {_ANSWER_S:g} s") from None
        except httpx.HTTPError as error:
            raise SpanExportError(f"{self.name}: {error or type(error).__name__}{self._hint()}") from None
        if response.status_code in _RETRYABLE:
            raise _Unavailable(f"it answers {response.status_code} {response.reason_phrase}")
        if not response.is_success:
            raise SpanExportError(f"{self.name}: {self._fault(response)}")
        return read_refusal(response.content)

    def _fault(self, response: httpx.Response) -> str:
        status = f"it answers {response.status_code} {response.reason_phrase}"
        if response.status_code in (401, 403):
            return f"{status}; give its key in the variable {HEADERS_VARIABLE}, as Authorization=Basic%20..."
        if 300 <= response.status_code < 400:
            return redirect_fault(response.status_code, self.endpoint, response.headers.get("location"))
        return f"{status}{self._hint()}"

    def _hint(self) -> str:
        if urlsplit(self.endpoint).port == _GRPC_PORT:
            return f"; port {_GRPC_PORT} is usually for gRPC; HTTP uses 4318"
        return "; does it take OTLP over HTTP at this path?"

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


def traces_endpoint(url: str) -> str:
    """The address that traces are sent to: `/v1/traces` is added unless it is there.

    Raises:
        SpanExportError: It is not an HTTP address.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SpanExportError(f"--otlp {redacted(url)!r} is not an address such as http://127.0.0.1:4318")
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(_PATH) else path + _PATH, fragment="").geturl()


def read_headers(text: str) -> dict[str, str]:
    """Read headers of the form `name=value`, separated by commas, values percent-encoded.

    Raises:
        SpanExportError: A part has another form. It is not shown, because it may be a key.
    """
    headers = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, separator, value = part.partition("=")
        name, value = name.strip().lower(), unquote(value.strip())
        if not separator or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise SpanExportError(f"{HEADERS_VARIABLE}: a part is not of the form name=value")
        if not value.isascii() or not value.isprintable():
            raise SpanExportError(f"{HEADERS_VARIABLE}: the value of {name} is not allowed in a header")
        headers[name] = value
    return headers


def write_spans(runs: Sequence[RunFolder], path: Path, *, payloads: bool, report: Report) -> int:
    """Write spans as lines of OTLP's JSON; returns their number.

    Raises:
        InputError: The file cannot be written; an old one is as it was.
        JournalError: Payloads are wanted and a journal cannot be read.
    """
    written = 0

    def lines() -> Iterator[bytes]:
        nonlocal written
        for run, spans in _spans_of_runs(runs, payloads, report):
            for line, count in json_lines(resource(run), spans):
                written += count
                yield line

    write_atomically(path, lines())
    return written


def send_spans(
    runs: Sequence[RunFolder], collector: Collector, *, payloads: bool, report: Report
) -> tuple[int, list[Refusal]]:
    """Send spans; returns the number of accepted spans, and the rejections.

    Raises:
        SpanExportError: The collector is away or refuses a request; says how many spans it accepted before.
        JournalError: Payloads are wanted and a journal cannot be read.
    """
    from evals.spans.encode import requests, span_count

    taken = 0
    refused: list[Refusal] = []
    for run, spans in _spans_of_runs(runs, payloads, report):
        for request in requests(resource(run), spans):
            try:
                refusal = collector.send(request)
            except SpanExportError as error:
                raise SpanExportError(f"{error} ({taken:,} spans were taken)") from None
            taken += span_count(request) - (refusal.spans if refusal else 0)
            refused += [refusal] if refusal else []
    return taken, refused


def _spans_of_runs(
    runs: Sequence[RunFolder], payloads: bool, report: Report
) -> Iterator[tuple[RunFolder, Iterator[Span]]]:
    if payloads:
        demand("export_payloads")
    read = 0

    def spans(run: RunFolder) -> Iterator[Span]:
        nonlocal read
        for trace in traces(run, payloads=payloads):
            yield from trace
            read += 1
            report(read)

    for run in runs:
        yield run, spans(run)
