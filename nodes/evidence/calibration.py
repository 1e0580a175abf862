"""Provenance of a calibrated recipe: data, models, prompts, and the proven bound."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from pydantic import Field

from cases.definitions import Section
from cases.records import Case
from cases.texts import json_sha256
from nodes.core.recipe import Recipe, RecipeSection, set_values
from nodes.evidence.settings import AUTO, POINTWISE, POINTWISE_VALUES, EvidenceSettings, ReviewSettings

LossName = Literal["wrong_labels", "any_wrong", "missed", "f1"]
"""Loss of a case, 0 to 1: the share of its sentences with a wrong label; whether any is wrong.

The share of its essential sentences that are missed; 1 - F1.
"""


class Bound(Section):
    """With probability `confidence` the mean loss of the cases that are answered is at most `risk`.

    Attributes:
        risk: Upper bound of the mean loss over the cases that no person is asked about.
        confidence: Probability that the bound holds.
        loss: Of one case.
        cases: Labelled cases that it was tested on.
        answered: How many of them no person would have been asked about.
    """

    risk: float = Field(gt=0, lt=1)
    confidence: float = Field(gt=0, lt=1)
    loss: LossName
    cases: int
    answered: int


class CalibrationSettings(RecipeSection):
    """Inputs that a rule was chosen with. Other inputs cause a warning, and void a bound.

    Attributes:
        data_sha256: Over labels, votes and scores of all cases.
        cases: How many there were.
        fingerprints: Of the texts of each case.
        models: Identities of the models that voted, by role.
        prompts: Hashes of the prompts of votes, by name.
        resources: Demonstrations and ranker, as runs record them.
        evidence_sha256: Digest of the recipe's evidence and review settings.
        bound: None if not requested.
    """

    data_sha256: str
    cases: int
    fingerprints: tuple[str, ...] = ()
    models: dict[str, str] = Field(default_factory=dict)
    prompts: dict[str, str] = Field(default_factory=dict)
    resources: dict[str, dict[str, Any]] = Field(default_factory=dict)
    evidence_sha256: str
    bound: Bound | None = None


def settled_reply(recipe: Recipe, label_model: str) -> dict[str, Any]:
    """Recipe values that replace the reply `auto`, by dotted field; none for any other reply.

    Args:
        recipe: Of a run that begins.
        label_model: Identity of the model that labels.
    """
    evidence = recipe.find_section(EvidenceSettings)
    if evidence is None or evidence.reply != AUTO:
        return {}
    made = recipe.find_section(CalibrationSettings)
    # The record names the revision as well, which is not known before the model is reached; a run with
    # another revision is warned.
    calibrated = made is not None and made.models.get("label", "").startswith(f"{label_model} ")
    if not calibrated or evidence.rule is None:
        return {"evidence.reply": "labels", "evidence.rule": None}
    extra = evidence.ranker_votes if evidence.voters == "both" else 0
    values = {"reply": POINTWISE, "threshold": (1 + extra) // 2 + 1, **POINTWISE_VALUES}
    return {f"evidence.{name}": value for name, value in values.items()}


def case_fingerprint(case: Case) -> str:
    """Twelve digits for the texts of a case, without differences of case and white space."""
    texts = (case.question, case.narrative, *(sentence.text for sentence in case.sentences))
    plain = "\n".join(" ".join(text.lower().split()) for text in texts)
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:12]


def evidence_sha256(recipe: Recipe) -> str:
    """Digest of the values that affect labels and reviews; without defaults, as versions add fields."""
    values = [set_values(recipe.section(kind)) for kind in (EvidenceSettings, ReviewSettings)]
    return json_sha256(values)
