"""What a model's name stands for when it is served: a folder on this machine, or an id on the hub."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from serving.errors import ModelError
from weights.registry import REGISTRY, WeightsError, resolve

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_TRUE = frozenset({"1", "on", "yes", "true"})


@dataclass(frozen=True, slots=True)
class Target:
    """A model that vLLM can be told to serve.

    Attributes:
        model: A local folder, or a hub id.
        name: What requests call it, unless the user says otherwise.
        is_local: Whether the weights lie in a folder, so that nothing needs a network.
        is_here: Whether the weights are on this machine, in a folder or in the hub's cache.
    """

    model: str
    name: str
    is_local: bool
    is_here: bool


def find_target(text: str) -> Target:
    """Find a registered model, a local folder or a hub id.

    Raises:
        ModelError: It is none of them, or its weights are not here and the hub is switched off.
    """
    folder = Path(text).expanduser()
    if text in REGISTRY or folder.is_dir():
        try:
            path = resolve(text)
        except WeightsError as error:
            raise ModelError(str(error)) from None
        return Target(str(path), text if text in REGISTRY else path.name, is_local=True, is_here=True)
    if not _HUB_ID.fullmatch(text):
        near = difflib.get_close_matches(text, REGISTRY, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(REGISTRY)}"
        raise ModelError(f"cannot serve {text!r}: no such folder, and no hub id of the form ORG/NAME; {hint}")
    is_here = _hub_snapshot(text) is not None
    if not is_here and os.environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE:
        raise ModelError(
            f"the weights of {text} are not in {_hub_cache()} and HF_HUB_OFFLINE is set: "
            "name a folder that holds them, or unset it"
        )
    return Target(text, text, is_local=False, is_here=is_here)


def _hub_snapshot(hub_id: str) -> Path | None:
    snapshots = _hub_cache() / f"models--{hub_id.replace('/', '--')}" / "snapshots"
    return next(snapshots.glob("*/config.json"), None)


def _hub_cache() -> Path:
    """Where the hub's own library keeps what it downloads."""
    if named := os.environ.get("HF_HUB_CACHE"):
        return Path(named).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface")
    return Path(home).expanduser() / "hub"
