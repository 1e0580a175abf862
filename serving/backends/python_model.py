"""Chat models of the user's own: an object that Python code gives, or a factory that `python:` names."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableBinding

from serving.backends.backend import Backend, Entry, Provider, Server
from serving.backends.hosted import TOOL_DESCRIPTION, profile_abilities
from serving.backends.langchain_model import completer
from serving.policy.gate import demand_consent, demand_route, host_name
from serving.protocol.addresses import environment_proxy, proxy_of
from serving.protocol.errors import ModelError
from serving.protocol.messages import Answer
from serving.protocol.model_name import ModelName
from serving.protocol.request import AnyRequest, Constraint

PROVIDER = "python"

_TOKEN_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict", "max_new_tokens")
"""Names under which LangChain's classes keep the limit of a reply, the usual one first."""

_ADDRESS_FIELD = re.compile(r"(url|api_base|endpoint|host|proxy)$", re.IGNORECASE)
_NO_SETTING = re.compile(
    rf"{_ADDRESS_FIELD.pattern}|(key|secret|password|timeout|retries)$|^stream|^temperature$|"
    rf"^({'|'.join(_TOKEN_LIMITS)})$",
    re.IGNORECASE,
)
"""Names of fields that shape no reply, or that each call sets."""

_MAX_DEPTH = 4
"""From a chat model to the client of its client, which knows the address."""

_given: dict[str, BaseChatModel] = {}
"""The objects of this process by their names, for `connect`."""


def name_of(chat_model: BaseChatModel) -> ModelName:
    """Name an object, so that a run can record it, journal its calls and be resumed with an equal one.

    The name consists of its class, its model and a hash of the settings that shape replies.
    """
    settings = {**_changed_fields(chat_model), **chat_model._identifying_params}
    settings = {key: value for key, value in settings.items() if not _NO_SETTING.search(key)}
    # Other objects are shown by their class: their repr may differ between processes.
    shown = json.dumps(settings, sort_keys=True, default=lambda value: type(value).__name__)
    hashed = hashlib.sha256(shown.encode()).hexdigest()[:8]
    model = next((str(settings[key]) for key in ("model_name", "model", "model_id") if key in settings), "")
    name = re.sub(r"[@\s]", "-", f"{type(chat_model).__name__}({model})#{hashed}")
    _given[name] = chat_model
    return ModelName(PROVIDER, name, ",".join(addresses_of(chat_model)) or None)


def _changed_fields(chat_model: BaseChatModel) -> dict[str, Any]:
    """Numbers and texts that differ from the defaults of the model's own class."""
    fields = type(chat_model).model_fields
    own = {name: getattr(chat_model, name) for name in fields if name not in BaseChatModel.model_fields}
    return {
        name: value
        for name, value in own.items()
        if isinstance(value, bool | int | float | str) and value != fields[name].default
    }


def addresses_of(chat_model: BaseChatModel) -> tuple[str, ...]:
    """The addresses and proxies that a chat model and its clients are set to, without what may be secret."""
    found = map(urlsplit, _addresses(chat_model, _MAX_DEPTH, set()))
    return tuple(dict.fromkeys(f"{one.scheme}://{one.netloc.rpartition('@')[2]}" for one in found))


def _addresses(holder: object, depth: int, seen: set[int]) -> Iterator[str]:
    """Addresses among the attributes of an object and of its attributes."""
    if depth == 0 or id(holder) in seen or isinstance(holder, type | ModuleType):
        return
    seen.add(id(holder))
    for part in (getattr(holder, "__dict__", None), getattr(holder, "__pydantic_private__", None)):
        for name, value in part.items() if isinstance(part, Mapping) else ():
            if _ADDRESS_FIELD.search(name):
                if str(value).startswith(("http://", "https://")):
                    yield str(value)
            elif not callable(value) or isinstance(value, BaseChatModel):
                yield from _addresses(value, depth - 1, seen)


def backend_of(name: ModelName, chat_model: BaseChatModel) -> Backend:
    """Any LangChain chat model as a backend; nothing is sent to it.

    Args:
        name: Under which runs and the journal know it.
        chat_model: Sampling temperature and the limit of a reply are those of each call, where it has
            such settings; all others stay.

    Raises:
        PolicyError: No text may go to one of its addresses, or it shows none and the user has not agreed.
        ModelError: Its client would go by a proxy to this machine.
    """
    addresses = dict.fromkeys((*name.base_urls, *addresses_of(chat_model)))
    for address in addresses:
        demand_route(address, f"model {str(name)!r}")
        if environment_proxy(address) and proxy_of(address) is None:
            host = host_name(address)
            raise ModelError(
                f"model {str(name)!r}: its own client would ask the proxy of the environment for {host}; name"
                f" {host} in no_proxy"
            )
    if not addresses:
        demand_consent(f"model {str(name)!r}")
    takes_tools = type(chat_model).bind_tools is not BaseChatModel.bind_tools
    constraints: tuple[Constraint, ...] = ("tool", "none") if takes_tools else ("none",)

    async def complete(request: AnyRequest) -> list[Answer]:
        asked = _for_call(chat_model, request)
        arguments = _tool_arguments(asked, request)
        return await completer(asked, lambda _: arguments, 1)(request)

    server = Server(next(iter(addresses), str(name)), complete)
    return Backend(
        name=name,
        servers=(server,),
        constraints=constraints,
        probes=True,
        abilities=profile_abilities(chat_model.profile or {}),
    )


def _for_call(chat_model: BaseChatModel, request: AnyRequest) -> BaseChatModel:
    """A copy with the settings of a call; it shares the clients."""
    fields = type(chat_model).model_fields
    # A cache would give every vote of a case the same reply.
    settings: dict[str, Any] = {"cache": False}
    if "temperature" in fields and request.temperature is not None:
        settings["temperature"] = request.temperature
    if (limit := next((name for name in _TOKEN_LIMITS if name in fields), None)) is not None:
        settings[limit] = request.max_tokens
    return chat_model.model_copy(update=settings)


def _tool_arguments(chat_model: BaseChatModel, request: AnyRequest) -> dict[str, Any]:
    """Arguments that make the reply the input of a tool, by the words of the model's own class."""
    if request.schema is None or request.constraint != "tool":
        return {}
    function = {"name": request.reply.name, "description": TOOL_DESCRIPTION, "parameters": request.schema}
    bound = chat_model.bind_tools(
        [{"type": "function", "function": function}], tool_choice=request.reply.name
    )
    return dict(bound.kwargs) if isinstance(bound, RunnableBinding) else {}


def _connect(name: ModelName) -> Backend:
    """Find the object of this process, or make one by the factory.

    Raises:
        ModelError: There is none, or the factory fails or gives something else.
        PolicyError: No text may go where it sends them.
    """
    if "(" in name.name:
        if name.name not in _given:
            raise ModelError(
                f"model {str(name)!r} is an object of a Python program; go on there, with an equal object:"
                " evigraph.resume(RUN, model=OBJECT)"
            )
        return backend_of(name, _given[name.name])
    return backend_of(name, _made(name))


def _made(name: ModelName) -> BaseChatModel:
    module_name, _, attribute = name.name.partition(":")
    if not attribute:
        raise ModelError(f"model {str(name)!r} is not of the form python:MODULE:FACTORY")
    if (here := str(Path.cwd())) not in sys.path:
        # A command does not look for modules in the folder where it is typed.
        sys.path.append(here)
    try:
        made = getattr(importlib.import_module(module_name), attribute)
        chat_model = made if isinstance(made, BaseChatModel) else made()
    except Exception as error:
        # The user's code may raise anything.
        raise ModelError(f"model {str(name)!r} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(chat_model, BaseChatModel):
        kind = type(chat_model).__name__
        raise ModelError(f"model {str(name)!r}: {attribute} gives a {kind}; it has to be a BaseChatModel")
    return chat_model


def _connect_langchain(name: ModelName) -> Backend:
    """Connect a provider that `init_chat_model` knows.

    Raises:
        ModelError: The string is incomplete, or the provider's package or key is missing.
        PolicyError: No text may go to its host.
    """
    from langchain.chat_models import init_chat_model

    provider, _, model = name.name.partition(":")
    if not model:
        raise ModelError(f"model {str(name)!r} is not of the form langchain:PROVIDER:NAME")
    settings: dict[str, Any] = {"max_retries": 0}
    if name.base_url is not None:
        settings["base_url"] = name.base_url
    try:
        made = init_chat_model(model, model_provider=provider, **settings)
    except Exception as error:
        # LangChain names the missing package; each provider has its own exception for a missing key.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"model {str(name)!r} cannot be used: {reason}") from error
    return backend_of(name, made)


LANGCHAIN = Provider(
    _connect_langchain,
    lambda: [Entry("langchain:PROVIDER:NAME", "ready", "any provider of LangChain's init_chat_model")],
)

PYTHON = Provider(
    _connect,
    lambda: [Entry("python:MODULE:FACTORY", "ready", "LangChain chat model made by a function of yours")],
)
