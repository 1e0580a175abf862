"""Rules in one word."""

from __future__ import annotations

import pytest

from ranking.cutoff_text import cutoff_text, parse_cutoff
from ranking.cutoffs import (
    AdaptiveSoftK,
    Autocut,
    AutocutStar,
    Cutoff,
    Elbow,
    FixedThreshold,
    ScoreGap,
    Surprise,
    SurpriseClean,
    TopK,
)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("threshold=0.3", FixedThreshold(tau=0.3)),
        ("threshold=0.3,empty", FixedThreshold(tau=0.3, fallback=False)),
        ("gap", ScoreGap()),
        ("gap=5", ScoreGap(max_k=5)),
        ("adaptive=0.6,-0.1", AdaptiveSoftK(tau0=0.6, entropy_weight=-0.1)),
        ("top_k=2", TopK(k=2)),
        ("autocut", Autocut()),
        ("autocut=2,min:3", Autocut(jumps=2, minimum=3)),
        ("autocut_star", AutocutStar()),
        ("elbow=min:4", Elbow(minimum=4)),
        ("surprise", Surprise()),
        ("surprise_clean=0.1", SurpriseClean(alpha=0.1)),
    ],
)
def test_a_rule_is_read_and_written(text: str, rule: Cutoff) -> None:
    assert parse_cutoff(text) == rule
    assert cutoff_text(rule) == text


@pytest.mark.parametrize(("text", "rule"), [("threshold", FixedThreshold()), ("adaptive", AdaptiveSoftK())])
def test_parameters_have_defaults(text: str, rule: Cutoff) -> None:
    assert parse_cutoff(text) == rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("treshold=0.4", "no cut-off; there are threshold="),
        ("threshold=1.4", "tau: Input should be less than or equal to 1"),
        ("top_k=x", "k: Input should be a valid integer"),
        ("top_k=1,2", "at most k"),
        ("elbow=3", "at most no number"),
        ("elbow=min:0", "minimum: Input should be greater than or equal to 1"),
        ("gap=min:2", "max_k: Input should be a valid integer"),
        ("surprise_clean=0", "alpha: Input should be greater than 0"),
        ("", "no cut-off"),
    ],
)
def test_a_wrong_rule_is_told(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_cutoff(text)
