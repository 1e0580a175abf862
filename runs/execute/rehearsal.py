"""Cases rehearsed: the real graph with made-up replies. A dry run counts them, a run looks ahead by them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cases.records import Case
from graph.system import System
from nodes.core.dry_run import DryCall, share_of
from nodes.core.recipe import Recipe
from runs.execute.assemble import Assembly
from runs.execute.case_run import CaseResult
from serving.backends.backend import CallParameters
from serving.protocol.errors import CallError
from serving.protocol.messages import Message
from serving.protocol.reply import JsonSchema
from serving.requests.client import ModelClient
from serving.requests.dry_run import Write

ESSENTIAL_SHARE = 0.25
"""Of the sentences of a note."""

DISSENT_SHARE = 0.05
"""Labels that a vote turns round, so that votes differ a little, as a model's do."""

Foreseen = Mapping[str, Mapping[str, str]]
"""By case: what the model is likely to say for a field of a reply."""


def writer(system: System, recipe: Recipe, foreseen: Foreseen) -> Write:
    """Makes replies up: what a node declares, else a value for each field of the schema."""
    made_up = {name: make for node in system.nodes for name, make in node.dry_replies.items()}

    def write(call: CallParameters, sample: int, messages: Sequence[Message]) -> str:
        if call.schema_name in made_up:
            return made_up[call.schema_name](DryCall(recipe, call.case_id, messages, call.schema))
        assert call.schema is not None, f"the node that asks for {call.schema_name!r} declares a dry reply"
        value = _value(call.schema, (call.case_id,), (call.role, str(sample)))
        likely = foreseen.get(call.case_id, {})
        fields = call.schema.get("properties", {})
        fitting = {
            name: said for name, said in likely.items() if said in fields.get(name, {}).get("enum", ())
        }
        return json.dumps({**value, **fitting} if fitting else value)

    return write


def _value(schema: JsonSchema, place: tuple[str, ...], vote: tuple[str, ...]) -> Any:
    """A value that fits a schema; `place` says which one, `vote` who is asked."""
    if "enum" in schema:
        return _choice(schema["enum"], place, vote)
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _value(part, (*place, name), vote) for name, part in properties.items()}
    if kind == "array":
        count = max(1, schema.get("minItems", 1))
        return [_value(schema.get("items", {}), (*place, str(index)), vote) for index in range(count)]
    simple = {"string": "the patient improved", "integer": 1, "number": 0.5, "boolean": True, "null": None}
    if kind in simple:
        return simple[kind]
    raise CallError("internal", f"a dry run cannot make up a value for {json.dumps(schema)[:80]}")


def _choice(options: list[Any], place: tuple[str, ...], vote: tuple[str, ...]) -> Any:
    if len(options) == 2 and "essential" in options:
        essential = share_of(place) < ESSENTIAL_SHARE
        if share_of((*place, *vote)) < DISSENT_SHARE:
            essential = not essential
        return next(option for option in options if (option == "essential") == essential)
    return options[int(share_of(place) * len(options))]


async def rehearse(
    assembly: Assembly,
    client: ModelClient,
    case: Case,
    foreseen: dict[str, dict[str, str]],
) -> CaseResult:
    """One case with made-up replies, and nothing kept of it.

    `assembly` has a recipe that does not wait, as a rehearsal has no reviewer; the backends of `client` make
    replies up by a `writer` of `foreseen`.
    """
    found: dict[str, str] = {}
    for node in assembly.system.nodes:
        if node.foresee is not None:
            found |= await node.foresee(case, assembly.tools)
    foreseen[case.id] = found
    try:
        return await assembly.run(case, client)
    finally:
        client.forget(case.id)
        del foreseen[case.id]
