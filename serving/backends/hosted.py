"""Hosted models through LangChain's classes; the providers are the files of `providers`."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from serving.backends.backend import Arguments, Backend, Entry, Provider, Server, installed
from serving.backends.openai_compatible import connect_server
from serving.protocol.abilities import FIXED_TEMPERATURE, Abilities, Option
from serving.protocol.errors import ModelError
from serving.protocol.keys import api_key, demand_clean
from serving.protocol.messages import Answer
from serving.protocol.model_name import ModelName
from serving.protocol.request import AnyRequest, Constraint
from serving.protocol.thinking import Effort

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

DESCRIBE_TIMEOUT_S = 10.0

_LOG = logging.getLogger(__name__)

TOOL_DESCRIPTION = "Returns the reply."
"""Description of the tool that a model is forced to call if its provider has no better constraint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedProvider:
    """Facts about a hosted provider, known before any request.

    Attributes:
        name: As in `provider:name`, and as `init_chat_model` has it.
        package: Brings its LangChain class.
        key: The environment variable of its API key.
        arguments: Keyword arguments of a request to its LangChain class.
        efforts: The provider's word for each effort, from a model's name and the levels of its profile.
        constraints: How replies can be constrained to a schema, the best first.
        max_samples: Samples that one request can ask for.
        takes_seed: Whether it has a seed; whether that repeats a reply is for the probe to find out.
        logprobs: Whether it has log-probabilities and its LangChain class passes them on.
        settings: Further arguments of its LangChain class; `http_async_client` is closed with the server.
        own_client: Gives a model of a class that takes no client one that follows no redirects and takes no
            reply of any size, and returns that.
        other_keys: Variables that can hold a key instead.
        speaks_openai: Whether an address in a model's name means a server with OpenAI's protocol.
        tool_url: The address for requests that force a tool; None if the same as for all others.
        service: Its address.
        service_variables: Environment variables with which its LangChain class takes another one.
        other_service: Where requests go instead, with credentials of other kinds, if other variables select
            it; None if they do not.
        describe: Asks the service about a model, if it has an endpoint for that: built-in facts may be older
            than the model.
        batches: Module and name of what makes its `BatchProvider` of an endpoint, the name of a model and its
            LangChain class; empty without batches.
        families: How the names of its models begin.
        example: A model of it.
        others: Further ways to name its models.
    """

    name: str
    package: str
    key: str
    arguments: Arguments
    efforts: Callable[[str, Sequence[str]], Mapping[Effort, str]]
    constraints: tuple[Constraint, ...]
    max_samples: int = 1
    takes_seed: bool = False
    logprobs: bool = False
    settings: Callable[[], dict[str, Any]] = dict
    own_client: Callable[[Any], Any] | None = None
    other_keys: tuple[str, ...] = ()
    speaks_openai: bool = False
    tool_url: Callable[[], str | None] = lambda: None
    service: str
    service_variables: tuple[str, ...] = ()
    other_service: Callable[[], str | None] = lambda: None
    describe: Callable[[Any, str], Awaitable[Abilities]] | None = None
    batches: str = ""
    families: tuple[str, ...]
    example: str
    others: tuple[Entry, ...] = ()

    def services(self) -> tuple[str, ...]:
        if (other := self.other_service()) is not None:
            return (other,)
        return (next(filter(None, map(os.environ.get, self.service_variables)), self.service),)


def hosted(facts: HostedProvider) -> Provider:
    """The row of a provider."""

    def catalogue() -> list[Entry]:
        state = installed(facts.package.replace("-", "_"), facts.package)
        if state == "ready" and not os.environ.get(facts.key):
            state = f"needs {facts.key}"
        return [*facts.others, Entry(f"{facts.name}:NAME", state, f"hosted, by {facts.package}")]

    return Provider(partial(_connect, facts), catalogue, facts.services)


def own_http_client() -> dict[str, Any]:
    """A setting for the classes that are built on OpenAI's client.

    By default LangChain's models share one for the life of the process, whatever event loop they are used
    in, some would end every request after ten minutes, and all would follow redirects to any host and take
    replies of any size.
    """
    from httpx2 import AsyncClient, AsyncHTTPTransport

    from serving.backends.limited_httpx import client_settings

    return {"http_async_client": AsyncClient(**client_settings(AsyncHTTPTransport))}


def _connect(facts: HostedProvider, name: ModelName) -> Backend:
    """Build the provider's client, for its own service or for addresses that speak its protocol.

    Nothing is sent to a service.

    Raises:
        ModelError: The provider's package or API key is missing, the key is not allowed in a header, or a
            server does not serve the model.
    """
    if name.base_url is not None and facts.speaks_openai:
        return connect_server(name, facts.key)
    demand_key(facts, name)
    urls: tuple[str | None, ...] = name.base_urls or (None,)
    models = [chat_model(facts, name, url) for url in urls]
    abilities = model_abilities(facts, name, models[0][0])
    return Backend(
        name=name,
        servers=tuple(_server(facts, name, url, *one) for url, one in zip(urls, models, strict=True)),
        abilities=abilities,
        describe=None if facts.describe is None else partial(_describe, facts, name, models[0][0], abilities),
        constraints=facts.constraints,
        many_samples=facts.max_samples > 1,
        may_try_seed=facts.takes_seed,
        logprobs=facts.logprobs,
        probes=True,
    )


def demand_key(facts: HostedProvider, name: ModelName) -> None:
    """Report a missing package or key in one line of ours; one class notices a key only at its first request.

    Raises:
        ModelError: The package or the key is missing, or the key is not allowed in a header.
    """
    if installed(facts.package.replace("-", "_"), facts.package) != "ready":
        raise ModelError(f"model {str(name)!r} needs a package: pip install {facts.package}")
    for variable in facts.other_keys:
        # Only the class itself reads these.
        demand_clean(variable)
    has_key = api_key(facts.key) or any(map(os.environ.get, facts.other_keys))
    if name.base_url is None and facts.other_service() is None and not has_key:
        raise ModelError(f"model {str(name)!r} needs an API key: set {facts.key}")


def _server(
    facts: HostedProvider,
    name: ModelName,
    url: str | None,
    model: BaseChatModel,
    close: Callable[[], Awaitable[None]] | None,
) -> Server:
    from serving.backends.langchain_model import completer

    endpoint = name.provider if url is None else url.rstrip("/")
    complete = completer(model, facts.arguments, facts.max_samples)
    tool_url = facts.tool_url()
    if tool_url is None:
        return Server(endpoint, complete, close=close, key=facts.key)
    tool_model, close_tool_model = chat_model(facts, name, tool_url)
    complete_by_tool = completer(tool_model, facts.arguments, facts.max_samples)

    async def complete_either(request: AnyRequest) -> list[Answer]:
        return await (complete_by_tool if request.constraint == "tool" else complete)(request)

    async def close_both() -> None:
        for one in (close, close_tool_model):
            if one is not None:
                await one()

    return Server(endpoint, complete_either, close=close_both, key=facts.key)


def chat_model(
    facts: HostedProvider, name: ModelName, url: str | None
) -> tuple[BaseChatModel, Callable[[], Awaitable[None]] | None]:
    """The LangChain class, and how its connections are closed."""
    from langchain.chat_models import init_chat_model
    from langchain_core.language_models import BaseChatModel

    # The classes still return a reply that breaks its schema; we count its oddities ourselves.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    # Retries and the time limit belong to the client's own loop; the SDK's would multiply with them.
    settings: dict[str, Any] = {"max_retries": 0, "timeout": None, **facts.settings()}
    if url is not None:
        settings["base_url"] = url.rstrip("/")
    key = api_key(facts.key)
    if url in name.base_urls:
        # A server of the user's may ask for no key; the classes always do.
        key = key or "EMPTY"
    if key is not None:
        settings["api_key"] = key
    try:
        model = init_chat_model(name.name, model_provider=name.provider, **settings)
    except Exception as error:
        raise ModelError(f"model {str(name)!r} cannot be used: {_reason(error)}") from error
    assert isinstance(model, BaseChatModel)
    client = settings.get("http_async_client", model) if facts.own_client is None else facts.own_client(model)
    return model, getattr(client, "aclose", None)


def _reason(error: Exception) -> str:
    # Pydantic puts a headline before the messages of a class.
    text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return (text.splitlines() or [type(error).__name__])[0].removeprefix("Value error, ")


_DATED = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{3}|latest)$")
"""The end of a name that pins a version; profiles often have the bare name only."""


def model_abilities(facts: HostedProvider, name: ModelName, model: BaseChatModel) -> Abilities:
    """Read the profile that LangChain has of a model, by the name without its date if it has none else."""
    profile = model.profile or {}
    bare = _DATED.sub("", name.name)
    if not profile and bare != name.name:
        profile = chat_model(facts, replace(name, name=bare), None)[0].profile or {}
    levels: Sequence[str] = profile.get("reasoning_effort_levels") or ()
    # Entries of chat models list levels that those do not have.
    chats = "chat" in name.name and not profile.get("reasoning_output")
    return profile_abilities(
        {**profile, "reasoning_effort_levels": () if chats else levels}, facts.efforts(bare, levels)
    )


async def _describe(
    facts: HostedProvider, name: ModelName, model: BaseChatModel, abilities: Abilities
) -> None:
    """Add the service's information on a model to `abilities`, if it has any."""
    assert facts.describe is not None
    try:
        async with asyncio.timeout(DESCRIBE_TIMEOUT_S):
            stated = await facts.describe(model, name.name)
    except Exception as error:
        # The plainest request comes next, and reports faults of a key or a service.
        _LOG.info("%s does not describe its model: %s", facts.name, error)
        return
    abilities.thinks |= stated.thinks
    abilities.efforts = stated.efforts or abilities.efforts
    abilities.max_output = stated.max_output or abilities.max_output


def profile_abilities(
    profile: Mapping[str, Any], efforts: Mapping[Effort, str] = MappingProxyType({})
) -> Abilities:
    """Read abilities from a profile of LangChain's."""
    refused: dict[Option, str] = {}
    if profile.get("temperature") is False:
        refused["temperature"] = FIXED_TEMPERATURE
    return Abilities(
        thinks=bool(profile.get("reasoning_output") or profile.get("reasoning_effort_levels")),
        efforts=efforts,
        max_output=profile.get("max_output_tokens"),
        refused=refused,
    )
