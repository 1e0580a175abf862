"""Labelled cases to calibrate on: from a run with its votes, or from case files and a ranker alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cases.load import CaseSource, find_cases
from cases.records import Case
from cases.texts import plural
from evals.errors import CalibrationError
from graph.note_resources import EvidenceRanker, PoolRecipe, open_pool
from graph.recipe import load_recipe, override
from graph.resource import ResourceRequest
from nodes.core.failure import NodeFailure
from nodes.core.recipe import Recipe
from nodes.evidence.aggregate_votes import effective_threshold
from nodes.evidence.calibration import case_fingerprint
from nodes.evidence.rank_evidence import RANKER
from nodes.evidence.rule import DIGITS, judge, log_odds
from nodes.evidence.settings import EvidenceSettings
from nodes.question.adopt_patient_question import patient_question
from ranking.cutoffs import select
from ranking.prefixes import Floats
from ranking.rankers.ranker import Ranker
from runs.execute.assemble import recorded_places
from runs.record.folder import Line, RunFolder
from runs.record.manifest import Manifest, recorded_recipe, recorded_source
from storage.url_names import name_of

Labels = NDArray[np.bool_]
Advance = Callable[[int, int], None]
"""Called with the cases that a ranker has scored, and with all."""


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """A case with labels of people. Arrays have shape (sentences,).

    Attributes:
        fingerprint: Of its texts; cases with equal ones are never split.
        essential: By the key.
        model: Log-odds; None where no model voted.
        ranker: Scores; None where no ranker did.
        uncalibrated: Selection by the unchanged recipe.
        uncalibrated_sums: Its ranking scores.
    """

    case_id: str
    fingerprint: str
    essential: Labels
    model: Floats | None
    ranker: Floats | None
    uncalibrated: Labels
    uncalibrated_sums: Floats


@dataclass(frozen=True, slots=True)
class CalibrationData:
    """Labelled cases for a calibration.

    Attributes:
        origin: The run, or the case files.
        recipe: Base of the calibrated recipe.
        manifest: Of the run; None of case files.
        resources: Records of the resources used by the votes.
        ranker: Name of the ranker; None without one.
        left_out: How many cases are not used, by the reason.
        notes: Lines for the reader.
        cost: Calls and tokens that a case of the run took, its answer included; empty of case files.
    """

    origin: str
    # asyncio writes out the result of its main task, which takes longer than everything else here.
    cases: Sequence[LabelledCase] = field(repr=False)
    recipe: Recipe
    manifest: Manifest | None
    resources: Mapping[str, Mapping[str, Any]]
    ranker: str | None
    left_out: Mapping[str, int]
    notes: Sequence[str] = ()
    cost: Mapping[str, float] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Digest of all input to the choice of a rule."""
        digest = hashlib.sha256()
        for case in self.cases:
            parts = [case.essential.astype(int), case.model, case.ranker]
            values = [None if part is None else np.round(part, 6).tolist() for part in parts]
            digest.update(json.dumps([case.case_id, case.fingerprint, *values]).encode())
        return digest.hexdigest()


async def from_run(
    path: Path, keys: Sequence[Path], ranker: str | None, notify: Callable[[str], None], advance: Advance
) -> CalibrationData:
    """The cases of a finished run that people have labelled.

    Raises:
        CalibrationError: The run is not finished, has no votes on notes, or no labels.
        RunError, InputError, RankerError, WeightsError: Its parts cannot be read.
    """
    run = RunFolder(path)
    manifest = run.manifest
    recipe, evidence = _voting(run)
    if not manifest.inputs.paths:
        raise CalibrationError(f"{path}: the run names no case files")
    source = recorded_source(manifest, keys=keys or None)
    if keys:
        source.unselected.check()
    lines = {line["case_id"]: line for line in run.cases()}
    cases = list(_readable(source))
    if evidence.asks_ranker and ranker is not None and ranker != evidence.ranker:
        raise CalibrationError(
            f"{path}: its ranker is {evidence.ranker!r}, and --ranker {ranker!r}; leave --ranker out"
        )
    scores: Ranker | None = None
    resources: dict[str, Mapping[str, Any]] = dict(manifest.resources)
    if not evidence.asks_ranker and ranker is not None:
        recipe = override(recipe, {"evidence.voters": "both", "evidence.ranker": ranker}, str(path))
        scores, record = await _open_ranker(recipe, str(path))
        resources |= record
    usable, left_out = _labelled(cases)
    found = []
    for done, case in enumerate(usable, start=1):
        line = lines.get(case.id)
        if line is None or line["status"] == "failed" or not line.get("usable_votes"):
            left_out["failed or never run"] = left_out.get("failed or never run", 0) + 1
            continue
        found.append(_voted(case, line, evidence, scores))
        if scores is not None:
            advance(done, len(usable))
    _demand(found, left_out, str(path), bool(keys or manifest.inputs.keys))
    notes = await _shown_to_others(run, recipe, usable, notify) if evidence.asks_model else []
    name = recipe.section(EvidenceSettings).ranker
    voting = evidence.asks_ranker or scores is not None
    cost = _cost([lines[case.case_id] for case in found])
    return CalibrationData(
        str(path), found, recipe, manifest, resources, name if voting else None, left_out, notes, cost
    )


async def from_cases(
    paths: Sequence[Path], keys: Sequence[Path], ranker: str, base: str, advance: Advance
) -> CalibrationData:
    """The labelled cases of files, scored by a ranker.

    Raises:
        CalibrationError: No case has labels.
        InputError, RankerError, WeightsError, RecipeError: Its parts cannot be read.
    """
    source = find_cases(paths, keys)
    source.check()
    usable, left_out = _labelled(list(_readable(source)))
    origin = ", ".join(map(name_of, paths))
    _demand(usable, left_out, origin, bool(source.keys))
    changes = {"evidence.voters": "ranker", "evidence.ranker": ranker, "evidence.rule": None}
    recipe = override(load_recipe(base), changes, base)
    scores, resources = await _open_ranker(recipe, base)
    cutoff = recipe.section(EvidenceSettings).cutoff or scores.cutoff
    found = []
    for done, case in enumerate(usable, start=1):
        values = _scored(scores, case)
        chosen = mask(select(cutoff, values), values.size)
        essential = _essential(case)
        found.append(LabelledCase(case.id, case_fingerprint(case), essential, None, values, chosen, values))
        advance(done, len(usable))
    return CalibrationData(origin, found, recipe, None, resources, ranker, left_out)


def _voting(run: RunFolder) -> tuple[Recipe, EvidenceSettings]:
    """The recipe of a finished run whose votes a rule can replace."""
    manifest = run.manifest
    recipe = recorded_recipe(manifest)
    evidence = recipe.find_section(EvidenceSettings)
    if evidence is None:
        raise CalibrationError(
            f"{run.path}: a run of {manifest.system!r} has no votes that a rule could weigh; calibrate a run"
            " of tamu"
        )
    if not recipe.labels_evidence:
        raise CalibrationError(f"{run.path}: its recipe stops before evidence, so it has no votes")
    if manifest.status != "finished":
        ended = len(run.statuses())
        raise CalibrationError(
            f"{run.path}: the run has not finished ({manifest.status}, {ended:,} of"
            f" {plural(manifest.inputs.cases, 'case')} ended); finish it: evigraph resume {run.path}"
        )
    return recipe, evidence


def _readable(source: CaseSource) -> Iterator[Case]:
    return (case for case in source if isinstance(case, Case))


def _labelled(cases: Sequence[Case]) -> tuple[list[Case], dict[str, int]]:
    """The cases that people have labelled, and how many are left out for which reason."""
    found, left_out = [], {"unlabelled": 0, "labelled by a model": 0, "without sentences": 0}
    for case in cases:
        if not case.sentences:
            left_out["without sentences"] += 1
        elif not case.gold.labels:
            left_out["unlabelled"] += 1
        elif case.gold.label_source == "weak":
            left_out["labelled by a model"] += 1
        else:
            found.append(case)
    return found, {reason: count for reason, count in left_out.items() if count}


def _demand(found: Sequence[object], left_out: Mapping[str, int], origin: str, has_key: bool) -> None:
    if len(found) >= 2:
        return
    without = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    why = f" ({without})" if without else ""
    if not found:
        remedy = "label some" if has_key else "give their labels: --key KEY"
        raise CalibrationError(f"{origin}: no case to calibrate on{why}; {remedy}")
    raise CalibrationError(
        f"{origin}: 1 case to calibrate on{why}; a rule has to be tested on cases that it was not chosen on,"
        " so label more"
    )


def _voted(case: Case, line: Line, evidence: EvidenceSettings, ranker: Ranker | None) -> LabelledCase:
    ids = case.sentence_ids
    counts: dict[str, int] = line["vote_counts"]
    ranked = line.get("ranker_vote")
    weight = evidence.ranker_weight if ranked else 0
    of_ranker = frozenset(ranked["essential"]) if ranked else frozenset()
    votes = line["usable_votes"] - weight
    own = {id_: counts[id_] - weight * (id_ in of_ranker) for id_ in ids}
    model = log_odds(ids, own, votes, line.get("label_confidence")) if votes else None
    recorded = line.get("ranker_scores")
    scores = np.array([recorded[id_] for id_ in ids]) if recorded else None
    if ranker is not None:
        scores = _scored(ranker, case)
    if evidence.rule is not None:
        judged = judge(evidence.rule, model, scores)
        chosen, sums = mask(judged.chosen, len(ids)), judged.sums
    else:
        threshold = effective_threshold(evidence, votes, line.get("asked_votes") or votes)
        sums = np.array([counts[id_] for id_ in ids], dtype=np.float64)
        chosen = sums >= threshold
        if not votes and scores is not None:
            sums = scores
    return LabelledCase(
        case.id, case_fingerprint(case), _essential(case), model, scores, np.asarray(chosen), sums
    )


def _cost(lines: Sequence[Line]) -> dict[str, float]:
    """Means over cases, of their last pass."""
    used = [line["usage"] for line in lines]
    return {
        "calls": sum(one["calls"] for one in used) / len(used),
        "tokens": sum(one["input_tokens"] + one["output_tokens"] for one in used) / len(used),
    }


def _essential(case: Case) -> Labels:
    labels = case.gold.labels or {}
    return np.array([labels.get(id_) == "essential" for id_ in case.sentence_ids], dtype=np.bool_)


def mask(positions: Sequence[int], size: int) -> Labels:
    """Whether each of `size` sentences is at one of the positions."""
    chosen = np.zeros(size, dtype=np.bool_)
    chosen[positions] = True
    return chosen


async def _open_ranker(recipe: Recipe, origin: str) -> tuple[Ranker, Mapping[str, Mapping[str, Any]]]:
    opened = await EvidenceRanker().open(ResourceRequest(recipe, origin))
    return opened.tools[RANKER.name], opened.records


def _scored(ranker: Ranker, case: Case) -> Floats:
    """Rounded as a run records them."""
    question = case.question
    if not question.strip():
        try:
            question = patient_question(case)[0]
        except NodeFailure as failure:
            raise CalibrationError(f"case {case.id!r}: {failure}") from None
    ranked = ranker.rank(question, [sentence.text for sentence in case.sentences])
    scores: Floats = ranked.scores.astype(np.float64)
    return scores.round(DIGITS)


async def _shown_to_others(
    run: RunFolder, recipe: Recipe, cases: Sequence[Case], notify: Callable[[str], None]
) -> list[str]:
    """Whether the prompts of some cases showed the labels of others."""
    place = recorded_places(run.manifest, recipe).get("demos")
    if not recipe.section(EvidenceSettings).demonstrations or place is None or not place.is_dir():
        return []
    assert isinstance(recipe, PoolRecipe)
    pool = await open_pool(place, recipe.embedding, notify)
    twins = sum(pool.holds(case) for case in cases)
    if not twins:
        return []
    return [
        f"{twins:,} of {plural(len(cases), 'case')} are in the pool of demonstrations, so prompts of"
        " the others showed their labels; calibrate on cases outside of it"
    ]
