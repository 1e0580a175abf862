"""The parts of an optimisation, and scores of runs on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from evals.optimisation.run import HEADLINE, evidence_scores
from evals.optimisation.split import CaseFiles, Part, split_cases
from runs.record.folder import RunFolder
from storage.errors import InputError
from tests.evals.optimisation.answering import write_inputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_inputs(tmp_path)
    return tmp_path


def rewritten(folder: Path, name: str, **changed: object) -> CaseFiles:
    lines = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    (folder / name).write_text("".join(json.dumps(line | changed) + "\n" for line in lines))
    return CaseFiles((folder / name,))


def files(folder: Path) -> CaseFiles:
    return CaseFiles((folder / "cases.jsonl",))


def test_parts_share_no_case_and_do_not_depend_on_the_order_of_the_file(folder: Path) -> None:
    split = split_cases(files(folder), 0.25, 1, folder / "one")
    ids = [{case.id for case in part.cases} for part in (split.search, split.test)]
    assert (len(ids[0]), len(ids[1]), len(ids[0] | ids[1])) == (12, 4, 16)
    split.write()
    lines = (folder / "cases.jsonl").read_text().splitlines()
    (folder / "cases.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    again = split_cases(files(folder), 0.25, 1, folder / "two")
    again.write()
    assert (folder / "one" / "test.jsonl").read_bytes() == (folder / "two" / "test.jsonl").read_bytes()
    assert [case.id for case in again.search.cases] == [case.id for case in split.search.cases]
    other = split_cases(files(folder), 0.25, 2, folder / "three")
    assert {case.id for case in other.test.cases} != ids[1]


def test_a_case_under_two_ids_is_in_one_part(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    twins = [line | {"case_id": f"twin-{line['case_id']}"} for line in lines]
    (folder / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (*lines, *twins)))
    for seed in range(5):
        # The place of the share is between two twins.
        split = split_cases(files(folder), 17 / 32, seed, folder / "parts")
        assert len(split.search.cases) == len(split.test.cases)
        here, there = (
            {case.id.removeprefix("twin-") for case in part.cases} for part in (split.search, split.test)
        )
        assert not here & there


def test_a_case_of_another_file_must_be_another_case(folder: Path) -> None:
    with pytest.raises(InputError, match=r"case 'k\d+' is among the cases of the search too"):
        split_cases(files(folder), files(folder), 1, folder / "parts")


def test_other_cases_of_another_file_are_the_held_out_part(folder: Path) -> None:
    lines = (folder / "cases.jsonl").read_text().splitlines(keepends=True)
    (folder / "search.jsonl").write_text("".join(lines[:9]))
    (folder / "test.jsonl").write_text("".join(lines[9:]))
    search, test = (CaseFiles((folder / f"{name}.jsonl",)) for name in ("search", "test"))
    split = split_cases(search, test, 1, folder / "parts")
    assert {case.id for case in split.search.cases} == {f"k{number}" for number in range(9)}
    assert {case.id for case in split.test.cases} == {f"k{number}" for number in range(9, 16)}


def test_cases_without_labels(folder: Path) -> None:
    bare = rewritten(folder, "bare.jsonl", labels=None)
    with pytest.raises(InputError, match=r"none of its 16 cases has labels.*Give the key: --key FILE"):
        split_cases(bare, 0.5, 1, folder / "parts")


def test_weak_labels_are_counted(folder: Path) -> None:
    weak = rewritten(folder, "weak.jsonl", label_source="weak")
    assert split_cases(weak, 0.5, 1, folder / "parts").weak == 16


class Ran:
    """A run with these lines."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self._lines = lines

    def cases(self) -> tuple[dict[str, Any], ...]:
        return self._lines


@pytest.fixture
def part(tmp_path: Path) -> Part:
    write_inputs(tmp_path)
    return split_cases(CaseFiles((tmp_path / "cases.jsonl",)), 0.5, 1, tmp_path / "parts").search


def done(part: Part, place: int) -> dict[str, Any]:
    case = part.cases[place]
    return {"case_id": case.id, "status": "done", "labels": dict(case.gold.labels or {})}


def test_a_case_that_failed_counts_as_one_without_evidence(part: Part) -> None:
    failed = {"case_id": part.cases[1].id, "status": "failed", "labels": None}
    for lines in ([done(part, 0), failed], [done(part, 0)]):
        scores, failures = evidence_scores(cast("RunFolder", Ran(*lines)), part, 2)
        assert failures == 1
        # One of two essential sentences is found.
        assert scores.values[HEADLINE] == pytest.approx(100 * 2 / 3)


def test_only_the_first_cases_count(part: Part) -> None:
    every = Ran(*(done(part, place) for place in range(4)))
    scores, failures = evidence_scores(cast("RunFolder", every), part, 2)
    assert (len(scores.case_ids), failures) == (2, 0)
