"""The twelve clinical question intents of TAMU 2026 (appendix B.1)."""

from __future__ import annotations

INTENTS: dict[str, str] = {
    "procedure_justification": "why a surgery or procedure was done",
    "icu_or_monitoring_necessity": "why intensive care or monitoring was required",
    "treatment_plan": "what should be done next",
    "medication_safety": "tapering, toxicity, side effects",
    "pathophysiology_explanation": "why one thing caused another",
    "malignancy_concern": "fear of cancer",
    "lab_abnormal_concern": "how severe an abnormal laboratory value is",
    "recovery_duration": "how long recovery takes",
    "prognosis_severity": "how serious it is, survival outlook",
    "activity_clearance": "travel, flying, oxygen removal, return to work",
    "persistent_unexplained_symptoms": "chronic unexplained symptoms",
    "neurologic_mental_status_change": "confusion, dementia, seizures",
}
"""Name to definition, in the paper's order."""

RISK_LEVELS = ("low", "moderate", "high")
