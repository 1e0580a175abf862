"""Spans as OTLP requests: protobuf for collectors, JSON for files."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from evals.spans.errors import SpanExportError
from evals.spans.span import Attributes, Span, Value

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as EncodedSpan

SCOPE = "evigraph"
MOST_SPANS = 512
MOST_BYTES = 2_000_000
"""Of the spans of a request. Receivers have limits, some of four megabytes."""


def require_otel() -> None:
    """Find out early whether spans can be encoded.

    Raises:
        SpanExportError: The extra is missing.
    """
    try:
        import opentelemetry.proto.trace.v1.trace_pb2  # noqa: F401
    except ImportError:
        raise SpanExportError("spans need a further package: pip install 'evigraph[otel]'") from None


def requests(resource: Attributes, spans: Iterable[Span]) -> Iterator[ExportTraceServiceRequest]:
    """Requests of at most `MOST_SPANS` spans and `MOST_BYTES` bytes; a larger span goes alone."""
    waiting: list[EncodedSpan] = []
    size = 0
    for span in spans:
        encoded = _span(span)
        if waiting and (len(waiting) == MOST_SPANS or size + encoded.ByteSize() > MOST_BYTES):
            yield _request(resource, waiting)
            waiting, size = [], 0
        waiting.append(encoded)
        size += encoded.ByteSize()
    if waiting:
        yield _request(resource, waiting)


def span_count(request: ExportTraceServiceRequest) -> int:
    """Spans of a request."""
    return sum(len(scope.spans) for found in request.resource_spans for scope in found.scope_spans)


def json_line(request: ExportTraceServiceRequest) -> bytes:
    """A request as the collector's file exporter writes it: a line of OTLP's JSON.

    That is protobuf's JSON but for ids, which are hexadecimal, and enumerations, which are numbers.
    """
    from google.protobuf.json_format import MessageToDict

    found = MessageToDict(request, use_integers_for_enums=True)
    for resource_spans in found["resourceSpans"]:
        for scope in resource_spans["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64decode(span[name]).hex()
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _request(resource: Attributes, spans: list[EncodedSpan]) -> ExportTraceServiceRequest:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

    scope = ScopeSpans(scope=InstrumentationScope(name=SCOPE), spans=spans)
    of_run = ResourceSpans(resource=Resource(attributes=_attributes(resource)), scope_spans=[scope])
    return ExportTraceServiceRequest(resource_spans=[of_run])


def _span(span: Span) -> EncodedSpan:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as EncodedSpan
    from opentelemetry.proto.trace.v1.trace_pb2 import Status

    code = Status.STATUS_CODE_ERROR if span.failed else Status.STATUS_CODE_OK
    kind = EncodedSpan.SPAN_KIND_CLIENT if span.kind == "client" else EncodedSpan.SPAN_KIND_INTERNAL
    return EncodedSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id or b"",
        name=_text(span.name),
        kind=kind,
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=_attributes(span.attributes),
        status=Status(code=code, message=_text(span.message)),
    )


def _attributes(attributes: Attributes) -> list[KeyValue]:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

    present = ((name, value) for name, value in attributes.items() if value != [])
    return [KeyValue(key=_text(name), value=_any(value)) for name, value in present]


def _any(value: Value) -> AnyValue:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue

    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=_text(value))
    return AnyValue(array_value=ArrayValue(values=[_any(item) for item in value]))


def _text(text: str) -> str:
    """A lone surrogate, which UTF-8 cannot hold, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
