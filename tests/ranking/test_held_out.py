"""Held-out examples, found again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ranking.errors import RankerError
from ranking.examples import Example
from ranking.held_out import held_out_examples, held_out_record
from ranking.splits import split

EXAMPLES = [
    Example(f"e{number}", "q", ("a", "b"), (True, False), f"d{number}", f"g{number}") for number in range(10)
]


def checkpoint(folder: Path) -> Path:
    groups = sorted(example.group for example in split(EXAMPLES, 0.2, 7).held_out)
    digest = hashlib.sha256(json.dumps(groups).encode()).hexdigest()
    record = {"name": "held_out", "share": 0.2, "seed": 7, "groups_sha256": digest, "groups": 2}
    (folder / "ranker.json").write_text(json.dumps({"kind": "neural", "split": record}))
    return folder


def test_they_are_those_of_the_training(tmp_path: Path) -> None:
    record = held_out_record(str(checkpoint(tmp_path)))
    found = held_out_examples(EXAMPLES[::-1], record)
    assert {one.id for one in found} == {one.id for one in split(EXAMPLES, 0.2, 7).held_out}


def test_other_data_are_refused(tmp_path: Path) -> None:
    record = held_out_record(str(checkpoint(tmp_path)))
    kept = [one for one in EXAMPLES if one not in split(EXAMPLES, 0.2, 7).held_out]
    with pytest.raises(RankerError, match="not the data that the ranker was trained on"):
        held_out_examples(kept, record)


def test_unlabelled_data_are_refused(tmp_path: Path) -> None:
    record = held_out_record(str(checkpoint(tmp_path)))
    with pytest.raises(RankerError, match="no held-out examples in these data"):
        held_out_examples([Example("e", "q", ("a",), None, "d", "g")], record)


@pytest.mark.parametrize("ranker", ["bm25", "logistic"])
def test_a_ranker_without_a_record_is_refused(ranker: str) -> None:
    with pytest.raises(RankerError, match="take --split all"):
        held_out_record(ranker)
