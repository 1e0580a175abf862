"""A pool of demonstrations from case files; intents that a key does not give are classified first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from langgraph.runtime import Runtime

from cases.load import find_cases
from cases.records import Case, Intent, RiskLevel
from nodes.core.context import Context
from nodes.core.recipe import Recipe
from nodes.question.classify_intent import CLASSIFY_INTENT, IntentSettings, classify_intent
from prompts import load_prompts
from retrieval.demonstrations import Source, build_pool
from retrieval.embeddings import connect_embedder
from runs.assemble import Report, connect_roles
from runs.servers import Servers
from serving.backends import Backend
from serving.client import ModelClient
from serving.journal import Journal
from serving.model_name import Role, assign_roles


class _IntentRecipe(Recipe):
    """What the node reads where no system does: its defaults."""

    system: str = "intents"
    intent: IntentSettings = IntentSettings()


_RECIPE = _IntentRecipe()


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a build."""

    count: int
    without_intent: int


async def build_from_files(
    inputs: Sequence[Path],
    keys: Sequence[Path],
    folder: Path,
    *,
    embedding: str,
    models: Sequence[str],
    source: Source | None,
    report: Report,
) -> Built:
    """Build a pool of the cases that have labels or an answer; the others are left out, and counted.

    `source` says who labelled all of them; None where each case says so itself.

    Raises:
        InputError: A case or key file.
        ModelError: The embedding, a model or the folder; or weak labels are called gold.
    """
    embedder = connect_embedder(embedding)
    files = find_cases(inputs, keys)
    summary = files.check()
    total = summary.cases + summary.invalid
    annotated = [
        case
        for case in files
        if isinstance(case, Case) and case.sentences and (case.gold.labels or case.gold.answer)
    ]
    if len(annotated) < total:
        report(
            f"{total - len(annotated)} of {total} cases have neither labels nor an answer, and are left out"
        )
    if models:
        annotated = await _with_intents(annotated, models, folder, report)
    count = await build_pool(folder, annotated, embedder, source)
    return Built(count, sum(case.gold.intent is None for case in annotated))


async def _with_intents(
    cases: Sequence[Case], models: Sequence[str], folder: Path, report: Report
) -> list[Case]:
    """Classify the cases that have no intent; the calls are journaled beside the pool."""
    with Servers(report) as servers:
        roles = assign_roles(models, {})
        backends = connect_roles(roles, await servers.addresses(roles.values()))
        return await _classified(cases, backends, folder, report)


async def _classified(
    cases: Sequence[Case], backends: Mapping[Role, Backend], folder: Path, report: Report
) -> list[Case]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder.with_name(f"{folder.name}.calls.sqlite"))
    client = ModelClient(backends, journal)
    waiting = [case for case in cases if case.gold.intent is None]
    report(f"classifying the intents of {len(waiting)} cases")
    context = Context(
        cases={case.id: case for case in waiting},
        client=client,
        prompts=load_prompts(_RECIPE.prompts, CLASSIFY_INTENT.prompts),
        settings=_RECIPE,
    )

    async def classified(case: Case) -> Case:
        if case.gold.intent is not None:
            return case
        update = await classify_intent({"case_id": case.id}, Runtime(context=context))
        choice = update["intent"]
        if choice["primary"] is None:
            return case
        risk: RiskLevel = "moderate"
        if choice["risk_level"] in ("low", "high"):
            risk = "low" if choice["risk_level"] == "low" else "high"
        intent = Intent(choice["primary"], choice["secondary"], risk)
        return replace(case, gold=replace(case.gold, intent=intent))

    try:
        return list(await asyncio.gather(*(classified(case) for case in cases)))
    finally:
        await client.aclose()
        journal.close()
