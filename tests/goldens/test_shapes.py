from __future__ import annotations

import json

import pytest

from tests.goldens.shapes import results_text, same_results, shape_text


def printed(value: object) -> str:
    return json.dumps(value) + "\n"


def test_a_shape_has_a_line_for_each_key_and_takes_elements_and_ids_together() -> None:
    value = {
        "rows": [{"name": "a", "f1": 0.5}, {"name": "b", "f1": None}],
        "labels": {"1": "x", "2": "y"},
        "no": [],
    }
    assert shape_text(printed(value)).splitlines() == [
        "rows[].name: text",
        "rows[].f1: null, number",
        "labels.ID: text",
        "no: empty",
    ]


@pytest.mark.parametrize("text", ["no JSON", '{"a": 1}\n{"b": 2}\n', '{"a":1}\n', "{}\n\n"])
def test_what_is_not_one_object_in_one_line_is_kept_as_it_is(text: str) -> None:
    assert shape_text(text) == text


def test_figures_have_their_intervals_whatever_keys_these_have() -> None:
    value = {
        "tasks": [{"task": "2", "values": {"f1": 0.5}, "intervals": {"f1": [0.4, 0.6]}}],
        "metrics": [{"name": "f1", "first": {"value": 0.5, "low": 0.4, "high": 0.6, "method": "bca"}}],
        "cells": [{"value": 0.5, "interval": [0.4, 0.6], "p_value": 0.1}],
        "judged_by": {"seed": 42},
    }
    assert results_text("$ x", printed(value)).splitlines() == [
        "$ x",
        "tasks[2].values.f1: [0.5, 0.4, 0.6]",
        "metrics[f1].first: [0.5, 0.4, 0.6]",
        "cells[0]: [0.5, 0.4, 0.6]",
        "cells[0].p_value: 0.1",
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("f1: [0.5, 1e-05]", "f1: [0.5000000000001, 0.00001]", True),
        ("f1: 0.5", "f1: 0.500000002", False),
        ("f1: 0.5", "f2: 0.5", False),
        ("f1: 0.5", "f1: 0.5\ng: 0.5", False),
        ("f1: null", "f1: 0.0", False),
    ],
)
def test_results_are_the_same_within_a_billionth(one: str, other: str, same: bool) -> None:
    assert same_results(one, other) is same
