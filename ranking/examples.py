"""Training examples of rankers: a query, the sentences of its document, and which of them are evidence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from cases.records import LabelSource
from cases.texts import hash_order, json_sha256
from ranking.errors import RankerError


@dataclass(frozen=True, slots=True)
class Example:
    """One query against one document.

    Attributes:
        id: Unique within a data set.
        query: A clinician's question, a claim, a line of a summary.
        sentences: Of the document, in its order.
        labels: Whether each sentence is evidence, shape (sentences,); None where unlabelled.
        document_id: Examples of one document share its encoding.
        group: Unit that a split never divides: all examples of a claim, a trial, a case.
        label_source: Weak labels train; they are never validated or tested on.
        sentence_ids: How the source names its sentences, one for each; empty for their positions from 0.
    """

    id: str
    query: str
    sentences: tuple[str, ...]
    labels: tuple[bool, ...] | None
    document_id: str
    group: str
    label_source: LabelSource = "gold"
    sentence_ids: tuple[str, ...] = ()


class Split(NamedTuple):
    """Two parts without a group in common, each in the order of the examples."""

    train: list[Example]
    held_out: list[Example]


def split(examples: Sequence[Example], fraction: float, seed: int) -> Split:
    """Hold a share of the groups with gold labels out, at least one; of all of them, only weak labels train.

    Groups are ordered by a hash of seed and name: the order of files has no influence, and a group that is
    added or removed moves few of the others. Weak labels are never held out; those of a group that is are in
    no part, or its documents would be trained on.

    Raises:
        ValueError: A part would be empty, or an example has no labels.
    """
    unlabelled = next((example.id for example in examples if example.labels is None), None)
    if unlabelled is not None:
        raise ValueError(f"{unlabelled}: has no labels, so it can be ranked and not trained on")
    gold = {example.group for example in examples if example.label_source == "gold"}
    ordered = hash_order(gold, lambda group: json.dumps([seed, group]))
    kept_out = {*ordered[-max(1, round(fraction * len(ordered))) :]}
    found = Split(
        train=[one for one in examples if one.group not in kept_out],
        held_out=[one for one in examples if one.group in kept_out and one.label_source == "gold"],
    )
    for name, part in found._asdict().items():
        if not part:
            raise ValueError(f"{len(gold)} groups with gold labels are too few: {name!r} would be empty")
    return found


def data_sha256(examples: Sequence[Example]) -> str:
    """Digest of everything in the examples, whatever their order."""
    digest = hashlib.sha256()
    for line in sorted(
        json.dumps([getattr(example, field.name) for field in fields(example)]) for example in examples
    ):
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def labelled_by_id(examples: Iterable[Example]) -> list[Example]:
    """What is split for training: the examples that have labels, whatever the order of their files."""
    return sorted((one for one in examples if one.labels is not None), key=lambda one: one.id)


def groups_sha256(examples: Iterable[Example]) -> str:
    """Digest of the sorted names of their groups."""
    return json_sha256(sorted({example.group for example in examples}))


def held_out_examples(
    examples: Sequence[Example], share: float, seed: int, expected_groups: str
) -> list[Example]:
    """The labelled examples of the held-out groups, whose `groups_sha256` was recorded.

    Raises:
        RankerError: The same split of these examples holds other groups out, so they are other data.
    """
    try:
        found = split(labelled_by_id(examples), share, seed).held_out
    except ValueError as error:
        raise RankerError(f"no held-out examples in these data: {error}") from None
    if groups_sha256(found) != expected_groups:
        raise RankerError(
            "these are not the data that the ranker was trained on: the same split holds other examples out;"
            " give the same files, or take --split all"
        )
    return found
