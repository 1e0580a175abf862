"""Everything that one start of vLLM is made of, decided before anything is started."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from serving.errors import ModelError
from serving.vllm_server.find import Installation
from serving.vllm_server.ports import LOOPBACK
from serving.vllm_server.recipes import Flag, ServeRecipe, packaged_recipe, packaged_recipes, render_flags
from serving.vllm_server.target import Target, find_target

# `vllm serve` asks for the metadata of a package `vllm`, which the CPU build does not have.
_MODULE = "vllm.entrypoints.openai.api_server"

_CPU_FLAGS: Mapping[str, Flag] = {
    "dtype": "bfloat16",  # half the memory traffic of float32, and exact where the weights are bfloat16
    "enforce-eager": True,  # ready in 30 s instead of 86 to 114 s on two cores
}
_CPU_KV_CACHE_GIB = "2"
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

_REACHED_AT = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - what the user may have asked for
"""A server that listens on every address is reached on loopback."""

# These have options of their own: `evigraph` must know their values to reach the server.
_OWN_FLAGS = {"--model": "MODEL", "--served-model-name": "--name", "--host": "--host", "--port": "--port"}


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
        environment: Added to that of this process.
        remarks: What a person should know before the start.
    """

    python: Path
    model: str
    name: str
    port: int
    host: str = LOOPBACK
    flags: Mapping[str, Flag] = field(default_factory=dict)
    extra: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    @property
    def command(self) -> list[str]:
        """The exact command line."""
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
        """Where OpenAI's protocol is spoken, as this machine reaches it."""
        host = _REACHED_AT.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"


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
    _refuse_own_flags(extra)
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
    remarks = [*_recipe_remarks(recipe, asked, target, installation), *_target_remarks(target, host)]
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
        remarks=tuple(remarks),
    )


def _refuse_own_flags(extra: Sequence[str]) -> None:
    for argument in extra:
        flag = argument.partition("=")[0].replace("_", "-")
        if flag in _OWN_FLAGS:
            raise ModelError(f"give {_OWN_FLAGS[flag]} to evigraph, not {flag} to vLLM behind the --")


def _recipe_remarks(
    recipe: ServeRecipe | None, model: str, target: Target, installation: Installation
) -> list[str]:
    if recipe is None:
        others = [
            other.name
            for other in packaged_recipes()
            if other.build == installation.build and other.model == model
        ]
        return [f"no serve recipe for this number of GPUs; there are: {', '.join(others)}"] if others else []
    remarks = [f"serve recipe {recipe.name}: {recipe.summary}"]
    if recipe.model not in (None, model) and not target.is_local:
        remarks.append(f"serve recipe {recipe.name} is made for {recipe.model}, not for {model}")
    return remarks


def _target_remarks(target: Target, host: str) -> list[str]:
    remarks = []
    if not target.is_here:
        remarks.append(f"the weights of {target.model} are not on this machine: vLLM downloads them now")
    if host not in (LOOPBACK, "localhost", "::1") and not os.environ.get("VLLM_API_KEY"):
        remarks.append(f"whoever reaches {host} can use this server; VLLM_API_KEY sets a key")
    return remarks


def _environment(installation: Installation, target: Target) -> dict[str, str]:
    environment = dict(_QUIET)
    if target.is_local:
        # With the weights in a folder there is nothing that the hub could be asked for.
        environment["HF_HUB_OFFLINE"] = "1"
    if installation.build == "cpu":
        environment["VLLM_CPU_KVCACHE_SPACE"] = os.environ.get("VLLM_CPU_KVCACHE_SPACE", _CPU_KV_CACHE_GIB)
    return environment
