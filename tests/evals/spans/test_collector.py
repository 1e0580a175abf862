from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cli.looking.export import _send
from evals.spans.collector import HEADERS_VARIABLE, Collector, read_headers, send_spans, traces_endpoint
from evals.spans.encode import Refusal, requests
from evals.spans.otlp import Span, SpanExportError
from runs.record.folder import RunFolder
from tests.evals.spans.conftest import Receiver, listening
from tests.serving.redirecting import SECRET, redirecting


@pytest.fixture
def request_of_one() -> ExportTraceServiceRequest:
    span = Span(b"t" * 16, b"s" * 8, None, "node", "internal", 1, 2, {})
    (request,) = requests({}, [span])
    return request


def send(receiver: Receiver, request: ExportTraceServiceRequest, **environment: str) -> Refusal | None:
    with Collector(receiver.url, environment) as collector:
        return collector.send(request)


def test_a_collector_receives_every_span_of_a_run(run: RunFolder, receiver: Receiver) -> None:
    passes: list[int] = []
    with Collector(receiver.url, {}) as collector:
        taken, refused = send_spans([run], collector, payloads=False, report=passes.append)
    (resource_spans,) = receiver.received[0].resource_spans
    spans = resource_spans.scope_spans[0].spans
    assert (len(spans), refused, passes) == (taken, [], [1, 2, 3])
    assert {"invoke_agent tamu", "label_evidence"} < {span.name for span in spans}
    resource = {one.key: one.value.string_value for one in resource_spans.resource.attributes}
    assert resource["service.name"] == "evigraph"
    assert receiver.paths == ["/v1/traces"]
    assert receiver.headers[0]["content-type"] == "application/x-protobuf"


def test_the_environment_names_no_target(
    receiver: Receiver, request_of_one: ExportTraceServiceRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as other:
        for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "HTTP_PROXY"):
            monkeypatch.setenv(name, other.url)
            monkeypatch.setenv(name.lower(), other.url)
        with Collector(receiver.url) as collector:
            collector.send(request_of_one)
        assert (len(receiver.received), len(other.paths)) == (1, 0)


def test_headers_of_the_environment_are_sent(
    receiver: Receiver, request_of_one: ExportTraceServiceRequest
) -> None:
    send(receiver, request_of_one, OTEL_EXPORTER_OTLP_HEADERS="Authorization=Basic%20a2V5, x-version=4")
    assert receiver.headers[0]["authorization"] == "Basic a2V5"
    assert receiver.headers[0]["x-version"] == "4"


@pytest.mark.parametrize("text", ["secret", "a=b,secret", "a=secret%0d%0ab", "a b=secret", "a=secr\u00e9t"])
def test_headers_that_cannot_be_read_are_not_shown(text: str) -> None:
    with pytest.raises(SpanExportError, match="OTEL_EXPORTER_OTLP_HEADERS") as error:
        read_headers(text)
    assert "secr" not in str(error.value)


def test_a_redirect_names_both_hosts_and_calls_no_other(request_of_one: ExportTraceServiceRequest) -> None:
    with redirecting() as pair, Collector(pair.url) as collector:
        with pytest.raises(SpanExportError) as caught:
            collector.send(request_of_one)
        assert all(host in str(caught.value) for host in pair.hosts)
        assert SECRET not in str(caught.value)
        assert pair.leaked == []


def test_a_busy_collector_is_asked_again(
    receiver: Receiver, request_of_one: ExportTraceServiceRequest
) -> None:
    receiver.statuses = [503]
    assert send(receiver, request_of_one) is None
    assert len(receiver.received) == 1


def test_spans_that_are_refused_are_told(
    receiver: Receiver, request_of_one: ExportTraceServiceRequest
) -> None:
    receiver.refuses = 1
    assert send(receiver, request_of_one) == Refusal(1, "too old")


def test_a_missing_key_is_named_with_its_variable(
    receiver: Receiver, request_of_one: ExportTraceServiceRequest
) -> None:
    receiver.statuses = [401]
    with pytest.raises(SpanExportError, match=r"401 Unauthorized; .* OTEL_EXPORTER_OTLP_HEADERS"):
        send(receiver, request_of_one)


@pytest.mark.parametrize(
    ("status", "said"),
    [(404, "it answers 404 Not Found"), (0, "Server disconnected without sending a response.")],
)
@pytest.mark.parametrize("grpc", [False, True])
def test_what_is_no_collector_is_named_with_a_hint(
    receiver: Receiver,
    request_of_one: ExportTraceServiceRequest,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    said: str,
    grpc: bool,
) -> None:
    receiver.statuses = [status]
    if grpc:
        monkeypatch.setattr("evals.spans.collector._GRPC_PORT", receiver.port)
    with pytest.raises(SpanExportError) as caught:
        send(receiver, request_of_one)
    hint = "is usually for gRPC; HTTP uses 4318" if grpc else "does it take OTLP over HTTP at this path?"
    assert said in str(caught.value) and str(caught.value).endswith(hint)


def test_a_key_within_the_address_is_not_shown() -> None:
    with Collector("http://me:secret@127.0.0.1:4318/?token=secret", {}) as collector:
        assert collector.name == "http://127.0.0.1:4318/v1/traces"


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://host:4318", "http://host:4318/v1/traces"),
        ("http://host:4318/", "http://host:4318/v1/traces"),
        ("https://host/api/public/otel", "https://host/api/public/otel/v1/traces"),
        ("http://host/v1/traces", "http://host/v1/traces"),
    ],
)
def test_the_path_of_traces_is_added_once(url: str, endpoint: str) -> None:
    assert traces_endpoint(url) == endpoint


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://host", "http://", "http://host:port", "/v1/traces"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SpanExportError, match="is not an address such as"):
        traces_endpoint(url)


def test_the_command_names_the_headers_and_never_their_values(
    run: RunFolder, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HEADERS_VARIABLE, "x-key=secret,x-tenant=ours")
    sent = _send([run], receiver.url, 3, payloads=False)
    assert (sent["taken"] > 0, sent["refused"]) == (True, 0)
    told = capsys.readouterr().err
    assert f"with headers of {HEADERS_VARIABLE}: x-key, x-tenant" in told
    assert "secret" not in told and "refused" not in told
    assert receiver.headers[0]["x-key"] == "secret"
