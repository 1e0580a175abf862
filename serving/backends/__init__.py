"""Models behind any provider: the ways to name one, and a backend that is ready to be asked.

A provider is a row of `model_name.PROVIDERS`, and is imported when it is used.
"""

from __future__ import annotations

import importlib

from serving.backends.backend import Backend, Entry, Provider, Server
from serving.policy.gate import demand_model
from serving.protocol.errors import CallError
from serving.protocol.messages import Answer
from serving.protocol.model_name import PROVIDERS, ModelName
from serving.protocol.request import AnyRequest

__all__ = ("Backend", "addresses", "catalogue", "connect", "demand_allowed", "unasked")


def connect(name: ModelName) -> Backend:
    """Make a model ready: find weights, reach the server, load the script.

    Raises:
        ModelError: It cannot be used; the message says why and what to do.
        PolicyError: No text may go there; nothing has been sent.
    """
    demand_allowed(name)
    if name.batched:
        # Its providers bring their own clients, and ask here whether texts may go to them.
        connected = importlib.import_module("serving.batches.providers").connect_batched(name)
        assert isinstance(connected, Backend)
        return connected
    return _provider(name.provider).connect(name)


def unasked(name: ModelName, revision: str) -> Backend:
    """A model on a server for a session without a case to run: its server may be gone, and is not reached.

    Raises:
        PolicyError: No text may go there.
    """
    demand_allowed(name)

    async def complete(_: AnyRequest) -> list[Answer]:
        raise CallError("connection", f"{name}: this session was started without its server")

    servers = tuple(Server(url, complete, connects=False) for url in name.base_urls or (str(name),))
    return Backend(name, servers, revision=revision, logprobs=True)


def demand_allowed(name: ModelName) -> None:
    """Ask whether texts may go to a model, before anything is started for it or sent to it.

    Raises:
        PolicyError: They may not.
    """
    demand_model(name, addresses(name))


def addresses(name: ModelName) -> tuple[str, ...]:
    """Addresses of its requests, as far as known beforehand; empty for a model in this process."""
    return name.base_urls or _provider(name.provider).services()


def catalogue() -> list[Entry]:
    """All ways to name a model, with each one's requirements on this machine. Sends no requests."""
    return [entry for provider in PROVIDERS for entry in _provider(provider).catalogue()]


def _provider(name: str) -> Provider:
    module, _, attribute = PROVIDERS[name].partition(":")
    provider = getattr(importlib.import_module(module), attribute)
    assert isinstance(provider, Provider)
    return provider
