from __future__ import annotations

from evals.bench import replies


def test_both_forms_are_run_on_the_same_cases() -> None:
    said: list[str] = []
    given = replies.measure(replies.Options("scripted:auto", cases=2), said.append).as_json()
    (comparison,) = given["details"]["comparisons"]
    assert (comparison["first"]["reply"], comparison["second"]["reply"]) == ("labels", "ids")
    assert comparison["cases"] == 2
    written = comparison["first"]["output_tokens"] / comparison["second"]["output_tokens"]
    assert given["ratio"] == round(written, 4)
    assert 0 <= comparison["agreement"] <= 1
    assert said == ["repeat 1 of 1"]
