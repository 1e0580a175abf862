"""The spans of a run, and where calls are placed within their node."""

from __future__ import annotations

import shutil
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest

from evals.spans.of_run import call_intervals, nanoseconds, traces
from evals.spans.otlp import Span
from runs.record.folder import RunFolder
from runs.record.trace_file import TRACE, pack


def rewritten(run: RunFolder, copy: Path, old: str, new: str) -> Path:
    """A copy of the run with other words in its trace."""
    shutil.copytree(run.path, copy)
    passes = [orjson.loads(orjson.dumps(lines).decode().replace(old, new)) for _, lines in run.passes()]
    (copy / TRACE).write_bytes(b"".join(map(pack, passes)))
    return copy


@pytest.fixture(scope="module")
def spans(run: RunFolder) -> list[Span]:
    return list(chain.from_iterable(traces(run, payloads=False)))


def test_a_pass_is_a_trace_of_its_nodes_and_calls(run: RunFolder) -> None:
    found = list(traces(run, payloads=False))
    for spans, (case_id, lines) in zip(found, run.passes(), strict=True):
        root, *rest = spans
        assert (root.name, root.attributes["evigraph.case_id"]) == ("invoke_agent tamu", case_id)
        assert len({span.trace_id for span in spans}) == 1
        nodes = [span for span in rest if span.parent_id == root.span_id]
        assert [span.name for span in nodes] == [line["node"] for line in lines[:-1]]
        for node, line in zip(nodes, lines[:-1], strict=True):
            calls = [span for span in rest if span.parent_id == node.span_id]
            assert [c.attributes["evigraph.call.key"] for c in calls] == [c["key"] for c in line["calls"]]


def test_no_two_spans_share_an_id(spans: list[Span]) -> None:
    assert len({span.span_id for span in spans}) == len(spans)
    assert {len(span.span_id) for span in spans} == {8}
    assert {len(span.trace_id) for span in spans} == {16}


def test_a_span_lies_within_its_parent(spans: list[Span]) -> None:
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        if span.parent_id is not None:
            parent = by_id[span.parent_id]
            # Begin and length are rounded apart from each other, to a tenth of a millisecond.
            assert parent.start_ns <= span.start_ns <= span.end_ns <= parent.end_ns + 200_000


def test_a_second_export_makes_the_same_spans_wherever_the_run_lies(
    run: RunFolder, spans: list[Span], tmp_path: Path
) -> None:
    moved = shutil.copytree(run.path, tmp_path / "moved")
    assert list(chain.from_iterable(traces(RunFolder(moved), payloads=False))) == spans


def test_tokens_add_up_to_those_of_the_cases(run: RunFolder, spans: list[Span]) -> None:
    for name in ("input_tokens", "output_tokens"):
        wanted = sum(line["usage"][name] for line in run.cases())
        assert sum(int(str(span.attributes.get(f"gen_ai.usage.{name}", 0))) for span in spans) == wanted


def test_tokens_of_a_replayed_call_do_not_count_again(run: RunFolder, tmp_path: Path) -> None:
    copy = rewritten(run, tmp_path / "copy", '"replayed":false', '"replayed":true')
    found = [span for spans in traces(RunFolder(copy), payloads=False) for span in spans]
    calls = [span for span in found if span.name.startswith("chat ")]
    assert calls
    assert not any("gen_ai.usage.input_tokens" in span.attributes for span in calls)
    assert not any("llm.token_count.prompt" in span.attributes for span in calls)
    assert all(span.start_ns == span.end_ns for span in calls)


def test_thinking_and_effort_are_of_the_calls_that_have_them(run: RunFolder, tmp_path: Path) -> None:
    thought = '"thinking_tokens":7,"effort":"low","replayed":false'
    copy = rewritten(run, tmp_path / "copy", '"replayed":false', thought)
    calls = [
        {name: value for name, value in span.attributes.items() if "reasoning" in name}
        for spans in traces(RunFolder(copy), payloads=False)
        for span in spans
        if span.name.startswith("chat ")
    ]
    told = {
        "gen_ai.usage.reasoning.output_tokens": 7,
        "llm.token_count.completion_details.reasoning": 7,
        "gen_ai.request.reasoning.level": "low",
    }
    assert told in calls and all(one in (told, {}) for one in calls)


@pytest.mark.parametrize("payloads", [False, True])
def test_a_fault_of_a_reply_is_quoted_with_payloads_alone(run: RunFolder, payloads: bool) -> None:
    found = [span for spans in traces(run, payloads=payloads) for span in spans]
    faulty = [span for span in found if span.name.startswith("chat ") and span.failed]
    assert faulty and all(bool(span.message) is payloads for span in faulty)


def test_a_call_that_the_journal_no_longer_has_is_without_its_texts(run: RunFolder, tmp_path: Path) -> None:
    copy = rewritten(run, tmp_path / "copy", '"key":"', '"key":"gone')
    calls = [
        span
        for spans in traces(RunFolder(copy), payloads=True)
        for span in spans
        if span.name.startswith("chat ")
    ]
    assert calls and not any("gen_ai.input.messages" in span.attributes for span in calls)


def test_a_case_that_could_not_be_read_begins_with_its_run(run: RunFolder, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    (_, (*_, end)), *_ = run.passes()
    (copy / TRACE).write_bytes(pack([{**end, "started_at": None}]))
    ((root,),) = traces(RunFolder(copy), payloads=False)
    begun = datetime.fromisoformat(run.manifest.sessions[0].started)
    assert root.start_ns == nanoseconds(begun.timestamp())


def test_a_failed_case_is_an_error_with_its_class(spans: list[Span]) -> None:
    roots = {span.attributes["evigraph.case_id"]: span for span in spans if span.parent_id is None}
    assert [roots[case].failed for case in ("plain", "quotes", "fails")] == [False, False, True]
    assert roots["fails"].attributes["error.type"] == "context_length"
    failed = [span for span in spans if span.trace_id == roots["fails"].trace_id and span.failed]
    assert "generate_answer" in {span.name for span in failed}


def test_a_call_names_its_model_and_the_kind_that_phoenix_shows(spans: list[Span]) -> None:
    chat = next(span for span in spans if span.name.startswith("chat "))
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.provider.name"] == "scripted"
    assert chat.attributes["gen_ai.request.model"] == chat.attributes["llm.model_name"]
    assert chat.attributes["openinference.span.kind"] == "LLM"


def test_a_server_is_told_by_host_and_port_alone(run: RunFolder, tmp_path: Path) -> None:
    server = '"server":"https://me:key@host/v1?a=b"'
    copy = rewritten(run, tmp_path / "copy", '"server":"scripted"', server)
    found = [span for spans in traces(RunFolder(copy), payloads=False) for span in spans]
    chat = next(span for span in found if span.name.startswith("chat "))
    assert chat.kind == "client"
    assert (chat.attributes["server.address"], chat.attributes["server.port"]) == ("host", 443)
    assert "key" not in {str(value) for value in chat.attributes.values()}


def test_a_case_that_ran_again_is_a_second_trace(run: RunFolder, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    trace = copy / TRACE
    trace.write_bytes(2 * trace.read_bytes())
    roots = [spans[0] for spans in traces(RunFolder(copy), payloads=False)]
    assert [root.attributes["evigraph.pass"] for root in roots] == [0, 0, 0, 1, 1, 1]
    assert len({root.trace_id for root in roots}) == 6


def test_a_pass_that_a_kill_has_torn_is_left_out(run: RunFolder, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    trace = copy / TRACE
    trace.write_bytes(trace.read_bytes()[:-1])
    assert len(list(traces(RunFolder(copy), payloads=False))) == 2


def test_the_answer_is_the_output_of_its_trace(run: RunFolder) -> None:
    roots = {spans[0].attributes["evigraph.case_id"]: spans[0] for spans in traces(run, payloads=True)}
    assert roots["plain"].attributes["output.value"] == run.require_case("plain")["answer"]


SECOND = nanoseconds(1)
NODE = (10 * SECOND, 15 * SECOND)


def call(seconds: float, sample: int = 0, *, replayed: bool = False) -> dict[str, Any]:
    return {"role": "label", "sample": sample, "seconds": seconds, "replayed": replayed}


@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        ([call(2)], [(13, 15)]),
        ([call(1), call(2)], [(12, 13), (13, 15)]),
        ([call(3, 0), call(3, 1), call(1, 1)], [(12, 15), (11, 14), (14, 15)]),
        ([call(9)], [(10, 15)]),
        ([call(3, replayed=True)], [(15, 15)]),
    ],
    ids=["ends with its node", "correction", "samples", "not before its node", "replayed"],
)
def test_calls_end_with_their_node(calls: list[dict[str, Any]], wanted: list[tuple[float, float]]) -> None:
    assert [(begin / SECOND, end / SECOND) for begin, end in call_intervals(calls, NODE)] == wanted
