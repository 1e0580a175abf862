"""Cases rehearsed: the real graph with made-up replies. A dry run counts them, a run looks ahead by them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from cases.records import Case
from graph.system import System
from nodes.core.dry_run import DryCall, share_of
from nodes.core.recipe import Recipe
from nodes.question.classify_intent import CLASSIFY_INTENT, likely_intent
from nodes.verification.verify_answer import VerificationSettings
from runs.execute.assemble import Assembly
from runs.execute.case_run import CaseResult
from serving.journal.journal import Journal
from serving.protocol.budget import Prices, Spend
from serving.protocol.errors import CallError
from serving.protocol.limits import Limits
from serving.protocol.reply import JsonSchema
from serving.protocol.request import AnyRequest
from serving.requests.client import ModelClient
from serving.requests.dry_run import Write, without_model

ESSENTIAL_SHARE = 0.25
"""Assumed share of essential sentences in a note."""

DISSENT_SHARE = 0.05
"""Labels that a vote turns round, so that votes differ a little, as a model's do."""

Foreseen = Mapping[str, Mapping[str, str]]
"""Likely values of reply fields, by case."""


def writer(system: System, recipe: Recipe, foreseen: Foreseen) -> Write:
    """Makes up replies: as declared by the node, else a value for each field of the schema."""
    made_up = {name: make for node in system.nodes for name, make in node.dry_replies.items()}

    def write(request: AnyRequest, sample: int) -> str:
        name = request.reply.name
        if name in made_up:
            return made_up[name](DryCall(recipe, request.case_id, request.messages, request.schema))
        assert request.schema is not None, f"the node that asks for {name!r} declares a dry reply"
        value = _value(request.schema, (request.case_id,), (request.role, str(sample)))
        likely = foreseen.get(request.case_id, {})
        fields = request.schema.get("properties", {})
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


def rehearsed(recipe: Recipe) -> Recipe:
    """The same recipe for made-up replies: nobody reviews, and no answer is rewritten.

    A case that waits would leave out the calls after its review, and a made-up answer is in no note.
    """
    plain = recipe.without_waiting()
    sections = {name: getattr(plain, name) for name in type(plain).model_fields}
    once = {
        name: section.model_copy(update={"rewrites": 0})
        for name, section in sections.items()
        if isinstance(section, VerificationSettings)
    }
    return plain.model_copy(update=once)


async def rehearse(
    assembly: Assembly,
    client: ModelClient,
    case: Case,
    foreseen: dict[str, dict[str, str]],
) -> CaseResult:
    """One case with made-up replies, and nothing kept of it.

    `assembly` has a `rehearsed` recipe; the backends of `client` make replies up by a `writer` of `foreseen`.
    """
    classifies = CLASSIFY_INTENT in assembly.system.nodes
    foreseen[case.id] = dict(await likely_intent(case, assembly.tools)) if classifies else {}
    try:
        return await assembly.run(case, client)
    finally:
        client.forget(case.id)
        del foreseen[case.id]


REHEARSED = 3
"""Cases that are rehearsed: enough to know whether a case takes three calls or three hundred."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of a case's use, before one has ended.

    Attributes:
        calls: Mean of a case.
        spend: Use of the largest case.
        most: Maximum use by the calls of the largest case.
        largest_call: Maximum use by the largest call.
    """

    calls: float
    spend: Spend
    most: Spend
    largest_call: Spend


async def forecast(assembly: Assembly, cases: Iterable[Case], prices: Prices) -> Forecast | None:
    """Rehearse cases with estimated token counts.

    The graph and the client of the run are left alone.

    Returns:
        None where no case came to its end.
    """
    # A case of the run may be under way while its rehearsal is: they must not share a thread.
    dry_assembly = replace(assembly, recipe=rehearsed(assembly.recipe), graph=assembly.system.graph)
    foreseen: dict[str, dict[str, str]] = {}
    write = writer(assembly.system, dry_assembly.recipe, foreseen)
    dry = {
        id(one): without_model(replace(one, count_tokens=None), write, {})
        for one in assembly.backends.values()
    }
    backends = {role: dry[id(one)] for role, one in assembly.backends.items()}
    journal = Journal(None)
    client = ModelClient(backends, journal, Limits(max_retries=0), prices=prices)
    calls: list[int] = []
    spent: list[Spend] = []
    claimed: list[Spend] = []
    try:
        for case in cases:
            before, claimed_before = client.budget.spent, client.budget.claimed
            result = await rehearse(dry_assembly, client, case, foreseen)
            if result.line["error"] is None:
                calls.append(result.line["usage"]["calls"])
                spent.append(client.budget.spent.minus(before))
                claimed.append(client.budget.claimed.minus(claimed_before))
    finally:
        await client.dispatcher.close()
        journal.close()
    if not calls:
        return None
    largest, most = reduce(Spend.largest, spent), reduce(Spend.largest, claimed)
    return Forecast(sum(calls) / len(calls), largest, most, client.budget.largest_call)
