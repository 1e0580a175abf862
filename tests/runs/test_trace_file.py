from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from nodes.core.failure import NodeFailure
from runs.record.manifest import RunError
from runs.record.trace_file import TRACE, CaseTrace, TraceFile, open_for_append, pack

A = [{"case_id": "a", "step": 0, "node": "x"}, {"case_id": "a", "step": 1, "node": "__end__"}]
B = [{"case_id": "b", "step": 0, "node": "\u00e4\U0001f600"}]


def written(folder: Path, *passes: list[dict[str, Any]]) -> Path:
    path = folder / TRACE
    path.write_bytes(b"".join(map(pack, passes)))
    return path


def test_passes_come_back_in_the_order_of_writing(tmp_path: Path) -> None:
    written(tmp_path, A, B, A)
    assert list(TraceFile(tmp_path).passes()) == [A, B, A]


def test_a_pass_is_read_by_its_place_alone(tmp_path: Path) -> None:
    written(tmp_path, A, B)
    trace = TraceFile(tmp_path)
    first, second = trace.places()
    assert trace.read(second) == B
    assert list(trace.places(after=first)) == [second]


def test_any_gzip_reads_the_file(tmp_path: Path) -> None:
    text = gzip.decompress(written(tmp_path, A, B).read_bytes()).decode()
    assert [json.loads(line) for line in text.splitlines()] == A + B


@pytest.mark.parametrize("kept", [1, 19, 30])
def test_a_torn_pass_is_passed_over_and_cut_off_by_the_next_writer(tmp_path: Path, kept: int) -> None:
    path = written(tmp_path, A)
    whole = path.read_bytes()
    path.write_bytes(whole + pack(B)[:kept])
    assert list(TraceFile(tmp_path).passes()) == [A]
    open_for_append(tmp_path).close()
    assert path.read_bytes() == whole


def test_zeros_of_a_lost_power_are_cut_off(tmp_path: Path) -> None:
    path = written(tmp_path, A)
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(5000))
    open_for_append(tmp_path).close()
    assert path.read_bytes() == whole


def test_a_file_damaged_in_its_middle_is_not_written_to(tmp_path: Path) -> None:
    path = written(tmp_path, A, B)
    damaged = bytearray(path.read_bytes())
    damaged[0] = 0
    path.write_bytes(damaged)
    with pytest.raises(RunError, match="damaged from byte 0 on"):
        open_for_append(tmp_path)
    assert path.read_bytes() == damaged


def test_damaged_bytes_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, A, B)
    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(RunError, match=r"trace\.jsonl\.gz: damaged from byte 0 to"):
        list(TraceFile(tmp_path).passes())


@pytest.mark.parametrize(
    ("content", "fault", "start"),
    [
        (b"text" + pack(A), "is not a pass", 0),
        (b"text", "is not a pass", 0),
        (pack(A) + b"text" + pack(B), "is not a pass", len(pack(A))),
        (pack(A) + bytes(9), "", len(pack(A))),
        (bytes(9), "", 0),
        (pack([]), "holds no lines of a case", 0),
        (pack(A) + pack([{"node": "x"}]), "holds no lines of a case", len(pack(A))),
    ],
)
def test_what_is_no_pass_is_named_by_its_place(
    tmp_path: Path, content: bytes, fault: str, start: int
) -> None:
    (tmp_path / TRACE).write_bytes(content)
    (bad,) = (one for one in TraceFile(tmp_path).members() if one.lines is None)
    assert (bad.fault, bad.start) == (fault, start)


def test_a_run_without_a_trace_has_no_passes(tmp_path: Path) -> None:
    assert list(TraceFile(tmp_path).passes()) == []


def test_the_calls_of_a_failure_are_of_one_of_the_nodes_that_failed() -> None:
    trace = CaseTrace("a", {})
    failures = {name: NodeFailure("timeout", f"{name} is late") for name in ("x", "y")}
    for name, failure in failures.items():
        trace.record({"id": name, "name": name, "input": {}}, 1)
        trace.record({"id": name, "name": name, "result": None, "error": failure}, 1)
    reasons = [line["because"] for line in trace.lines(failures["x"])]
    assert reasons == ["failed: timeout: x is late", "failed: NodeFailure: y is late"]
