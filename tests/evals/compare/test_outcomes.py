from __future__ import annotations

from pathlib import Path
from typing import Any

from evals.compare.outcomes import Usage, read_outcomes
from runs.record.folder import RunFolder, RunWriter
from tests.evals.compare.builders import manifest


def line(case_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "case_id": case_id,
        "status": "done",
        "error": None,
        "labels": {"1": "essential", "2": "not-essential"},
        "intent": {"primary": "prognosis"},
        "answer": "Yes.",
        "usage": {"calls": 1, "input_tokens": 2, "output_tokens": 3},
    } | changes


def step(case_id: str, number: int, node: str, *following: str, **facts: Any) -> dict[str, Any]:
    return {"case_id": case_id, "step": number, "node": node, "next": list(following), "facts": facts}


def end(case_id: str, number: int) -> dict[str, Any]:
    return {"case_id": case_id, "step": number, "node": "__end__"}


def test_the_last_pass_of_a_case_counts(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", manifest()) as folder:
        error = {"class": "timeout", "message": "late"}
        first = [step("a", 0, "label", "reflect"), end("a", 1)]
        folder.append(line("a", status="failed", error=error, labels={}, intent=None), first)
        folder.append(line("b"), [step("b", 0, "label", "answer"), end("b", 1)])
        folder.append(line("a"), [step("a", 0, "label", "answer"), end("a", 1)])
    run = read_outcomes(RunFolder(tmp_path / "run"))
    assert run.cases["a"].error is None
    assert run.cases["a"].route == run.cases["b"].route == ("label -> answer",)
    assert run.cases["a"].usage == Usage(1, 2, 3)
    assert run.cases["a"].essential == {"1"}


def test_a_fan_out_is_one_step_and_a_loop_is_several(tmp_path: Path) -> None:
    votes = [step("a", number, "reflect", "aggregate") for number in (1, 2, 3)]
    trace = [
        step("a", 0, "label", "reflect"),
        *votes,
        step("a", 4, "aggregate", "answer"),
        step("a", 5, "answer", "check"),
        step("a", 6, "check", "answer"),
        step("a", 7, "answer", "check"),
        end("a", 8),
    ]
    with RunWriter.create(tmp_path / "run", manifest()) as folder:
        folder.append(line("a"), trace)
    assert read_outcomes(RunFolder(tmp_path / "run")).cases["a"].route == (
        "label -> reflect",
        "reflect -> aggregate",
        "aggregate -> answer",
        "answer -> check",
        "check -> answer",
        "answer -> check",
    )


def test_demonstrations_are_known_from_the_trace(tmp_path: Path) -> None:
    chosen = [{"case_id": "7"}, {"case_id": "9"}]
    with RunWriter.create(tmp_path / "run", manifest()) as folder:
        trace = [step("a", 0, "retrieve_evidence_demonstrations", "label", chosen=chosen), end("a", 1)]
        folder.append(line("a"), trace)
    assert read_outcomes(RunFolder(tmp_path / "run")).shown == {"7", "9"}


def test_a_run_without_a_trace_has_cases(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", manifest()) as folder:
        folder.append(line("a"), [])
    (tmp_path / "run" / "trace.jsonl.gz").unlink()
    assert read_outcomes(RunFolder(tmp_path / "run")).cases["a"].route == ()
