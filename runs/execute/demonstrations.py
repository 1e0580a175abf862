"""Pools of demonstrations: from case files, reviewed cases, and weak labels of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from langgraph.runtime import Runtime

from cases.formats.archehr_key import read_archehr_key, write_archehr_key
from cases.load import find_cases
from cases.records import Case, Gold, Intent, InvalidCase, Label, LabelSource, RiskLevel
from cases.texts import plural, quoted
from graph.note_resources import open_pool
from graph.system import find_system, systems
from nodes.core.context import Context
from nodes.core.recipe import Recipe
from nodes.question.classify_intent import CLASSIFY_INTENT, IntentSettings, classify_intent
from prompts import load_prompts
from retrieval.embeddings import connect_embedder
from retrieval.pools.folder import MANIFEST, REVIEWED, build_pool
from runs.execute.assemble import Report, connect_roles
from runs.execute.servers import Servers
from runs.record.folder import Line, RunFolder
from runs.record.manifest import RunError, recorded_cases, recorded_source
from runs.review.reviewed_gold import reviewed_cases
from serving.journal.journal import Journal
from serving.policy.gate import demand_scanned, hold_for, take_cases
from serving.policy.policy import keep_beside
from serving.protocol.model_name import assign_roles
from serving.protocol.thinking import Effort
from serving.requests.client import ModelClient
from storage.errors import InputError


class _IntentRecipe(Recipe):
    """The node's settings without a system: its defaults."""

    system: str = "intents"
    intent: IntentSettings = IntentSettings()


_RECIPE = _IntentRecipe()


@dataclass(frozen=True, slots=True)
class Built:
    """Result of a build."""

    count: int
    without_intent: int


async def build_from_files(
    inputs: Sequence[Path],
    keys: Sequence[Path],
    folder: Path,
    *,
    embedding: str,
    models: Sequence[str],
    effort: Effort | None = None,
    source: LabelSource | None,
    report: Report,
) -> Built:
    """Build a pool of the cases that have labels or an answer; the others are left out, and counted.

    `effort` is for the model that classifies intents. `source` is who labelled all cases; None if each case
    states it.

    Raises:
        InputError: A case or key file.
        ModelError: The embedding, a model or the folder; or weak labels are called gold.
        PolicyError: The cases may not be sent to one of them.
    """
    policies = hold_for((*inputs, *keys))
    take_cases(inputs, keys)
    demand_scanned(inputs, keys, "anyone who is shown the pool")
    embedder = connect_embedder(embedding)
    files = find_cases(inputs, keys)
    summary = files.check()
    total = summary.cases + summary.invalid
    annotated: list[Case] = []
    for case in files:
        if isinstance(case, InvalidCase):
            report(f"case {case.id} is left out: {case.fault}")
        elif case.sentences and (case.gold.labels or case.gold.answer):
            annotated.append(case)
    unlabelled = summary.cases - len(annotated)
    if unlabelled:
        report(f"{unlabelled} of {plural(total, 'case')} left out: no note, or neither labels nor an answer")
    if models:
        annotated = await _with_intents(annotated, models, effort, folder, report)
    count = await build_pool(folder, annotated, embedder, source)
    keep_beside(folder, policies)
    return Built(count, sum(case.gold.intent is None for case in annotated))


async def _with_intents(
    cases: Sequence[Case], models: Sequence[str], effort: Effort | None, folder: Path, report: Report
) -> list[Case]:
    """Classify the cases that have no intent; the calls are journaled next to the pool."""
    with Servers(report) as servers:
        roles = assign_roles(models, {})
        backends = connect_roles(roles, await servers.addresses(roles.values()))
        at_effort = {role: one.at_effort(effort) for role, one in backends.items()}
        folder.parent.mkdir(parents=True, exist_ok=True)
        journal = Journal(folder.with_name(f"{folder.name}.calls.sqlite"))
        client = ModelClient(at_effort, journal)
        try:
            return await _classified(cases, client, report)
        finally:
            await client.aclose()
            journal.close()


async def _classified(cases: Sequence[Case], client: ModelClient, report: Report) -> list[Case]:
    waiting = [case for case in cases if case.gold.intent is None]
    report(f"classifying the intents of {plural(len(waiting), 'case')}")
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
        risks: Mapping[str | None, RiskLevel] = {"low": "low", "high": "high"}
        risk = risks.get(choice["risk_level"], "moderate")
        intent = Intent(choice["primary"], choice["secondary"], risk)
        return replace(case, gold=replace(case.gold, intent=intent))

    return list(await asyncio.gather(*(classified(case) for case in cases)))


@dataclass(frozen=True, slots=True)
class Added:
    """Result of adding cases.

    Attributes:
        count: Demonstrations in the new pool.
        reviewed: Those of them whose gold comes from reviews.
        replaced: Ids of cases that the old pool had with other labels or answers.
    """

    count: int
    reviewed: int
    replaced: tuple[str, ...]


async def add_reviewed(
    pool: Path | None, runs: Sequence[Path], folder: Path, *, embedding: str, report: Report
) -> Added:
    """Build a new pool of an old one and the reviewed cases of runs.

    Where a case is in several, the last run counts. A pool excludes the queried case from its answers, by id
    and by text, so a reviewed case is never its own demonstration.

    `pool` was embedded with `embedding`; None is the packaged sample pool.

    Raises:
        RunError: A run has no reviews, or the new folder holds a pool: runs may refer to it.
        InputError: A case file of a run cannot be read.
        ModelError: The embedding, the old pool or the folder.
        PolicyError: No text may go to the server of the embedding, or the cases have several policies.
    """
    if (folder / MANIFEST).exists():
        raise RunError(f"{folder}: a pool is there already, and runs may refer to it; choose another folder")
    policies = list(hold_for([pool] if pool is not None else []))
    new: dict[str, Case] = {}
    for path in runs:
        run = RunFolder(path)
        policies += run.manifest.policies
        inputs = run.manifest.inputs
        demand_scanned(inputs.case_files, inputs.key_files, "anyone who is shown the pool")
        found = reviewed_cases(run)
        new |= {case.id: case for case in found.cases}
        if found.stale:
            report(f"{path}: reviewed on an earlier result of the run: {plural(len(found.stale), 'case')}")
    old = await open_pool(pool, embedding, report)
    known = {one.case_id: one.source for one in old.neighbours()}
    cases = {case_id: old.case(case_id) for case_id in known} | new
    reviewed = new.keys() | {case_id for case_id, source in known.items() if source == REVIEWED}
    count = await build_pool(folder, cases.values(), connect_embedder(embedding), reviewed=reviewed)
    keep_beside(folder, policies)
    return Added(count, len(reviewed), tuple(sorted(known.keys() & new.keys())))


_SOURCE = "label_source"
"""The result of a run that says where its labels come from."""


@dataclass(frozen=True, slots=True)
class WeakKey:
    """Key made from a run.

    Attributes:
        nothing_essential: Ids of those of them without an essential sentence.
        left_alone: Ids of the cases that people had labelled already; they are not in the key.
    """

    labelled: int
    nothing_essential: tuple[str, ...]
    left_alone: tuple[str, ...]
    failed: tuple[str, ...]
    not_run: int


def write_weak_key(run: RunFolder, path: Path) -> WeakKey:
    """Write every weakly labelled case with its clinician's answer; never a case that people labelled.

    Raises:
        RunError: The run is of another system, has labelled nothing, or its input has changed.
        InputError: The file holds anything but weak labels, or a case file cannot be read.
    """
    lines = _lines_of(run)
    weak = {case_id: line for case_id, line in lines.items() if line.get(_SOURCE) == "weak"}
    failed = tuple(case_id for case_id, line in lines.items() if line["status"] == "failed")
    if not weak:
        reason = f"{plural(len(failed), 'case')} failed" if failed else "no case was without labels of people"
        hint = f"see: evigraph show {quoted(run.path)}"
        raise RunError(f"{run.path}: no weak labels in this run: {reason}; {hint}")
    _refuse_other_keys(path)
    key = {
        case.id: _weak(case.gold, weak[case.id]) for case in recorded_cases(run.manifest) if case.id in weak
    }
    write_archehr_key(path, key)
    return WeakKey(
        labelled=len(key),
        nothing_essential=tuple(
            id_ for id_, gold in key.items() if "essential" not in (gold.labels or {}).values()
        ),
        left_alone=tuple(id_ for id_ in lines if id_ not in weak and id_ not in failed),
        failed=failed,
        not_run=run.manifest.inputs.cases - len(lines),
    )


def _lines_of(run: RunFolder) -> dict[str, Line]:
    manifest = run.manifest
    if _SOURCE not in find_system(manifest.system).results:
        makers = [name for name in systems() if _SOURCE in find_system(name).results]
        raise RunError(
            f"{run.path}: a run of {manifest.system!r} has no weak labels;"
            f" make some: evigraph run {makers[0]} CASES --model STRING"
        )
    if recorded_source(manifest).unselected.check().sha256 != manifest.inputs.sha256:
        # Sentences may be others now, and people may have labelled some.
        raise RunError(f"{run.path}: its case files or keys have changed since; start a new run")
    return {line["case_id"]: line for line in run.cases()}


def _weak(gold: Gold, line: Line) -> Gold:
    labels: dict[str, Label] = {
        id_: "essential" if label == "essential" else "not-relevant" for id_, label in line["labels"].items()
    }
    return replace(gold, labels=labels, label_source="weak")


def _refuse_other_keys(path: Path) -> None:
    """A file of weak labels may be written anew; labels of people, and all else, must not be lost."""
    if not path.exists():
        return
    try:
        replaceable = all(gold.label_source == "weak" for gold in read_archehr_key(path).values())
    except InputError:
        replaceable = False
    if not replaceable:
        raise InputError(path, "exists, and holds more than weak labels", "Choose another name")
