"""Files for `vllm run-batch`, in the form of its own types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.batches.provider import BatchRow, RowResult
from serving.batches.providers.files import CONSTRAINTS, RunBatchFiles
from serving.errors import CallError
from serving.model_name import ModelName
from tests.serving.batches.emulators.openai import completion
from tests.serving.batches.harness import key_of, prompt
from tests.serving.hosted_models import call

FILES = RunBatchFiles(ModelName("vllm", "org/tiny"))


def rows(count: int, samples: int = 1) -> list[BatchRow]:
    return [FILES.row(key_of(n), prompt(n), call(CONSTRAINTS[0], samples=samples)) for n in range(count)]


def answered(line: dict[str, Any], **beside: Any) -> dict[str, Any]:
    """As `BatchRequestOutput` writes it."""
    response = {"status_code": 200, "request_id": "vllm-batch-1", "body": completion(line["body"])}
    return {"id": "vllm-1", "custom_id": line["custom_id"], "response": response, "error": None} | beside


def failed(status: int, error: Any) -> dict[str, Any]:
    """An error stands beside a response without a body."""
    return {"response": {"status_code": status, "request_id": "r", "body": None}, "error": error}


async def read(path: Path, lines: list[dict[str, Any]], samples: int = 1) -> list[RowResult]:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return [one async for one in FILES.read(path, lambda _: samples)]


def requests(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_a_line_has_what_vllm_demands(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    assert FILES.write(path, iter(rows(3))) == 3
    lines = requests(path)
    assert [line.keys() for line in lines] == [{"custom_id", "method", "url", "body"}] * 3
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    assert [line["custom_id"] for line in lines] == [key_of(n) for n in range(3)]
    assert lines[0]["body"]["model"] == "org/tiny"
    assert "grammar" in lines[0]["body"]["structured_outputs"]
    assert list(tmp_path.iterdir()) == [path]


async def test_results_come_back_by_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    FILES.write(path, rows(2, samples=2))
    results = await read(tmp_path / "results.jsonl", [answered(line) for line in requests(path)], samples=2)
    assert [(one.custom_id, len(one.answers)) for one in results] == [(key_of(0), 2), (key_of(1), 2)]


@pytest.mark.parametrize(
    ("beside", "error_class"),
    [
        (failed(400, "Request must not be sent in stream mode"), "internal"),
        (failed(400, {"error": {"message": "maximum context length is 10", "code": 400}}), "context_length"),
        (failed(500, {"error": {"message": "EngineDeadError", "code": 500}}), "connection"),
        ({"response": None, "error": "gone"}, "internal"),
        ({"response": None, "error": None}, "connection"),
    ],
)
async def test_a_row_fails_alone_with_vllms_reason(
    tmp_path: Path, beside: dict[str, Any], error_class: str
) -> None:
    path = tmp_path / "requests.jsonl"
    FILES.write(path, rows(2))
    first, second = requests(path)
    bad, good = await read(tmp_path / "results.jsonl", [answered(first, **beside), answered(second)])
    assert bad.failure is not None and bad.failure.error_class == error_class
    assert str(bad.failure).startswith("results.jsonl: ")
    assert good.failure is None


async def test_the_answers_of_another_model_are_no_answers(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    FILES.write(path, rows(1))
    (line,) = requests(path)
    line["body"]["model"] = "org/other"
    (one,) = await read(tmp_path / "results.jsonl", [answered(line)])
    assert one.failure is not None and "org/other" in str(one.failure)


async def test_a_file_that_was_cut_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    FILES.write(path, rows(2))
    lines = [json.dumps(answered(line)) for line in requests(path)]
    path.write_text("\n".join(lines)[:-20], "utf-8")
    given = []
    with pytest.raises(CallError, match="line 2"):
        async for one in FILES.read(path, lambda _: 1):
            given.append(one)
    assert [one.custom_id for one in given] == [key_of(0)]


def test_a_file_that_cannot_be_finished_is_not_there(tmp_path: Path) -> None:
    def broken() -> Iterator[BatchRow]:
        yield rows(1)[0]
        raise KeyError("broken")

    with pytest.raises(KeyError):
        FILES.write(tmp_path / "requests.jsonl", broken())
    assert list(tmp_path.iterdir()) == []
