"""What rankers learn from: a query, the sentences of its document, and which of them are evidence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from cases.records import LabelSource
from cases.texts import hash_order, plural
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
        group: What a split never separates: all examples of a claim, a trial, a case.
        label_source: Weak labels train; they are never validated or tested on.
        sentence_ids: How the source names its sentences; empty for their positions from 0.
    """

    id: str
    query: str
    sentences: tuple[str, ...]
    labels: tuple[bool, ...] | None
    document_id: str
    group: str
    label_source: LabelSource = "gold"
    sentence_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Hold the shapes against each other.

        Raises:
            ValueError: Labels or ids are not as many as sentences.
        """
        if self.labels is not None and len(self.labels) != len(self.sentences):
            raise ValueError(
                f"{self.id}: {plural(len(self.labels), 'label')} for"
                f" {plural(len(self.sentences), 'sentence')}"
            )
        if self.sentence_ids and len(self.sentence_ids) != len(self.sentences):
            raise ValueError(
                f"{self.id}: {len(self.sentence_ids)} ids for {plural(len(self.sentences), 'sentence')}"
            )


class Split(NamedTuple):
    """Two parts without a group in common, each in the order of the examples."""

    train: list[Example]
    held_out: list[Example]


def split(examples: Sequence[Example], fraction: float, seed: int) -> Split:
    """Hold a share of the groups out.

    Raises:
        ValueError: A part would be empty, or an example has no labels.
    """
    parts = named_splits(examples, {"train": 1 - fraction, "held_out": fraction}, seed)
    return Split(parts["train"], parts["held_out"])


def named_splits(
    examples: Sequence[Example], shares: Mapping[str, float], seed: int
) -> dict[str, list[Example]]:
    """Cut the groups into named parts.

    Groups are ordered by a hash of seed and name: the order of files has no influence, and a group that is
    added or removed moves few of the others. Weak labels are in the first part alone; those of a group that
    another part has are in none, or its documents would be trained on.

    Args:
        examples: Labelled ones.
        shares: Part to its share of the groups with gold labels, the training part first; sum 1. With a
            share of 0 the training part is of weak labels alone, as in TAMU 2026.
        seed: Another seed gives another split.

    Raises:
        ValueError: The shares are wrong, a part would be empty, or an example has no labels.
    """
    training, *others = shares.values() or [0]
    if not others or training < 0 or min(others) <= 0 or abs(training + sum(others) - 1) > 1e-9:
        raise ValueError(f"shares of a split have to be above 0 and sum to 1: {dict(shares)}")
    unlabelled = next((example.id for example in examples if example.labels is None), None)
    if unlabelled is not None:
        raise ValueError(f"{unlabelled}: has no labels, so it can be ranked and not trained on")
    gold = {example.group for example in examples if example.label_source == "gold"}
    part_of = _parts(hash_order(gold, lambda group: json.dumps([seed, group])), shares)
    first = next(iter(shares))
    parts: dict[str, list[Example]] = {name: [] for name in shares}
    for example in examples:
        part = part_of.get(example.group, first)
        if part == first or example.label_source == "gold":
            parts[part].append(example)
    empty = next((name for name, part in parts.items() if not part), None)
    if empty is not None:
        raise ValueError(f"{len(gold)} groups with gold labels are too few: {empty!r} would be empty")
    return parts


def data_sha256(examples: Sequence[Example]) -> str:
    """Digest of everything in the examples, whatever their order."""
    digest = hashlib.sha256()
    for line in sorted(json.dumps(_fields(example)) for example in examples):
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def _parts(groups: Sequence[str], shares: Mapping[str, float]) -> dict[str, str]:
    """Cut from the end, so that a small later part gets a group before the training part takes all."""
    part_of: dict[str, str] = {}
    rest = len(groups)
    for name in reversed(list(shares)[1:]):
        wanted = max(1, round(shares[name] * len(groups)))
        taken = groups[max(0, rest - wanted) : rest]
        rest -= len(taken)
        part_of.update(dict.fromkeys(taken, name))
    return part_of


def _fields(example: Example) -> list[object]:
    return [
        example.id,
        example.query,
        example.sentences,
        example.labels,
        example.document_id,
        example.group,
        example.label_source,
        example.sentence_ids,
    ]


_MANIFEST = "ranker.json"


class HeldOutRecord(BaseModel):
    """What `ranker.json` says of its split.

    Attributes:
        share: Of the groups that were held out.
        seed: Of the choice.
        groups_sha256: Of the sorted names of these groups.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    share: float
    seed: int
    groups_sha256: str


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    split: HeldOutRecord


def held_out_record(ranker: str) -> HeldOutRecord:
    """Read it.

    Raises:
        RankerError: There is no such record.
    """
    path = Path(ranker).expanduser() / _MANIFEST
    try:
        return _Manifest.model_validate_json(path.read_bytes()).split
    except (OSError, ValidationError):
        raise RankerError(
            f"ranker {ranker!r}: no held-out examples are recorded of it (no split in its {_MANIFEST});"
            " take --split all"
        ) from None


def held_out_examples(examples: Sequence[Example], record: HeldOutRecord) -> list[Example]:
    """The labelled examples of the held-out groups.

    Raises:
        RankerError: The same split of these examples holds other groups out, so they are other data.
    """
    labelled = sorted((one for one in examples if one.labels is not None), key=lambda one: one.id)
    try:
        found = split(labelled, record.share, record.seed).held_out
    except ValueError as error:
        raise RankerError(f"no held-out examples in these data: {error}") from None
    groups = sorted({example.group for example in found})
    if hashlib.sha256(json.dumps(groups).encode()).hexdigest() != record.groups_sha256:
        raise RankerError(
            "these are not the data that the ranker was trained on: the same split holds other examples out;"
            " give the same files, or take --split all"
        )
    return found
