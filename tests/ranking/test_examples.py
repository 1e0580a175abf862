"""Held-out examples, found again."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from ranking.errors import RankerError
from ranking.examples import Example, data_sha256, held_out_examples, split
from ranking.rankers.checkpoint import read_split


def example(number: int, group: str, **changes: object) -> Example:
    made = Example(str(number), f"query {number}", ("a", "b"), (True, False), f"d{number}", group)
    return replace(made, **changes)  # type: ignore[arg-type]


EXAMPLES = [example(number, f"g{number // 2}") for number in range(40)]


def groups(examples: list[Example]) -> set[str]:
    return {one.group for one in examples}


def test_a_group_is_never_parted() -> None:
    train, held_out = split(EXAMPLES, 0.2, seed=1)
    assert groups(train).isdisjoint(groups(held_out))
    assert [*train, *held_out] != EXAMPLES
    assert sorted([*train, *held_out], key=EXAMPLES.index) == EXAMPLES


def test_the_share_is_of_groups() -> None:
    assert len(groups(split(EXAMPLES, 0.2, seed=1).held_out)) == 4


def test_the_order_of_examples_has_no_influence() -> None:
    shuffled = random.Random(0).sample(EXAMPLES, len(EXAMPLES))
    assert groups(split(shuffled, 0.2, 1).held_out) == groups(split(EXAMPLES, 0.2, 1).held_out)


def test_another_seed_gives_another_split() -> None:
    assert len({frozenset(groups(split(EXAMPLES, 0.2, seed).held_out)) for seed in range(5)}) == 5


def test_one_more_group_moves_few_others() -> None:
    before = groups(split(EXAMPLES, 0.5, 1).held_out)
    after = groups(split([*EXAMPLES, example(99, "new")], 0.5, 1).held_out) - {"new"}
    assert len(before ^ after) <= 1


def test_weak_labels_train_and_are_never_held_out() -> None:
    weak = [example(100 + number, f"w{number}", label_source="weak") for number in range(20)]
    train, held_out = split([*EXAMPLES, *weak], 0.5, 1)
    assert all(one in train for one in weak)
    assert all(one.label_source == "gold" for one in held_out)


def test_weak_labels_of_a_held_out_group_are_in_no_part() -> None:
    weak = [example(100 + number, f"g{number}", label_source="weak") for number in range(20)]
    train, held_out = split([*EXAMPLES, *weak], 0.5, 1)
    assert groups(train).isdisjoint(groups(held_out))
    assert len(train) + len(held_out) == 50


def test_all_gold_labels_can_be_held_out_of_weak_training() -> None:
    weak = example(100, "w", label_source="weak")
    assert split([*EXAMPLES, weak], 1, 1) == ([weak], EXAMPLES)


def test_a_share_holds_at_least_one_group() -> None:
    assert groups(split([example(1, "a"), example(2, "b")], 0.1, 1).held_out) in ({"a"}, {"b"})


@pytest.mark.parametrize("examples", [[example(1, "a")], [example(1, "a", label_source="weak")]])
def test_an_empty_part_is_refused(examples: list[Example]) -> None:
    with pytest.raises(ValueError, match="would be empty"):
        split(examples, 0.2, 1)


def test_unlabelled_examples_are_refused() -> None:
    with pytest.raises(ValueError, match="1: has no labels"):
        split([example(1, "a", labels=None)], 0.2, 1)


def test_the_digest_is_of_the_data_and_not_of_its_order() -> None:
    assert data_sha256(EXAMPLES) == data_sha256(EXAMPLES[::-1])


@pytest.mark.parametrize(
    "changes",
    [{"query": "q"}, {"labels": (False, True)}, {"label_source": "weak"}, {"sentences": ("a", "c")}],
)
def test_the_digest_sees_every_change(changes: dict[str, object]) -> None:
    changed = [replace(EXAMPLES[0], **changes), *EXAMPLES[1:]]  # type: ignore[arg-type]
    assert data_sha256(changed) != data_sha256(EXAMPLES)


LABELLED = [
    Example(f"e{number}", "q", ("a", "b"), (True, False), f"d{number}", f"g{number}") for number in range(10)
]


DIGEST = hashlib.sha256(
    json.dumps(sorted(example.group for example in split(LABELLED, 0.2, 7).held_out)).encode()
).hexdigest()


def test_held_out_examples_are_those_of_the_training() -> None:
    found = held_out_examples(LABELLED[::-1], 0.2, 7, DIGEST)
    assert {one.id for one in found} == {one.id for one in split(LABELLED, 0.2, 7).held_out}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (split(LABELLED, 0.2, 7).train, "not the data that the ranker was trained on"),
        ([Example("e", "q", ("a",), None, "d", "g")], "no held-out examples in these data"),
    ],
)
def test_other_data_are_refused(data: list[Example], fault: str) -> None:
    with pytest.raises(RankerError, match=fault):
        held_out_examples(data, 0.2, 7, DIGEST)


@pytest.mark.parametrize("ranker", ["bm25", "logistic"])
def test_a_ranker_without_a_record_is_refused(ranker: str) -> None:
    with pytest.raises(RankerError, match="take --split all"):
        read_split(Path(ranker))
