"""Hosted models by `init_chat_model`; each provider's LangChain package is an extra."""

from __future__ import annotations

import os
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from serving.backends.backend import Backend, CallParameters, Server
from serving.backends.hosted_requests import PROVIDERS, Provider
from serving.backends.langchain_model import Arguments, completer
from serving.errors import ModelError
from serving.journal import Answer
from serving.messages import Message
from serving.model_name import HOSTED_PACKAGES, ModelName

DEEPSEEK_BETA = "https://api.deepseek.com/beta"
"""Where DeepSeek holds a tool's input to its schema; elsewhere it takes `strict` for nothing."""

_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "google_genai": "GOOGLE_API_KEY"}
"""Of the providers whose own protocol is spoken at an address of the user's."""

_CLAUDE_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


def connect_hosted(name: ModelName) -> Backend:
    """Build the provider's client, for its own service or for addresses that speak its protocol.

    Nothing is sent.

    Raises:
        ModelError: The provider's package or API key is missing.
    """
    if name.provider == "anthropic" and name.base_url is None and not any(map(os.environ.get, _CLAUDE_KEYS)):
        # The class finds that out at its first request.
        raise ModelError(f"model {str(name)!r} cannot be used: set ANTHROPIC_API_KEY")
    provider = PROVIDERS[name.provider]
    return Backend(
        name=name,
        servers=tuple(_server(name, provider, url) for url in name.base_urls or (None,)),
        constraints=provider.constraints,
        many_samples=provider.most_samples > 1,
        may_try_seed=provider.takes_seed,
        logprobs=provider.logprobs,
        probes=True,
    )


def _server(name: ModelName, provider: Provider, url: str | None) -> Server:
    model, close = _chat_model(name, url)
    endpoint = name.provider if url is None else url.rstrip("/")
    complete = completer(model, _arguments(provider, model), provider.most_samples)
    if name.provider != "deepseek" or os.environ.get("DEEPSEEK_API_BASE"):
        return Server(endpoint, complete, close=close)
    beta, close_beta = _chat_model(name, DEEPSEEK_BETA)
    complete_strictly = completer(beta, _arguments(provider, beta), provider.most_samples)

    async def complete_either(messages: Sequence[Message], call: CallParameters) -> list[Answer]:
        return await (complete_strictly if call.constraint == "tool" else complete)(messages, call)

    async def close_both() -> None:
        for one in (close, close_beta):
            if one is not None:
                await one()

    return Server(endpoint, complete_either, close=close_both)


def _chat_model(
    name: ModelName, url: str | None
) -> tuple[BaseChatModel, Callable[[], Awaitable[None]] | None]:
    """The LangChain class, and how its connections are given back."""
    # Retries and the time limit belong to the client's own loop; the SDK's would multiply with them.
    settings: dict[str, Any] = {"max_retries": 0, "timeout": None}
    close = None
    if url is not None:
        settings["base_url"] = url.rstrip("/")
        if name.provider in _KEYS:
            # A server of the user's may ask for no key; the classes always do.
            settings["api_key"] = os.environ.get(_KEYS[name.provider]) or "EMPTY"
    if name.provider in ("openai", "deepseek"):
        from openai import DefaultAsyncHttpxClient

        # By default LangChain's models share one for the life of the process, whatever event loop they
        # are used in, and DeepSeek's would end every request after ten minutes.
        http = DefaultAsyncHttpxClient(timeout=None)
        settings["http_async_client"] = http
        close = http.aclose
    if name.provider == "openai":
        # The Responses API has neither `n` nor a seed.
        settings["use_responses_api"] = False
    if name.provider == "google_genai":
        # langchain-core reads the response of a failure as if it were httpx's; Google's is aiohttp's.
        warnings.filterwarnings("ignore", "coroutine 'ClientResponse.json' was never awaited", RuntimeWarning)
    try:
        model = init_chat_model(name.name, model_provider=name.provider, **settings)
    except ImportError:
        raise ModelError(
            f"model {str(name)!r} needs a package: pip install {HOSTED_PACKAGES[name.provider]}"
        ) from None
    except Exception as error:
        # Each provider has its own exception for a missing key.
        raise ModelError(f"model {str(name)!r} cannot be used: {_reason(error)}") from error
    assert isinstance(model, BaseChatModel)
    return model, close or getattr(model, "aclose", None)


def _reason(error: Exception) -> str:
    # Pydantic puts a headline before what a class says of its own fields.
    text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return (text.splitlines() or [type(error).__name__])[0].removeprefix("Value error, ")


def _arguments(provider: Provider, model: BaseChatModel) -> Arguments:
    """Leave out what the model is known to refuse: many that think first have a fixed temperature."""
    if (model.profile or {}).get("temperature") is not False:
        return provider.arguments

    def arguments(call: CallParameters) -> dict[str, Any]:
        return {name: value for name, value in provider.arguments(call).items() if name != "temperature"}

    return arguments
