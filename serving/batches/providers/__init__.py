"""The providers of batches: which models have them, and how one is made ready."""

from __future__ import annotations

from serving.backends import demand_allowed
from serving.backends.backend import Backend, Server
from serving.protocol.batch_provider import BatchModel
from serving.protocol.errors import CallError, ModelError
from serving.protocol.messages import Answer
from serving.protocol.model_name import ModelName
from serving.protocol.request import AnyRequest

PROVIDERS = ("openai", "anthropic", "google_genai")
"""Those whose own service takes batches; any server with OpenAI's protocol may do so too."""


def connect(name: ModelName) -> BatchModel:
    """Make a model ready whose calls go in batches. Nothing but a look at the user's own server is sent.

    Raises:
        ModelError: It cannot be used so; the message says why and what to do.
        PolicyError: No text may go there.
    """
    from serving.backends.hosted_providers import SPEAK_OPENAI

    with_address = name.provider in SPEAK_OPENAI | {"vllm"} and name.base_url is not None
    if not with_address and name.provider not in PROVIDERS:
        raise ModelError(
            f"model {str(name)!r} has no batches; {', '.join(PROVIDERS)} have, and servers with OpenAI's"
            " protocol that are named with their address"
        )
    if len(name.base_urls) > 1:
        raise ModelError(f"model {str(name)!r}: a batch goes to one server; name one address")
    demand_allowed(name)
    if with_address:
        from serving.batches.providers.openai import connect_server

        return connect_server(name)
    if name.provider == "anthropic":
        from serving.batches.providers.anthropic import connect_anthropic

        return connect_anthropic(name)
    if name.provider == "google_genai":
        from serving.batches.providers.google_genai import connect_google

        return connect_google(name)
    from serving.batches.providers.openai import connect_openai

    return connect_openai(name)


def connect_batched(name: ModelName) -> Backend:
    """Make a model ready as a backend. Its name, and so the keys of its calls, are those of the same online.

    Raises:
        ModelError: It has no batches, or cannot be used.
        PolicyError: No text may go there, or none in batches.
    """
    model = connect(name)

    async def complete(request: AnyRequest) -> list[Answer]:
        raise CallError(
            "internal",
            f"{name} answers in batches, within hours, and only `run`, `resume` and `retry` wait for them;"
            f" here, leave `batch:` out",
        )

    return Backend(
        name=name,
        servers=(Server(model.provider.endpoint, complete, close=model.provider.aclose),),
        constraints=model.constraints,
        many_samples=model.many_samples,
        takes_seed=model.takes_seed,
        logprobs=model.logprobs,
        abilities=model.abilities,
        batches=model,
    )
