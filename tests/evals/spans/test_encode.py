from __future__ import annotations

import base64
import json
import sys
from dataclasses import replace

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from evals.spans.encode import Refusal, read_refusal, requests, span_count
from evals.spans.otlp import MAX_BYTES, Span, SpanExportError, Value, json_lines, require_otel


def span(**attributes: Value) -> Span:
    return Span(b"t" * 16, b"s" * 8, b"p" * 8, "node", "client", 1_700_000_000_000_000_001, 2**62, attributes)


def test_a_line_of_json_has_hexadecimal_ids_and_numbers_for_enumerations() -> None:
    spans = [span(flag=True, count=2, share=0.5, ids=["1", "2"])]
    ((line, _),) = json_lines({"service.name": "evigraph"}, spans)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    (found,) = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (found["traceId"], found["spanId"], found["parentSpanId"]) == ("74" * 16, "73" * 8, "70" * 8)
    assert (found["kind"], found["status"]) == (3, {"code": 1})
    assert found["startTimeUnixNano"] == "1700000000000000001"
    values = {one["key"]: one["value"] for one in found["attributes"]}
    assert values["flag"] == {"boolValue": True}
    assert values["count"] == {"intValue": "2"}
    assert values["ids"] == {"arrayValue": {"values": [{"stringValue": "1"}, {"stringValue": "2"}]}}


def test_json_and_protobuf_hold_the_same() -> None:
    resource, spans = {"service.name": "evigraph"}, [span(text="é\n", ids=["1"], none=[], share=0.5)]
    failed = replace(spans[0], failed=True, message="no", kind="internal")
    (request,) = requests(resource, [*spans, failed])
    ((line, _),) = json_lines(resource, [*spans, failed])
    found = json.loads(line)
    for one in found["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            one[name] = base64.b64encode(bytes.fromhex(one[name])).decode()
    assert ParseDict(found, ExportTraceServiceRequest()) == request


def test_a_request_holds_so_many_spans_and_so_many_bytes() -> None:
    small = list(requests({}, [span()] * 1025))
    assert [span_count(request) for request in small] == [512, 512, 1]
    large = list(requests({}, [span(text="x" * (MAX_BYTES // 3))] * 5))
    assert [span_count(request) for request in large] == [2, 2, 1]
    assert all(request.ByteSize() < MAX_BYTES for request in large)


@pytest.mark.parametrize(
    ("spans", "message", "refusal"),
    [(0, "", None), (2, " too\n old " + "x" * 300, (2, "too old " + "x" * 192))],
)
def test_a_refusal_is_one_short_line(spans: int, message: str, refusal: tuple[int, str] | None) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = spans
    answer.partial_success.error_message = message
    assert read_refusal(answer.SerializeToString()) == (None if refusal is None else Refusal(*refusal))


def test_an_answer_in_another_format_refuses_nothing() -> None:
    assert read_refusal(b'{"partialSuccess": {}}') is None


def test_a_span_above_the_limit_goes_alone() -> None:
    found = list(requests({}, [span(), span(text="x" * MAX_BYTES), span()]))
    assert [span_count(request) for request in found] == [1, 1, 1]


def test_half_a_character_becomes_a_question_mark() -> None:
    (request,) = requests({}, [span(text="a\ud800b")])
    ((line, _),) = json_lines({}, [span(text="a\ud800b")])
    assert b"a?b" in request.SerializeToString()
    assert b'"a?b"' in line


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.trace.v1.trace_pb2", None)
    with pytest.raises(SpanExportError, match=r"pip install -e '\.\[otel\]' in the clone"):
        require_otel()
