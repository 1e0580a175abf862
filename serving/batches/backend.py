"""A model whose calls go in batches, as a backend: a pool takes its calls, and its server answers none."""

from __future__ import annotations

from collections.abc import Sequence

from serving.backends.backend import Backend, CallParameters, Server
from serving.batches.providers import connect
from serving.errors import CallError
from serving.messages import Answer, Message
from serving.model_name import ModelName


def connect_batched(name: ModelName) -> Backend:
    """Make a model ready. Its name, and so the keys of its calls, are those of the same model online.

    Raises:
        ModelError: It has no batches, or cannot be used.
        PolicyError: No text may go there, or none in batches.
    """
    model = connect(name)

    async def complete(messages: Sequence[Message], call: CallParameters) -> list[Answer]:
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
        batches=model,
    )
