"""Requests for runs from arguments of a Python program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from graph.recipe import load_recipe, located, override
from runs.execute.assemble import Request
from serving.backends.python_model import name_of
from serving.policy.gate import choose
from serving.policy.privacy import switch_off_telemetry
from serving.protocol.model_name import ModelName, Role, assign_roles

AnyModel = str | BaseChatModel
Models = AnyModel | Mapping[Role, AnyModel] | None
"""A model string or a LangChain chat model, for all roles or by role; None for the models of the recipe."""


def make_request(
    recipe: str,
    model: Models,
    settings: Mapping[str, Any] | None,
    places: Mapping[str, str | Path] | None,
    inputs: Sequence[Path] = (),
    keys: Sequence[Path] = (),
) -> Request:
    """A request of the same values that `evigraph run` takes.

    Raises:
        RecipeError: The recipe does not exist, or a setting is wrong.
        ModelError: A role has no model, or a string names none.
    """
    loaded = load_recipe(recipe)
    return Request(
        recipe=override(loaded, settings or {}, recipe),
        recipe_origin=located(recipe),
        inputs=tuple(inputs),
        keys=tuple(keys),
        models=models_by_role(model, loaded.models),
        overrides=dict(settings or {}),
        places={name: Path(place) for name, place in (places or {}).items()},
    )


def models_by_role(model: Models, defaults: Mapping[Role, str]) -> dict[Role, ModelName]:
    """The model of each role, `defaults` for those that none is given for."""
    if model is None:
        arguments = []
    elif isinstance(model, Mapping):
        arguments = [f"{role}={_string(one)}" for role, one in model.items()]
    else:
        arguments = [_string(model)]
    return assign_roles(arguments, defaults)


def _string(model: AnyModel) -> str:
    return model if isinstance(model, str) else str(name_of(model))


def apply_policy(policy: str | Path | None, *, allow_hosted: bool) -> None:
    """Do what `--policy` and `--allow-hosted` do; tracing and telemetry are off, as in every command.

    Raises:
        PolicyError: The policy cannot be read.
    """
    switch_off_telemetry()
    if policy is not None or allow_hosted:
        choose(None if policy is None else str(policy), allow_hosted=allow_hosted)
