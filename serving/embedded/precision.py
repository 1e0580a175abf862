"""In how many bits the weights of an embedded model are kept: a rule that loads nothing."""

from __future__ import annotations

import json
import math
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

from serving.protocol.errors import ModelError
from weights.registry import cache_root, fingerprint

Precision = Literal["bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

PRECISION_VARIABLE = "EVIGRAPH_PRECISION"

MIN_INT8_PARAMETERS = 400_000_000
"""Smaller models stay in bf16: they are fast and small as they are, and lose more by rounding."""


def precision_of(folder: Path) -> Precision:
    """The user's choice in EVIGRAPH_PRECISION; else int8 for a large model on an x86 processor.

    Raises:
        ModelError: The choice is unknown, or cannot be had on this machine.
    """
    chosen = os.environ.get(PRECISION_VARIABLE, "").strip()
    for precision in PRECISIONS:
        if chosen == precision:
            if chosen == "int8" and not _has_int8():
                raise ModelError(f"{PRECISION_VARIABLE}=int8 needs an x86 processor and no GPU: set bf16")
            return precision
    if chosen:
        raise ModelError(f"{PRECISION_VARIABLE}={chosen!r} is unknown: known are {', '.join(PRECISIONS)}")
    return "int8" if parameters(folder) >= MIN_INT8_PARAMETERS and _has_int8() else "bf16"


def int8_folder(folder: Path, kind: str) -> Path:
    """Where the cache has a model's integers, as processors of a kind read them."""
    return cache_root() / "int8" / f"{fingerprint(folder)}-{kind}"


def has_integers(folder: Path) -> bool:
    """Whether a model's integers are in the cache, for any kind of processor."""
    wanted = int8_folder(folder, "*")
    return any(wanted.parent.glob(wanted.name))


def revision_of(fingerprint: str, precision: Precision) -> str:
    """Identity of weights in a journal: another precision gives different replies.

    The precision comes first, because comparisons show the beginning of a revision.
    """
    return fingerprint if precision == "bf16" else f"{precision}-{fingerprint}"


def parameters(folder: Path) -> int:
    """Numbers in the weights of a folder, from the headers of its safetensors files."""
    return sum(
        math.prod(entry["shape"])
        for file in folder.glob("*.safetensors")
        for entry in tensor_entries(file)[1].values()
    )


def tensor_entries(file: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """Where the data of a safetensors file begins, in bytes, and its header's entry of each tensor."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        entries: dict[str, dict[str, Any]] = json.loads(stream.read(length))
    entries.pop("__metadata__", None)
    return 8 + length, entries


def _has_int8() -> bool:
    """Whether weights in integers are used here: they were measured on x86, and a GPU needs none."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        if version("torch").endswith("+cpu"):
            # The usual case needs no import of torch, which takes seconds.
            return True
    except PackageNotFoundError:
        return False
    import torch

    return not torch.cuda.is_available()
