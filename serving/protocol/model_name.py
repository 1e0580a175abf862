"""One string names a model: `provider:name`, with an optional `@base_url`, or several.

`batch:` before it says that its calls go in batches.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from serving.protocol.addresses import redacted
from serving.protocol.errors import ModelError
from serving.protocol.keys import check_address

Role = Literal["classify", "label", "reflect", "answer", "verify"]
ROLES: tuple[Role, ...] = get_args(Role)

FOLLOWED: Mapping[Role, Role] = {"reflect": "label", "verify": "answer"}
"""Roles whose model and effort are those of another role unless they are set: a reflection continues the
conversation of a vote, and an answer is verified by the model that wrote it."""

_FILES = Path(__file__).parents[1].joinpath("backends", "providers").glob("[!_]*.py")
HOSTED = tuple(sorted(file.stem for file in _FILES))
"""The hosted providers; each is a file of `serving/backends/providers`."""

PROVIDERS = {
    "embedded": "serving.embedded.backend:EMBEDDED",
    "vllm": "serving.backends.openai_compatible:VLLM",
    **{name: f"serving.backends.providers.{name}:PROVIDER" for name in HOSTED},
    "python": "serving.backends.python_model:PYTHON",
    "langchain": "serving.backends.python_model:LANGCHAIN",
    "scripted": "serving.backends.scripted:SCRIPTED",
}
"""Where the `Provider` of each name is defined, in the order of the catalogue. It is imported when used."""

BATCHED = "batch:"
"""Before the string of a model whose calls go in batches of its provider."""

ALIASES = {
    "ollama": "http://127.0.0.1:11434/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
}
"""Local programs that serve OpenAI's protocol at an address of theirs."""

_KNOWN = (
    f"{', '.join((*PROVIDERS, *ALIASES))}; llama.cpp, SGLang, TGI, OpenRouter, Together and Azure are"
    " openai:NAME@ADDRESS"
)
"""The end of a message about a provider that is not known."""

_FORM = re.compile(r"(?P<provider>[^:@]+):(?P<name>.+?)(?:@(?P<base_url>https?://\S+))?")
_KEYED = re.compile(r"@(https?://\S*)", re.IGNORECASE)

# `@001` is a version at some providers; `@host:8000` without a scheme would go to the hosted service.
_ADDRESS = re.compile(r"@(\S*[:/]\S*|localhost|[A-Za-z][\w-]*(\.[\w-]+)+)$")


@dataclass(frozen=True, slots=True)
class ModelName:
    """A parsed model string.

    Attributes:
        base_url: The addresses, separated by commas where there are several.
        batched: Whether its calls go in batches. It does not change the answers.
    """

    provider: str
    name: str
    base_url: str | None = None
    batched: bool = False

    @property
    def base_urls(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.base_url.split(","))) if self.base_url else ()

    @property
    def identity(self) -> str:
        """Provider and name: a server that moves keeps its answers."""
        return f"{self.provider}:{self.name}"

    @property
    def needs_server(self) -> bool:
        """Whether a vLLM server must be started for it, because it names none."""
        return self.provider == "vllm" and self.base_url is None and not self.batched

    @property
    def on_server(self) -> bool:
        """Whether a session begins by reaching, or starting, its server."""
        return not self.batched and (self.needs_server or bool(self.base_urls))

    def __str__(self) -> str:
        return f"{BATCHED * self.batched}{self.provider}:{self.name}" + (
            f"@{self.base_url}" if self.base_url else ""
        )


def parse_model_name(text: str) -> ModelName:
    """Parse `[batch:]provider:name[@base_url[,base_url...]]`.

    Raises:
        ModelError: The form is wrong, the provider is unknown, or an address holds a secret.
    """
    shown = redacted(text)
    if keyed := _KEYED.search(text.strip()):
        # First of all, because every other message shows the string.
        provider = text.strip().removeprefix(BATCHED).partition(":")[0]
        check_address(keyed[1], f"model {shown!r}", key_variable(provider))
    match = _FORM.fullmatch(_without_alias(text.strip().removeprefix(BATCHED)))
    if match is None:
        hint = _suggestion(text.strip())
        raise ModelError(
            f"model {shown!r} is not of the form provider:name or provider:name@http://host:port/v1; "
            + (f"did you mean {hint!r}?" if hint else f"providers: {_KNOWN}")
        )
    name = ModelName(**match.groupdict(), batched=text.strip().startswith(BATCHED))
    if name.provider not in PROVIDERS:
        near = difflib.get_close_matches(name.provider, (*PROVIDERS, *ALIASES), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {_KNOWN}"
        raise ModelError(f"unknown provider {name.provider!r} in model {shown!r}; {hint}")
    if name.base_url is None and _ADDRESS.search(name.name):
        raise ModelError(f"model {shown!r}: an address begins with http:// or https://, in lower case")
    wrong = next((url for url in name.base_urls if not url.startswith(("http://", "https://"))), None)
    if wrong is not None:
        raise ModelError(f"model {shown!r}: address {wrong!r} does not begin with http:// or https://")
    return name


def recorded_name(text: str) -> ModelName:
    """Read the model string of a run, whose provider may have been removed since, or its file of addresses.

    Raises:
        ModelError: The form is wrong.
    """
    match = _FORM.fullmatch(text.removeprefix(BATCHED).partition("@file:")[0])
    if match is None:
        raise ModelError(f"model {redacted(text)!r} is not of the form provider:name")
    return ModelName(**match.groupdict(), batched=text.startswith(BATCHED))


def _without_alias(text: str) -> str:
    alias, separator, name = text.partition(":")
    address = ALIASES.get(alias)
    if address is None or not separator:
        return text
    return f"openai:{name}" if "@http" in name else f"openai:{name}@{address}"


def _suggestion(text: str) -> str | None:
    """The full string of a hosted model that is named without its provider."""
    for provider in HOSTED:
        families = importlib.import_module(f"serving.backends.providers.{provider}").FACTS.families
        if text.lower().startswith(families) and re.fullmatch(r"[\w.-]+", text):
            return f"{provider}:{text}"
    return None


def key_variable(provider: str) -> str:
    """The environment variable of a provider's key."""
    return f"{provider.partition('_')[0].upper()}_API_KEY"


def assign_roles(arguments: Sequence[str], defaults: Mapping[Role, str]) -> dict[Role, ModelName]:
    """Combine `STRING` and `ROLE=STRING` arguments over a recipe's own models.

    A plain string sets all roles; `label=...` sets one, and the roles of `FOLLOWED` follow theirs.

    Raises:
        ModelError: A role is unknown, or a role is left without a model.
    """
    chosen: dict[Role, str] = dict(defaults)
    named: dict[Role, str] = {}
    for argument in arguments:
        role, separator, model = argument.partition("=")
        if not separator or ":" in role:
            chosen = dict.fromkeys(ROLES, argument)
        elif role in ROLES:
            named[role] = model
        else:
            near = difflib.get_close_matches(role, ROLES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"roles: {', '.join(ROLES)}"
            raise ModelError(f"unknown role {role!r} in --model {redacted(argument)}; {hint}")
    for role, followed in FOLLOWED.items():
        if followed in named:
            named.setdefault(role, named[followed])
    chosen |= named
    for role, followed in FOLLOWED.items():
        if role not in chosen and followed in chosen:
            chosen[role] = chosen[followed]
    missing = [role for role in ROLES if role not in chosen]
    if missing:
        raise ModelError(f"no model for {', '.join(missing)}: pass --model STRING for all roles")
    return {role: parse_model_name(chosen[role]) for role in ROLES}
