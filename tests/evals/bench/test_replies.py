from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evals.bench import replies, workload
from graph.recipe import Recipe
from nodes.evidence.settings import EvidenceSettings
from runs.assemble import Assembly
from serving.errors import ModelError


def test_both_forms_are_run_on_the_same_cases() -> None:
    said: list[str] = []
    given = replies.measure(replies.Options("scripted:auto", cases=2), said.append).as_json()
    (comparison,) = given["details"]["comparisons"]
    assert (comparison["first"]["reply"], comparison["second"]["reply"]) == ("labels", "ids")
    assert comparison["cases"] == 2
    written = comparison["first"]["output_tokens"] / comparison["second"]["output_tokens"]
    assert given["ratio"] == round(written, 4)
    assert 0 <= comparison["agreement"] <= 1
    (single,) = given["details"]["pointwise"]
    assert (single["first"], single["second"]["reply"]) == (comparison["first"], "pointwise")
    assert single["second"]["calls"] == single["sentences"] == comparison["sentences"]
    assert said == ["repeat 1 of 1"]


async def test_a_model_that_weighs_no_choices_leaves_out_the_form_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = workload.ready

    async def refusing(recipe: Recipe, *rest: Any) -> Assembly:
        if recipe.section(EvidenceSettings).pointwise:
            raise ModelError("it gives no log-probabilities")
        return await ready(recipe, *rest)

    monkeypatch.setattr(replies, "ready", refusing)
    forms, single, why = await replies._measure(
        replies.Options("scripted:auto", cases=1), tmp_path, lambda _: None
    )
    assert (len(forms), single, why) == (1, [], "it gives no log-probabilities")
