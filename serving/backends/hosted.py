"""Hosted models by `init_chat_model`; each provider's LangChain package is an extra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from serving.backends.backend import Backend, CallParameters
from serving.backends.openai_compatible import REQUEST_TIMEOUT_S, json_schema_arguments
from serving.errors import ModelError
from serving.model_name import HOSTED_PACKAGES, ModelName


def connect_hosted(name: ModelName) -> Backend:
    """Build the provider's client. Nothing is sent before the first case.

    Raises:
        ModelError: The provider's package or API key is missing.
    """
    try:
        model = init_chat_model(
            name.name, model_provider=name.provider, max_retries=0, timeout=REQUEST_TIMEOUT_S
        )
    except ImportError:
        raise ModelError(
            f"model {str(name)!r} needs a package: pip install {HOSTED_PACKAGES[name.provider]}"
        ) from None
    except Exception as error:
        # Each provider has its own exception for a missing key.
        raise ModelError(f"model {str(name)!r} cannot be used: {str(error).splitlines()[0]}") from error
    assert isinstance(model, BaseChatModel)
    return Backend(
        name=name,
        chat_model=model,
        endpoint=name.provider,
        revision="",
        many_samples=name.provider == "openai",
        takes_seed=False,
        max_connections=8,
        context_length=None,
        arguments=_ARGUMENTS[name.provider],
    )


def _deepseek_arguments(call: CallParameters) -> dict[str, Any]:
    arguments: dict[str, Any] = {"temperature": call.temperature, "max_tokens": call.max_tokens}
    if call.schema is not None:
        # DeepSeek has a JSON mode and no schemas: the prompt names the format, the parser checks it.
        arguments["extra_body"] = {"response_format": {"type": "json_object"}}
    return arguments


def _google_arguments(call: CallParameters) -> dict[str, Any]:
    arguments: dict[str, Any] = {"temperature": call.temperature, "max_output_tokens": call.max_tokens}
    if call.schema is not None:
        arguments |= {"response_mime_type": "application/json", "response_json_schema": call.schema}
    return arguments


def _anthropic_arguments(call: CallParameters) -> dict[str, Any]:
    # The prompt names the format and the parser checks it, with one correction turn.
    return {"temperature": call.temperature, "max_tokens": call.max_tokens}


_ARGUMENTS: dict[str, Callable[[CallParameters], dict[str, Any]]] = {
    "openai": json_schema_arguments,
    "deepseek": _deepseek_arguments,
    "google_genai": _google_arguments,
    "anthropic": _anthropic_arguments,
}
