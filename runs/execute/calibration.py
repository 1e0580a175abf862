"""Whether a run uses the inputs that its calibrated recipe was calibrated with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cases.records import Case, InvalidCase
from graph.note_resources import EvidenceRanker
from graph.system import System
from nodes.core.recipe import Recipe
from nodes.evidence.calibration import CalibrationSettings, case_fingerprint, evidence_sha256
from nodes.evidence.settings import EvidenceSettings, VoteSettings
from runs.record.manifest import Manifest, model_identities, resource_changes
from serving.protocol.model_name import Role

CALIBRATION = "calibration"
"""The record in `run.json`."""


def shaped_by(
    system: System, recipe: Recipe, manifest: Manifest | None, resources: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Inputs that determine the labels of a run, as fields of `CalibrationSettings`.

    `manifest` is from the run whose votes the rule was chosen on; None if no model voted.
    """
    evidence = recipe.section(EvidenceSettings)
    roles: tuple[Role, ...] = ("label", "reflect") if evidence.reflects else ("label",)
    asked = manifest if evidence.asks_model else None
    identities = model_identities(asked) if asked else {}
    of_ranker = EvidenceRanker.compared
    used = {
        name: fields
        for name, fields in system.compared.items()
        if (evidence.asks_ranker if name in of_ranker else evidence.asks_model)
    }
    votes = {
        contract.name
        for node in system.nodes
        if any(issubclass(section, VoteSettings) for section in node.sections)
        for contract in node.prompts
    }
    return {
        "models": {role: identities[role] for role in roles if role in identities},
        "prompts": {name: sha for name, sha in asked.prompts.items() if name in votes} if asked else {},
        "resources": {
            name: {field: resources[name].get(field) for field in fields}
            for name, fields in used.items()
            if name in resources
        },
        "evidence_sha256": evidence_sha256(recipe),
    }


def compare_with_calibration(
    manifest: Manifest,
    recipe: Recipe,
    cases: Iterable[Case | InvalidCase],
    compared: Mapping[str, Sequence[str]],
) -> dict[str, Any] | None:
    """Record of a calibrated recipe in `run.json`; None for other recipes."""
    made = recipe.find_section(CalibrationSettings)
    if made is None:
        return None
    known = frozenset(made.fingerprints)
    seen = sum(isinstance(case, Case) and case_fingerprint(case) in known for case in cases)
    changed = _changed(made, manifest, recipe, compared)
    return {
        "data_sha256": made.data_sha256,
        "cases": made.cases,
        "seen_cases": seen,
        "changed": changed,
        "bound": "none" if made.bound is None else "lapsed" if changed else "holds",
    }


def calibration_warning(record: Mapping[str, Any]) -> str | None:
    """The line that a run begins with; None where all is as it was and the cases are new."""
    parts = []
    if record["changed"]:
        parts.append(f"not as calibrated: {'; '.join(record['changed'])}")
    if record["seen_cases"]:
        parts.append(f"the rule was chosen on {record['seen_cases']} of these cases, so scores are too good")
    if not parts:
        return None
    lapsed = "; the bound on its risk has lapsed" if record["bound"] == "lapsed" else ""
    remedy = ". Calibrate again: evigraph calibrate" if record["changed"] else ""
    return f"warning: calibrated recipe: {'; '.join(parts)}{lapsed}{remedy}"


def _changed(
    made: CalibrationSettings, manifest: Manifest, recipe: Recipe, compared: Mapping[str, Sequence[str]]
) -> list[str]:
    now = model_identities(manifest)
    found = [
        f"the model of {role} is {now.get(role, 'none')}, not {was}"
        for role, was in made.models.items()
        if now.get(role) != was
    ]
    found += [
        f"prompt {name} is another" for name, sha in made.prompts.items() if manifest.prompts.get(name) != sha
    ]
    then = manifest.model_copy(update={"resources": made.resources})
    fields = {name: compared[name] for name in made.resources if name in compared}
    changes = resource_changes(then, manifest, fields)
    found += list(dict.fromkeys(f"{name} of another {field}" for name, field, *_ in changes))
    if evidence_sha256(recipe) != made.evidence_sha256:
        found.append("its sections evidence and review are not those that were calibrated")
    return found
