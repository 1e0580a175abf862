"""Citations of a finished run under every attribution threshold and under other weights (heiDS 2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evals.analysis.sweep import scores_in_percent
from evals.scoring.gold import GoldCase, ScoringError
from nodes.citing.attribute_answer import cited_at
from nodes.citing.citations import CitationSettings
from nodes.core.records import Attribution
from ranking.attribution import Weights
from ranking.measures import PrecisionRecallF1, count, macro, micro
from runs.record.folder import RunFolder

THRESHOLDS = tuple(number / 10 for number in range(1, 10))
"""The paper's."""

WEIGHTS = (
    Weights(),
    Weights(lexical=0.5, fuzzy=0.0, semantic=0.5),
    Weights(lexical=0.4, fuzzy=0.2, semantic=0.4),
    Weights(lexical=0.3, fuzzy=0.4, semantic=0.3),
    Weights(lexical=0.2, fuzzy=0.4, semantic=0.4),
)
"""The paper's choice, and those that it compares."""


@dataclass(frozen=True, slots=True)
class AttributionScores:
    """Citations at one threshold with one set of weights, against the key. 0/0 counts as 0, as in 2025.

    Attributes:
        citations: Pairs of an answer sentence and a note sentence.
        cited: Different note sentences, over all cases.
        uncited: Cases that cite nothing: the scorer of 2025 refuses them.
        strict_micro: Against the essential sentences: the factuality of 2025.
        lenient_micro: Against the essential and the supplementary ones.
        clinician_micro: Against the clinician's citations; None if the key lacks them.
    """

    threshold: float
    weights: Weights
    citations: int
    cited: int
    uncited: int
    strict_micro: PrecisionRecallF1
    strict_macro: PrecisionRecallF1
    lenient_micro: PrecisionRecallF1
    clinician_micro: PrecisionRecallF1 | None


@dataclass(frozen=True, slots=True)
class AttributionSweep:
    """All thresholds and weights; the first rows have the weights of the run.

    Attributes:
        cases: Cases that are done and whose answers were attributed.
        labelled_cases: Those of them that the key labels; the rows are of these alone.
        threshold: Of the recipe.
        weights: Of the recipe.
        rows: Thresholds rise within each set of weights.
    """

    run: str
    cases: int
    labelled_cases: int
    threshold: float
    weights: Weights
    rows: list[AttributionScores]

    @property
    def own_rows(self) -> list[AttributionScores]:
        return [row for row in self.rows if row.weights == self.weights]

    def as_json(self) -> dict[str, Any]:
        rows = [{**scores_in_percent(asdict(row)), "weights": row.weights.model_dump()} for row in self.rows]
        return {**asdict(self), "weights": self.weights.model_dump(), "rows": rows}


Attributions = Mapping[str, Sequence[Attribution]]


def was_attributed(run: RunFolder) -> bool:
    """Whether any case has attributions."""
    return any(line.get("attributions") is not None for line in run.cases())


def attribution_sweep(run: RunFolder, gold: Mapping[str, GoldCase]) -> AttributionSweep:
    """Cite anew at every threshold; no model is asked.

    Raises:
        ScoringError: No answer of the run was attributed.
    """
    found: dict[str, Attributions] = {
        line["case_id"]: line["attributions"]
        for line in run.cases()
        if line["status"] == "done" and line.get("attributions") is not None
    }
    if not found:
        raise ScoringError(f"{run.path}: no answer of this run was attributed after it was written")
    settings = CitationSettings.model_validate(run.manifest.recipe.get("citation", {}))
    keyed = {id_: pairs for id_, pairs in found.items() if id_ in gold and gold[id_].labels}
    thresholds = sorted({*THRESHOLDS, settings.threshold})
    weights = [settings.weights, *(one for one in WEIGHTS if one != settings.weights)]
    return AttributionSweep(
        run=str(run.path),
        cases=len(found),
        labelled_cases=len(keyed),
        threshold=settings.threshold,
        weights=settings.weights,
        rows=[scores_at(keyed, gold, one, threshold) for one in weights for threshold in thresholds]
        if keyed
        else [],
    )


def scores_at(
    attributions: Mapping[str, Attributions],
    gold: Mapping[str, GoldCase],
    weights: Weights,
    threshold: float,
) -> AttributionScores:
    """Cite the answers of labelled cases at one threshold and score that."""
    links = {id_: cited_at(pairs, weights, threshold) for id_, pairs in attributions.items()}
    cited = {id_: frozenset(one for ids in of.values() for one in ids) for id_, of in links.items()}
    strict = [count(ids, gold[id_].essential) for id_, ids in cited.items()]
    lenient = [count(ids, gold[id_].essential | gold[id_].supplementary) for id_, ids in cited.items()]
    clinician = [
        count(ids, frozenset(one for _, one in known))
        for id_, ids in cited.items()
        if (known := gold[id_].links) is not None
    ]
    return AttributionScores(
        threshold=threshold,
        weights=weights,
        citations=sum(len(ids) for of in links.values() for ids in of.values()),
        cited=sum(map(len, cited.values())),
        uncited=sum(not ids for ids in cited.values()),
        strict_micro=micro(strict, "zero"),
        strict_macro=macro(strict, "zero"),
        lenient_micro=micro(lenient, "zero"),
        clinician_micro=micro(clinician, "zero") if clinician else None,
    )
