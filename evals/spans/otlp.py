"""Spans, and their form as OTLP's JSON, which needs no further package.

A line is a request, as the collector writes files. It is protobuf's JSON except for ids, which are
hexadecimal, and enumerations, which are numbers. Protobuf's own converter takes three times the processor
time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from runs.record.manifest import Manifest

Value = str | bool | int | float | list[str]
Attributes = Mapping[str, Value]

_TRACE_BYTES, _SPAN_BYTES = 16, 8

SCOPE = "evigraph"
"""OTLP's instrumentation scope: who made the spans."""


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work with its beginning and end.

    Attributes:
        trace_id: 16 bytes.
        span_id: 8 bytes.
        parent_id: None for the root of its trace.
        kind: `client` for requests to a server, `internal` for the rest.
        start_ns: Nanoseconds since 1970.
        end_ns: Nanoseconds since 1970, not before `start_ns`.
        failed: Whether its status is an error.
        message: The error; empty where it might quote a case.
    """

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    kind: Literal["internal", "client"]
    start_ns: int
    end_ns: int
    attributes: Attributes
    failed: bool = False
    message: str = ""


def whole_text(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by question marks."""
    return text.encode("utf-8", "replace").decode()


def run_id(manifest: Manifest) -> str:
    """Identifies a run wherever its folder is: 32 hexadecimal digits."""
    return _digest(
        manifest.system,
        manifest.recipe_sha256,
        manifest.inputs.sha256,
        {role: model.name for role, model in manifest.models.items()},
        manifest.sessions[0].started if manifest.sessions else "",
    ).hex()[:32]


def trace_id(run: str, case_id: str, number: int, started_at: float | None) -> bytes:
    """The id of one pass of a case."""
    return _digest(run, case_id, number, started_at)[:_TRACE_BYTES]


def span_id(trace: bytes, *place: int | str) -> bytes:
    """The id of a span by its place in the trace, such as a step and the number of a call."""
    return _digest(trace.hex(), *place)[:_SPAN_BYTES]


def _digest(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


T = TypeVar("T")

MAX_SPANS = 512
MAX_BYTES = 2_000_000
"""Limits of a request: receivers have limits too, some of four megabytes."""

_KINDS = {"internal": 1, "client": 3}
_OK, _ERROR = 1, 2


class SpanExportError(Exception):
    """Spans that cannot be made or are not accepted: one line with the remedy."""


def require_otel() -> None:
    """Check early whether spans can be sent.

    Raises:
        SpanExportError: The extra is missing.
    """
    try:
        import opentelemetry.proto.trace.v1.trace_pb2  # noqa: F401
    except ImportError:
        raise SpanExportError(
            "--otlp needs a further package: pip install -e '.[otel]' in the clone"
        ) from None


def batches(encoded: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Group encoded spans into lists of at most `MAX_SPANS` and `MAX_BYTES`; a larger span goes alone."""
    waiting: list[T] = []
    size = 0
    for one in encoded:
        added = size_of(one)
        if waiting and (len(waiting) == MAX_SPANS or size + added > MAX_BYTES):
            yield waiting
            waiting, size = [], 0
        waiting.append(one)
        size += added
    if waiting:
        yield waiting


def json_lines(resource: Attributes, spans: Iterable[Span]) -> Iterator[tuple[bytes, int]]:
    """Lines of as many spans as fit into a request, each with their number."""
    head = (
        b'{"resourceSpans":[{"resource":'
        + _dump({"attributes": _attributes(resource)})
        + b',"scopeSpans":[{"scope":'
        + _dump({"name": SCOPE})
        + b',"spans":['
    )
    for batch in batches((_dump(_span(span)) for span in spans), len):
        yield head + b",".join(batch) + b"]}]}]}\n", len(batch)


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _span(span: Span) -> dict[str, Any]:
    parent = {"parentSpanId": span.parent_id.hex()} if span.parent_id else {}
    message = {"message": span.message} if span.message else {}
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        **parent,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "status": {**message, "code": _ERROR if span.failed else _OK},
    }


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": name, "value": _any(value)} for name, value in attributes.items() if value != []]


def _any(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_any(item) for item in value]}}
