"""The providers of batches: which models have them, and how one is made ready."""

from __future__ import annotations

import importlib

from serving.backends import demand_allowed
from serving.backends.backend import Backend, Server
from serving.backends.hosted import chat_model, demand_key, model_abilities
from serving.backends.providers import all_facts
from serving.protocol.batch_provider import BatchModel
from serving.protocol.errors import CallError, ModelError
from serving.protocol.messages import Answer
from serving.protocol.model_name import ModelName
from serving.protocol.request import AnyRequest


def connect(name: ModelName) -> BatchModel:
    """Make a model ready whose calls go in batches. Sends only a check to the user's own server.

    Raises:
        ModelError: It cannot be used so; the message says why and what to do.
        PolicyError: No text may go there.
    """
    has_address = name.base_url is not None
    hosted = {one.name: one for one in all_facts()}
    facts = hosted.get(name.provider)
    with_address = has_address and (name.provider == "vllm" or (facts is not None and facts.speaks_openai))
    if not with_address and not (facts and facts.batches):
        raise ModelError(
            f"model {str(name)!r} has no batches; {', '.join(n for n, one in hosted.items() if one.batches)}"
            " have, and servers with OpenAI's protocol that are named with their address"
        )
    if len(name.base_urls) > 1:
        raise ModelError(f"model {str(name)!r}: a batch goes to one server; name one address")
    demand_allowed(name)
    if with_address or facts is None:
        # It imports clients that other providers do without.
        from serving.batches.providers.openai import connect_server

        return connect_server(name)
    demand_key(facts, name)
    url = next(iter(name.base_urls), None)
    model, _ = chat_model(facts, name, url)
    module, _, provider_of = facts.batches.partition(":")
    endpoint = name.provider if url is None else url.rstrip("/")
    return BatchModel(
        getattr(importlib.import_module(module), provider_of)(endpoint, name.name, model),
        max_samples=facts.max_samples,
        logprobs=facts.logprobs,
        constraints=facts.constraints,
        abilities=model_abilities(facts, name, model),
    )


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
        logprobs=model.logprobs,
        abilities=model.abilities,
        batches=model,
    )
