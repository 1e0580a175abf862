"""A study and scores that nobody trained, with figures that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evals.studies.definition import Study, TableName
from evals.studies.figures import Cases, SetScores
from evals.studies.measures import LabelledCase
from ranking.ranker import Scores

SURE = 3.0
"""A logit above every threshold that is tuned, as its negative is below."""


def case(name: str, labels: str, group: str = "") -> LabelledCase:
    """A case whose sentences with 1 are evidence; sentence n, from 1, has 10 n characters."""
    return LabelledCase(
        name,
        group or name,
        tuple(label == "1" for label in labels),
        tuple(10 * (place + 1) for place in range(len(labels))),
    )


def logits(chosen: str) -> Scores:
    """Scores that say 1 or 0 surely."""
    return np.asarray([SURE if one == "1" else -SURE for one in chosen], dtype=np.float32)


CASES: Cases = {
    "tuning": {"t1": case("t1", "100"), "t2": case("t2", "010")},
    "held-out": {"a": case("a", "110"), "b": case("b", "001", "g"), "c": case("c", "100", "g")},
    "held-out-noisy": {"a": case("a", "110"), "b": case("b", "001", "g"), "c": case("c", "100", "g")},
    "domain-own": {"a": case("a", "110")},
    "domain-other": {"d": case("d", "10"), "e": case("e", "01")},
}


def scored(held_out: Sequence[str], noisy: Sequence[str] = (), other: Sequence[str] = ()) -> SetScores:
    """What a ranker chooses in each set; it is right on the tuning part."""
    sets = {
        "tuning": {"t1": logits("100"), "t2": logits("010")},
        "held-out": dict(zip("abc", map(logits, held_out), strict=True)),
        "domain-own": {"a": logits(held_out[0])},
    }
    if noisy:
        sets["held-out-noisy"] = dict(zip("abc", map(logits, noisy), strict=True))
    if other:
        sets["domain-other"] = dict(zip("de", map(logits, other), strict=True))
    return sets


def study(table: TableName, rows: Sequence[str]) -> Study:
    """A study of one table; rows that are named as a baseline are one."""
    baselines = ("bm25", "logistic", "random", "all", "last-3")
    return Study.model_validate(
        {
            "recipe": "pointwise",
            "rows": {
                row: {"baseline": row} if row in baselines else {"label": row.title()}
                for row in (*rows, "bm25")
            },
            "domains": {"own": {}, "other": {}},
            "tables": {table: list(rows)},
        }
    )
