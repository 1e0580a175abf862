"""The examples that a checkpoint's training held out, found again in the same data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ranking.errors import RankerError
from ranking.examples import Example
from ranking.splits import split

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

    Args:
        ranker: Folder of a checkpoint.

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
