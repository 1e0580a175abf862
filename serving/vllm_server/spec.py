"""Specification of one start of vLLM, decided before anything is started."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from serving.protocol.errors import ModelError
from serving.protocol.keys import demand_clean
from serving.vllm_server.find import Installation
from serving.vllm_server.recipes import Flag, ServeRecipe, packaged_recipe, packaged_recipes, render_flags
from weights.pull import resolve
from weights.registry import REGISTRY, WeightsError

LOOPBACK = "127.0.0.1"

# `vllm serve` asks for the metadata of a package `vllm`, which the CPU build does not have.
_MODULE = "vllm.entrypoints.openai.api_server"

_CPU_FLAGS: Mapping[str, Flag] = {
    "dtype": "bfloat16",  # half the memory traffic of float32, and exact where the weights are bfloat16
    "enforce-eager": True,  # ready in 30 s instead of 86 to 114 s on two cores
}
_CPU_KV_CACHE_GIB = "2"
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

_REACHED_AT = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - the user's choice
"""A server that listens on every address is reached on loopback."""

# These have options of their own: `evigraph` must know their values to reach the server.
_OWN_FLAGS = {"--model": "MODEL", "--served-model-name": "--name", "--host": "--host", "--port": "--port"}

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_TRUE = frozenset({"1", "on", "yes", "true"})


@dataclass(frozen=True, slots=True)
class ServeSpec:
    """One vLLM server.

    Attributes:
        python: The interpreter that has vLLM.
        name: What requests call the model.
        host: Address that the server listens on.
        flags: vLLM's flags, without host, port, model and served name.
        model: A local folder, or a hub id.
        extra: Further arguments, as the user wrote them.
        environment: Added to this process's.
        notes: Notes for the user before the start.
    """

    python: Path
    model: str
    name: str
    port: int
    host: str = LOOPBACK
    flags: Mapping[str, Flag] = field(default_factory=dict)
    extra: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def command(self) -> list[str]:
        own: dict[str, Flag] = {
            "model": self.model,
            "served-model-name": self.name,
            "host": self.host,
            "port": self.port,
        }
        module = [str(self.python), "-m", _MODULE]
        return [*module, *render_flags(own | dict(self.flags)), *self.extra]

    @property
    def base_url(self) -> str:
        """Address of the OpenAI protocol, as seen from this machine."""
        host = _REACHED_AT.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"


@dataclass(frozen=True, slots=True)
class Target:
    """A model that vLLM can serve.

    Attributes:
        model: A local folder, or a hub id.
        name: What requests call it, unless the user names it otherwise.
        is_local: Whether the weights are in a folder, so that nothing needs a network.
        is_here: Whether the weights are on this machine, in a folder or in the hub's cache.
    """

    model: str
    name: str
    is_local: bool
    is_here: bool


def plan_server(
    installation: Installation,
    model: str | None,
    port: int,
    *,
    name: str | None = None,
    recipe: ServeRecipe | None = None,
    host: str = LOOPBACK,
    gpus: int | None = None,
    max_model_len: int | None = None,
    extra: Sequence[str] = (),
) -> ServeSpec:
    """Combine the options, a recipe and the defaults of the build; what comes first here wins.

    Without a recipe, the packaged one for this model and number of GPUs is taken if there is one.

    Raises:
        ModelError: The model cannot be found, or the options contradict each other.
    """
    for argument in extra:
        flag = argument.partition("=")[0].replace("_", "-")
        if flag in _OWN_FLAGS:
            raise ModelError(f"give {_OWN_FLAGS[flag]} to evigraph, not {flag} to vLLM behind the --")
    if gpus is not None and installation.build == "cpu":
        raise ModelError(f"--gpus {gpus}: {installation.python} has vLLM's CPU build")
    if recipe is not None and recipe.build == "gpu" and installation.build == "cpu":
        raise ModelError(f"serve recipe {recipe.name} is for GPUs; {installation.python} has the CPU build")
    asked = model or (recipe.model if recipe else None)
    if asked is None:
        raise ModelError("name a model: a registered name, a folder or a hub id")
    target = find_target(asked)
    if recipe is None:
        recipe = packaged_recipe(asked, installation.build, gpus or 1)
    notes = [*_recipe_notes(recipe, asked, target, installation), *_target_notes(target, host)]
    flags: dict[str, Flag] = dict(_CPU_FLAGS) if installation.build == "cpu" else {}
    flags |= recipe.flags if recipe else {}
    served = flags.get("served-model-name")
    for own in _OWN_FLAGS:
        flags.pop(own.removeprefix("--"), None)
    if gpus is not None:
        flags["tensor-parallel-size"] = gpus
    if max_model_len is not None:
        flags["max-model-len"] = max_model_len
    return ServeSpec(
        python=installation.python,
        model=target.model,
        name=name or (served if isinstance(served, str) else target.name),
        port=port,
        host=host,
        flags=flags,
        extra=tuple(extra),
        environment=_environment(installation, target),
        notes=tuple(notes),
    )


def _recipe_notes(
    recipe: ServeRecipe | None, model: str, target: Target, installation: Installation
) -> list[str]:
    if recipe is None:
        others = [
            other.name
            for other in packaged_recipes()
            if other.build == installation.build and other.model == model
        ]
        return [f"no serve recipe for this number of GPUs; there are: {', '.join(others)}"] if others else []
    notes = [f"serve recipe {recipe.name}: {recipe.summary}"]
    if recipe.model not in (None, model) and not target.is_local:
        notes.append(f"serve recipe {recipe.name} is made for {recipe.model}, not for {model}")
    return notes


def _target_notes(target: Target, host: str) -> list[str]:
    notes = []
    if not target.is_here:
        notes.append(f"the weights of {target.model} are not on this machine: vLLM downloads them now")
    if host not in (LOOPBACK, "localhost", "::1") and not os.environ.get("VLLM_API_KEY"):
        notes.append(f"anyone who can reach {host} can use this server; VLLM_API_KEY sets a key")
    return notes


def _environment(installation: Installation, target: Target) -> dict[str, str]:
    # vLLM reads it unchanged, but clients strip the blanks around it.
    demand_clean("VLLM_API_KEY")
    environment = dict(_QUIET)
    if target.is_local:
        # With the weights in a folder there is nothing that the hub could be asked for.
        environment["HF_HUB_OFFLINE"] = "1"
    if installation.build == "cpu":
        environment["VLLM_CPU_KVCACHE_SPACE"] = os.environ.get("VLLM_CPU_KVCACHE_SPACE", _CPU_KV_CACHE_GIB)
    return environment


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
    snapshots = _hub_cache() / f"models--{text.replace('/', '--')}" / "snapshots"
    is_here = any(snapshots.glob("*/config.json"))
    if not is_here and os.environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE:
        raise ModelError(
            f"the weights of {text} are not in {_hub_cache()} and HF_HUB_OFFLINE is set: "
            "name a folder that holds them, or unset it"
        )
    return Target(text, text, is_local=False, is_here=is_here)


def _hub_cache() -> Path:
    """Download folder of the hub's own library."""
    if named := os.environ.get("HF_HUB_CACHE"):
        return Path(named).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface")
    return Path(home).expanduser() / "hub"
