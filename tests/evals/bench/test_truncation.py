"""The benchmark of truncation, at its smallest."""

from __future__ import annotations

from evals.bench.benchmark import run


def test_the_four_rules_together_take_what_they_take_apart() -> None:
    result = run("truncation", {"repeats": 1}, tiny=True, report=lambda text: None)
    apart = sum(result.details[f"{name}_ms"] for name in ("autocut", "autocut_star", "elbow", "top_k"))
    assert abs(result.figures["simple_ms"] - apart) < 0.03
    assert result.figures["surprise_ms_a_list"] > 0
    assert result.figures["surprise_clean_ms_a_list"] > 0
