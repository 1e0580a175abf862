"""Which cases of a run and of case files can be calibrated on, and with which votes and scores."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from evals.calibration.labelled_cases import CalibrationData, from_cases, from_run
from evals.errors import CalibrationError
from tests.evals.scoring.runs import done, failed, make_run
from tests.evigraph import edit_manifest

LABELS = {"1": "essential", "2": "not-relevant", "3": "essential"}


def case(case_id: str, **fields: Any) -> dict[str, Any]:
    sentences = ["Heparin was given.", "He slept well.", "The clot was removed."]
    return {
        "case_id": case_id,
        "question": "Why heparin?",
        "sentences": sentences,
        "labels": LABELS,
        **fields,
    }


def voted(case_id: str, calls: int = 2) -> dict[str, Any]:
    usage = {"calls": calls, "input_tokens": 100, "output_tokens": 10 * calls}
    return done(case_id, vote_counts={"1": 3, "2": 2, "3": 1}, usable_votes=3, usage=usage)


def write(path: Path, cases: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in cases))
    return path


def run_of(
    folder: Path,
    lines: Iterable[dict[str, Any]],
    cases: Iterable[dict[str, Any]] | None = None,
    **fields: Any,
) -> Path:
    """A finished run; of two cases, if no others are given."""
    run = make_run(folder, (), lines)
    write(folder / "cases.jsonl", [case("7"), case("8")] if cases is None else cases)
    recipe = {"system": "tamu", "evidence": {"votes": 3, "threshold": 2}}
    edit_manifest(run.path, **{"status": "finished", "recipe": recipe, **fields})
    return run.path


async def read(run: Path, ranker: str | None = None) -> CalibrationData:
    return await from_run(run, [], ranker, lambda text: None, lambda done, whole: None)


async def test_cases_that_are_not_used_are_counted_by_the_reason(tmp_path: Path) -> None:
    cases = [case("7"), case("8"), case("9"), case("new"), case("unlabelled", labels=None)]
    others = [case("weak", label_source="weak"), case("bare", sentences=[], labels=None)]
    lines = [voted("7"), voted("8", 4), failed("9"), voted("weak"), voted("bare")]
    found = await read(run_of(tmp_path, lines, [*cases, *others]))
    assert [one.case_id for one in found.cases] == ["7", "8"]
    assert found.left_out == {
        "unlabelled": 1,
        "labelled by a model": 1,
        "without sentences": 1,
        "failed or never run": 2,
    }
    assert found.cost == {"calls": 3, "tokens": 130}
    assert found.cases[0].uncalibrated.tolist() == [True, True, False]
    assert found.cases[0].essential.tolist() == [True, False, True]
    assert (found.ranker, found.notes) == (None, [])


@pytest.mark.parametrize(
    ("fields", "ranker", "fault"),
    [
        ({"inputs": {"paths": [], "sha256": "", "cases": 2}}, None, "the run names no case files"),
        (
            {"recipe": {"system": "tamu", "stop_after": "question", "question": {"interpret": "always"}}},
            None,
            "stops before evidence",
        ),
        (
            {"recipe": {"system": "tamu", "evidence": {"voters": "both", "ranker": "bm25"}}},
            "logistic",
            "its ranker is 'bm25', and --ranker 'logistic'; leave --ranker out",
        ),
    ],
)
async def test_a_run_that_does_not_fit_is_refused(
    tmp_path: Path, fields: dict[str, Any], ranker: str | None, fault: str
) -> None:
    run = run_of(tmp_path, [voted("7"), voted("8")], **fields)
    with pytest.raises(CalibrationError, match=fault):
        await read(run, ranker)


async def test_a_ranker_that_voted_alone_gives_its_scores(tmp_path: Path) -> None:
    ranked = {
        "vote_counts": {"1": 1, "2": 0, "3": 0},
        "usable_votes": 1,
        "ranker_vote": {"essential": ["1"]},
        "ranker_scores": {"1": 2.5, "2": -1.0, "3": 0.5},
    }
    recipe = {"system": "tamu", "evidence": {"voters": "ranker", "ranker": "bm25"}}
    lines = [voted(id_) | ranked for id_ in "78"]
    found = await read(run_of(tmp_path, lines, recipe=recipe))
    first = found.cases[0]
    assert (first.model, found.ranker) == (None, "bm25")
    assert first.uncalibrated.tolist() == [True, False, False]
    assert first.uncalibrated_sums.tolist() == [2.5, -1.0, 0.5]


async def test_prompts_are_not_held_against_a_pool_that_has_moved(tmp_path: Path) -> None:
    moved = {"demonstrations": {"folder": str(tmp_path / "gone")}}
    found = await read(run_of(tmp_path, [voted("7"), voted("8")], resources=moved))
    assert found.notes == []


async def test_without_a_clinician_question_the_ranker_reads_the_patients(tmp_path: Path) -> None:
    asked = case("8", question="", narrative="I wonder. Why heparin?")
    path = write(tmp_path / "cases.jsonl", [case("7"), asked])
    found = await from_cases([path], [], "bm25", "tamu", lambda done, whole: None)
    first, second = (one.ranker for one in found.cases)
    assert first is not None and second is not None
    assert first.tolist() == second.tolist() != [0, 0, 0]
    write(path, [case("7"), case("8", question="")])
    with pytest.raises(CalibrationError, match="case '8': the case has neither a clinician question nor"):
        await from_cases([path], [], "bm25", "tamu", lambda done, whole: None)


async def test_a_ranker_is_added_to_the_votes_of_a_run(tmp_path: Path) -> None:
    run = run_of(tmp_path, [voted("7"), voted("8")])
    steps: list[tuple[int, int]] = []
    found = await from_run(
        run, [], "bm25", lambda text: None, lambda done, whole: steps.append((done, whole))
    )
    assert steps == [(1, 2), (2, 2)]
    assert found.ranker == "bm25" and all(one.ranker is not None for one in found.cases)
    assert found.sha256 != (await read(run)).sha256
