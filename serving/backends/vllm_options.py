"""How vLLM's engine is started in this process: its environment and its options."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from serving.errors import ModelError
from serving.privacy import switch_off_telemetry
from weights.registry import REGISTRY, fingerprint, resolve

OPTIONS_VARIABLE = "EVIGRAPH_VLLM_ARGS"

_ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    # vLLM logs to standard output, where `--json` prints its result.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    # A fork would copy the locks of this process's threads.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "TOKENIZERS_PARALLELISM": "false",
}

_CPU_CACHE_GIB = "4"

_SPEED_ONLY = frozenset(
    {
        *("gpu_memory_utilization", "kv_cache_memory_bytes", "cpu_offload_gb", "block_size"),
        *("tensor_parallel_size", "pipeline_parallel_size", "distributed_executor_backend"),
        *("max_num_seqs", "max_num_batched_tokens", "enforce_eager", "enable_prefix_caching"),
        *("download_dir", "load_format"),
    }
)
"""Options that change no reply but by rounding."""


def locate(name: str) -> str:
    """The model as vLLM wants it: the folder of a registered or local model, else the id at a hub.

    Raises:
        WeightsError: A registered model is not pulled yet, or a folder holds no model.
    """
    looks_local = name.startswith(("/", ".", "~")) or Path(name).is_dir()
    return str(resolve(name)) if name in REGISTRY or looks_local else name


def prepare_environment(model: str) -> None:
    """Set what vLLM reads at its import; what the user has set stays, but for telemetry."""
    switch_off_telemetry()
    for variable, value in _ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    # A hub id may have to be fetched, also by the engine's process, whatever is loaded beside it.
    os.environ.setdefault("HF_HUB_OFFLINE", "1" if Path(model).is_dir() else "0")


def default_options(on_cpu: bool) -> dict[str, Any]:
    """The engine's options where the user sets none; on a CPU also the memory for keys and values."""
    options: dict[str, Any] = {"disable_log_stats": True, "use_tqdm_on_load": False}
    if on_cpu:
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", _CPU_CACHE_GIB)
        # Compiling takes a minute, and wins little here.
        options |= {"dtype": "bfloat16", "enforce_eager": True}
    return options


def user_options(known: Collection[str]) -> dict[str, Any]:
    """The options in EVIGRAPH_VLLM_ARGS, a JSON object.

    Raises:
        ModelError: It is none, or names an option that vLLM does not have.
    """
    text = os.environ.get(OPTIONS_VARIABLE, "").strip()
    if not text:
        return {}
    try:
        options = json.loads(text)
    except ValueError as error:
        raise ModelError(f"{OPTIONS_VARIABLE} is not JSON: {error}") from None
    if not isinstance(options, dict):
        raise ModelError(f'{OPTIONS_VARIABLE} must be a JSON object, as {{"max_model_len": 8192}}')
    for option in options:
        if option == "model":
            raise ModelError(f"{OPTIONS_VARIABLE} must not name a model: --model does")
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "names are those of vLLM's EngineArgs"
            raise ModelError(f"{OPTIONS_VARIABLE}: vLLM has no option {option!r}; {hint}")
    return options


def revision(model: str, commit: str | None, options: Mapping[str, Any]) -> str:
    """What is known of the weights, and of the options that shape replies."""
    weights = fingerprint(Path(model)) if Path(model).is_dir() else commit or ""
    shaping = {option: value for option, value in options.items() if option not in _SPEED_ONLY}
    if not shaping:
        return weights
    return f"{weights}+{hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()[:8]}"
