"""Sends requests to an OTLP receiver over HTTP, to the address that it is given and to no other."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from evals.spans.errors import SpanExportError

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
"""The one variable of OpenTelemetry's that is read: receivers such as Langfuse want a key in a header."""

_PATH = "/v1/traces"
_GRPC_PORT = 4317
_RETRYABLE = frozenset({429, 502, 503, 504})
_ATTEMPTS = 3
_CONNECT_S, _ANSWER_S = 3.0, 20.0


class _Away(Exception):
    """A receiver that may be back in a moment."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Spans that a receiver did not want, of a request that it took otherwise."""

    spans: int
    message: str


class Collector:
    """An OTLP receiver; a context manager.

    No variable of the environment names a target, a proxy or a certificate for it, and redirects are not
    followed: payloads go to the host that the user wrote. `SSL_CERT_FILE` is read, by OpenSSL.
    """

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ) -> None:
        """Take an address, with or without `/v1/traces`, and the headers of `OTEL_EXPORTER_OTLP_HEADERS`.

        Raises:
            SpanExportError: The address or the headers cannot be read.
        """
        self.endpoint = traces_endpoint(url)
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
        """Send a request, three times within seconds if the receiver is away or busy.

        Raises:
            SpanExportError: It was not taken, in one line that names the receiver.
        """
        content = request.SerializeToString()
        attempts = Retrying(
            retry=retry_if_exception_type(_Away),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(multiplier=0.25, max=2.0),
            reraise=True,
        )
        try:
            return attempts(self._post, content)
        except _Away as error:
            raise SpanExportError(f"{self.name}: {error}") from None

    def _post(self, content: bytes) -> Refusal | None:
        try:
            response = self._client.post(self.endpoint, content=content)
        except httpx.ConnectError as error:
            raise _Away(f"nothing takes spans there ({error}); is the collector running?") from error
        except httpx.TimeoutException:
            raise SpanExportError(f"{self.name}: no answer in {_ANSWER_S:g} s") from None
        except httpx.HTTPError as error:
            raise SpanExportError(f"{self.name}: {error or type(error).__name__}{self._hint()}") from None
        if response.status_code in _RETRYABLE:
            raise _Away(f"it answers {response.status_code} {response.reason_phrase}")
        if not response.is_success:
            raise SpanExportError(f"{self.name}: {self._fault(response)}")
        return _refusal(response)

    def _fault(self, response: httpx.Response) -> str:
        status = f"it answers {response.status_code} {response.reason_phrase}"
        if response.status_code in (401, 403):
            return f"{status}; give its key in the variable {HEADERS_VARIABLE}, as Authorization=Basic%20..."
        if response.is_redirect:
            return f"{status}; give the address that it redirects to"
        return f"{status}{self._hint()}"

    def _hint(self) -> str:
        if urlsplit(self.endpoint).port == _GRPC_PORT:
            return f"; port {_GRPC_PORT} is usually that of gRPC, and HTTP's is 4318"
        return "; does it take OTLP over HTTP at this path?"

    def __enter__(self) -> Collector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()


def traces_endpoint(url: str) -> str:
    """The address that traces are sent to: `/v1/traces` is added unless it is there.

    Raises:
        SpanExportError: It is no http address.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SpanExportError(f"--otlp {url!r} is no address such as http://127.0.0.1:4318")
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(_PATH) else path + _PATH, fragment="").geturl()


def read_headers(text: str) -> dict[str, str]:
    """Headers as the variable has them: `name=value`, parted by commas, values percent-encoded.

    Raises:
        SpanExportError: A part has another form. It is not shown: it may be a key.
    """
    headers = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, separator, value = part.partition("=")
        name, value = name.strip().lower(), unquote(value.strip())
        if not separator or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise SpanExportError(f"{HEADERS_VARIABLE}: a part is not of the form name=value")
        if not value.isascii() or not value.isprintable():
            raise SpanExportError(f"{HEADERS_VARIABLE}: the value of {name} cannot stand in a header")
        headers[name] = value
    return headers


def _refusal(response: httpx.Response) -> Refusal | None:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    except DecodeError:
        # A receiver that takes spans and answers in words of its own.
        return None
    if not partial.rejected_spans:
        return None
    return Refusal(partial.rejected_spans, " ".join(partial.error_message.split())[:200])
