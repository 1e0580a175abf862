"""vLLM's engine in this process: batches without a server."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from cases.texts import plural
from serving.backends.backend import Backend, CallParameters, Entry, Provider, Server, installed
from serving.backends.vllm_engine import Engine, answers
from serving.errors import CallError, ModelError
from serving.messages import Answer, Message
from serving.model_name import ModelName
from serving.privacy import switch_off_telemetry
from weights.pull import resolve
from weights.registry import REGISTRY, fingerprint

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
"""Options that change replies by rounding at most."""

_START_ON_CPU, _MAX_ON_CPU = 8, 32
_START_ON_GPU, _MAX_ON_GPU = 64, 256
"""Requests at once. The engine batches them itself; what it cannot take yet waits, within the time limit."""


class _Found(NamedTuple):
    """What vLLM knows of a model before its weights are loaded."""

    arguments: Any
    config: Any
    tokenizer: Any
    on_cpu: bool
    revision: str


def connect_vllm_offline(name: ModelName) -> Backend:
    """Find a model and read its configuration and tokenizer; weights are loaded at the first request.

    Raises:
        ModelError: vLLM is not installed or does not load, or it cannot use the model.
        WeightsError: A registered model is not pulled yet, or a folder holds no model.
    """
    found = _find(name)
    engine = Engine(str(name), found.arguments, _defaults(found.config))
    context_length = int(found.config.max_model_len)
    unwritten = frozenset(found.tokenizer.all_special_ids)

    def prompt(messages: Sequence[Message]) -> list[int]:
        turns = [{"role": message.role, "content": message.text} for message in messages]
        tokens = found.tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        return list(tokens)

    async def complete(messages: Sequence[Message], call: CallParameters) -> list[Answer]:
        tokens = prompt(messages)
        if len(tokens) + call.max_tokens > context_length:
            raise CallError(
                "context_length",
                f"{name}: {plural(len(tokens), 'token')} of prompt and {call.max_tokens} of reply"
                f" exceed the context length of {context_length}",
            )
        return answers(await engine.generate(tokens, call), unwritten)

    async def count_tokens(messages: Sequence[Message]) -> int:
        return len(prompt(messages))

    _try_template(name, prompt)
    return Backend(
        name=name,
        servers=(Server(str(name), complete, close=engine.close, start=engine.start, in_process=True),),
        revision=found.revision,
        constraints=("grammar", "json_schema", "json_object", "none"),
        many_samples=True,
        # A seed ends the CPU engine as soon as two requests run together.
        may_try_seed=not found.on_cpu,
        logprobs=True,
        start_connections=_START_ON_CPU if found.on_cpu else _START_ON_GPU,
        max_connections=_MAX_ON_CPU if found.on_cpu else _MAX_ON_GPU,
        context_length=context_length,
        count_tokens=count_tokens,
        probes=True,
    )


def _find(name: ModelName) -> _Found:
    model = locate(name.name)
    prepare_environment(model)
    try:
        from vllm import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.tokenizers import cached_tokenizer_from_config
    except ImportError as error:
        raise _needs_vllm(name, error) from None
    on_cpu = bool(current_platform.is_cpu())
    chosen = user_options({field.name for field in fields(AsyncEngineArgs)})
    options = {**default_options(on_cpu), **chosen}
    try:
        arguments = AsyncEngineArgs(model=model, **options)
        config = arguments.create_model_config()
        tokenizer = cached_tokenizer_from_config(config)
    except Exception as error:
        # Pydantic, transformers and the hub each have exceptions of their own here.
        raise ModelError(f"vLLM cannot use {str(name)!r}: {_reason(error)}") from error
    commit = getattr(config.hf_config, "_commit_hash", None)
    return _Found(arguments, config, tokenizer, on_cpu, revision(model, commit, chosen))


def locate(name: str) -> str:
    """The model as vLLM takes it: the folder of a registered or local model, else a hub id.

    Raises:
        WeightsError: A registered model is not pulled yet, or a folder holds no model.
    """
    looks_local = name.startswith(("/", ".", "~")) or Path(name).is_dir()
    return str(resolve(name)) if name in REGISTRY or looks_local else name


def prepare_environment(model: str) -> None:
    """Set what vLLM reads at its import; values of the user stay, except for telemetry."""
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


def _try_template(name: ModelName, prompt: Any) -> None:
    try:
        prompt((Message("user", "x"),))
    except Exception as error:
        raise ModelError(f"{str(name)!r} has no chat template that works: {_reason(error)}") from error


def _defaults(config: Any) -> dict[str, Any]:
    """Sampling parameters that the model recommends, except those that every request sets."""
    recommended = config.get_diff_sampling_param()
    return {key: value for key, value in recommended.items() if key not in ("temperature", "max_tokens")}


def _needs_vllm(name: ModelName, error: ImportError) -> ModelError:
    module = (error.name or "").partition(".")[0]
    if module != "vllm":
        return ModelError(f"{str(name)!r}: vLLM is installed and does not load: {_reason(error)}")
    return ModelError(
        f"{str(name)!r} needs vLLM in this environment: pip install 'evigraph[vllm]' (without a GPU:"
        " docs/models.md)"
    )


def _reason(error: Exception) -> str:
    """The first line with a reason; Pydantic begins with a count of errors."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.endswith("ModelConfig")]
    return (telling or lines or [type(error).__name__])[0][:300]


def _catalogue() -> list[Entry]:
    state = installed("vllm", "'evigraph[vllm]'")
    return [Entry("vllm-offline:NAME", state, "vLLM in this process, for batches")]


VLLM_OFFLINE = Provider(connect_vllm_offline, _catalogue)
