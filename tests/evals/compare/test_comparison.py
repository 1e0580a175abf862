from __future__ import annotations

import json
from typing import Any

import pytest

from evals.compare.outcomes import Setting, differing_settings, phrases
from runs.record.manifest import Model
from tests.evals.compare.builders import compared, gold, manifest, outcome, run

KEY = gold(a="1 2", b="3", c="1")
FIRST = run(outcome("a", "1"), outcome("b", "3"), outcome("c", "2"), name="first")
SECOND = run(outcome("a", "1 2"), outcome("b", "3", answer="Secret words."), outcome("c", "1"), name="second")


def test_all_parts_of_a_comparison_tell_of_the_same_cases() -> None:
    found = compared(FIRST, SECOND, KEY)
    (task,) = found.tasks
    assert task.cases == len(found.changes) == 3
    strict = {metric.name: metric for metric in task.metrics}["strict_micro_f1"]
    assert (strict.first.value, strict.second.value) == pytest.approx((100 * 4 / 7, 100))
    assert (found.labels.sentences, found.labels.equal, found.labels.essential) == (12, 9, (3, 4))
    assert found.usage[0] == (6, 300, 30)


def test_a_run_beside_itself_has_no_difference() -> None:
    found = compared(FIRST, FIRST, KEY)
    assert {metric.difference[:3] for task in found.tasks for metric in task.metrics} == {(0.0, 0.0, 0.0)}
    assert {metric.p_value for task in found.tasks for metric in task.metrics} == {1.0}
    assert (found.labels.kappa, found.settings) == (1.0, ())
    assert not any(change.answer_changed or change.route_changed for change in found.changes)


def test_json_holds_ids_and_numbers_and_no_answer() -> None:
    text = json.dumps(compared(FIRST, SECOND, KEY).as_json(), allow_nan=False)
    said: dict[str, Any] = json.loads(text)
    assert "Secret" not in text
    assert said["cases"]["answers_changed"] == ["b"]
    assert [case["case_id"] for case in said["cases"]["gained"]] == ["c", "a"]
    assert said["cases"]["gained"][0]["found"] == ["1"]
    assert said["tasks"][0]["metrics"][0]["difference"].keys() == {"value", "interval"}


def test_one_case_has_no_interval_and_is_still_json() -> None:
    found = compared(run(outcome("a", "1")), run(outcome("a", "2")), KEY)
    said = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert said["tasks"][0]["metrics"][0]["difference"]["interval"] is None


def test_without_a_key_changes_are_told() -> None:
    found = compared(FIRST, SECOND, {})
    assert found.tasks == ()
    assert found.labels.kappa == pytest.approx(0.4, abs=0.1)
    assert [change.case_id for change in found.changes if change.added or change.removed] == ["a", "c"]


def test_runs_without_a_common_case_can_be_looked_at() -> None:
    found = compared(run(outcome("a")), run(outcome("z")), KEY)
    assert (found.changes, found.tasks, found.labels.sentences) == ((), (), 0)
    json.dumps(found.as_json(), allow_nan=False)


def test_settings_that_differ_are_named() -> None:
    first = run(
        outcome("a"),
        recipe={"evidence": {"votes": 3, "threshold": 2}},
        prompts={"x": "1" * 64},
        models={"label": Model(name="vllm:m@http://127.0.0.1:2/v1", revision="r")},
    )
    second = run(
        outcome("a"),
        recipe={"evidence": {"votes": 5, "threshold": 2}},
        prompts={"x": "2" * 64},
        models={"label": Model(name="vllm:m@http://127.0.0.1:1/v1")},
    )
    assert compared(first, second, KEY).settings == (
        Setting("evidence.votes", "3", "5"),
        Setting("model of label", "vllm:m r", "vllm:m"),
        Setting("prompt x", "1" * 12, "2" * 12),
    )


def test_settings_of_one_run_are_named_by_their_section_in_words() -> None:
    first = manifest(
        system="heids",
        recipe={"seed": 1, "answer": {"words": 75}, "retrieval": {"a": 1}, "calibration": {"x": "y" * 90}},
        prompts={"generate_cited_answer": "1" * 64},
        models={"label": Model(name="vllm:a", revision="r" * 40)},
        versions={"torch": "1", "numpy": "1"},
    )
    second = manifest(
        recipe={"seed": 2, "answer": {"words": 60, "least": 0.5}},
        models={"label": Model(name="vllm:b")},
        versions={"torch": "2"},
    )
    assert phrases(differing_settings(first, second)) == [
        "system (heids in A, tamu in B)",
        f"the model (vllm:a {'r' * 12} in A, vllm:b in B)",
        "the prompt generate cited answer",
        "answer.words (75 in A, 60 in B)",
        "seed (1 in A, 2 in B)",
        "answer.least (0.5 in B alone)",
        "calibration and retrieval (in A alone)",
        "the versions of torch and numpy",
    ]
    assert phrases(differing_settings(first, first)) == []
