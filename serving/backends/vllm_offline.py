"""vLLM's engine in this process: batches without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from serving.backends.backend import Backend, CallParameters, Server
from serving.backends.vllm_options import (
    default_options,
    locate,
    prepare_environment,
    revision,
    user_options,
)
from serving.backends.vllm_requests import answers
from serving.errors import CallError, ModelError
from serving.journal import Answer
from serving.messages import Message
from serving.model_name import ModelName

_START_ON_CPU, _MOST_ON_CPU = 8, 32
_START_ON_GPU, _MOST_ON_GPU = 64, 256
"""Requests at once. The engine batches them itself; what it cannot take yet waits within the time limit."""


class _Found(NamedTuple):
    """What vLLM says of a model before its weights are loaded."""

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
    from serving.backends.vllm_engine import Engine

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
                f"{name}: {len(tokens)} tokens of prompt and {call.max_tokens} of reply exceed the context"
                f" length of {context_length}",
            )
        return answers(await engine.generate(tokens, call), unwritten)

    async def count_tokens(messages: Sequence[Message]) -> int:
        return len(prompt(messages))

    _try_template(name, prompt)
    return Backend(
        name=name,
        servers=(Server(str(name), complete, engine.is_up, engine.close, start=engine.start),),
        revision=found.revision,
        constraints=("grammar", "json_schema", "json_object", "none"),
        many_samples=True,
        # A seed ends the CPU engine as soon as two requests run together.
        may_try_seed=not found.on_cpu,
        logprobs=True,
        start_connections=_START_ON_CPU if found.on_cpu else _START_ON_GPU,
        max_connections=_MOST_ON_CPU if found.on_cpu else _MOST_ON_GPU,
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


def _try_template(name: ModelName, prompt: Any) -> None:
    try:
        prompt((Message("user", "x"),))
    except Exception as error:
        raise ModelError(f"{str(name)!r} has no chat template of use: {_reason(error)}") from error


def _defaults(config: Any) -> dict[str, Any]:
    """Sampling parameters that the model recommends, but for those that every request sets."""
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
    """The first line that says something; Pydantic begins with a count of errors."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.endswith("ModelConfig")]
    return (telling or lines or [type(error).__name__])[0][:300]
