"""OTLP in protobuf, for collectors: requests built from spans, and parsed responses. Needs extra `otel`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as EncodedSpan

from evals.spans.otlp import SCOPE, Attributes, Span, Value, batches, whole_text


@dataclass(frozen=True, slots=True)
class Refusal:
    """Spans that a receiver refused of a request that it accepted otherwise."""

    spans: int
    message: str


def requests(resource: Attributes, spans: Iterable[Span]) -> Iterator[ExportTraceServiceRequest]:
    """Requests of as many spans as fit into one."""
    of_run = Resource(attributes=_attributes(resource))
    for batch in batches(map(_span, spans), lambda encoded: encoded.ByteSize()):
        scope = ScopeSpans(scope=InstrumentationScope(name=SCOPE), spans=batch)
        found = ResourceSpans(resource=of_run, scope_spans=[scope])
        yield ExportTraceServiceRequest(resource_spans=[found])


def span_count(request: ExportTraceServiceRequest) -> int:
    """The number of spans of a request."""
    return sum(len(scope.spans) for found in request.resource_spans for scope in found.scope_spans)


def read_refusal(content: bytes) -> Refusal | None:
    """Read a receiver's answer to an accepted request; None if nothing was refused."""
    try:
        partial = ExportTraceServiceResponse.FromString(content).partial_success
    except DecodeError:
        # Some receivers accept spans and answer in another format.
        return None
    if not partial.rejected_spans:
        return None
    return Refusal(partial.rejected_spans, " ".join(partial.error_message.split())[:200])


def _span(span: Span) -> EncodedSpan:
    code = Status.STATUS_CODE_ERROR if span.failed else Status.STATUS_CODE_OK
    kind = EncodedSpan.SPAN_KIND_CLIENT if span.kind == "client" else EncodedSpan.SPAN_KIND_INTERNAL
    return EncodedSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id or b"",
        name=whole_text(span.name),
        kind=kind,
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=_attributes(span.attributes),
        status=Status(code=code, message=whole_text(span.message)),
    )


def _attributes(attributes: Attributes) -> list[KeyValue]:
    return [
        KeyValue(key=whole_text(name), value=_any(value)) for name, value in attributes.items() if value != []
    ]


def _any(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=whole_text(value))
    return AnyValue(array_value=ArrayValue(values=[_any(item) for item in value]))
