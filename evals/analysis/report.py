"""Every question about a run's votes, asked at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cases.texts import plural
from evals.analysis.intents import IntentScores, evidence_by_intent, intent_scores
from evals.analysis.reflection import ReflectionChanges, reflection_changes
from evals.analysis.sweep import (
    EvidenceScores,
    TunedThreshold,
    labelled,
    leave_one_out,
    scores_in_percent,
    settings,
    sweep,
    tune,
    tuned_elsewhere,
)
from evals.analysis.voted_cases import (
    Agreement,
    VotedCase,
    evidence_settings,
    read_voted_cases,
    vote_agreement,
)
from evals.scoring.gold import GoldCase, ScoringError, gold_of_run
from runs.record.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Analysis:
    """Analysis of a finished run, without further model calls.

    Attributes:
        cases: Cases that are done and have votes.
        labelled_cases: Those of them that the key labels.
        weak_cases: Those of the labelled ones whose labels are weak.
        threshold: T of the recipe.
        votes: R, the maximum number of votes for a case, a ranker's counted with its weight.
        adaptive: Votes stopped as soon as labels were settled at T; other thresholds had fewer votes than
            they might have needed.
        by_threshold: One entry a threshold, empty without labels, as are `by_setting` and `by_intent`.
    """

    run: str
    cases: int
    labelled_cases: int
    threshold: int
    votes: int
    adaptive: bool
    by_threshold: list[EvidenceScores]
    by_setting: list[EvidenceScores]
    tuned: TunedThreshold | None
    agreement: Agreement | None
    reflection: ReflectionChanges | None
    by_intent: list[EvidenceScores]
    intents: IntentScores | None
    weak_cases: int = 0

    def as_json(self) -> dict[str, Any]:
        """One object for programs; scores and shares are 0 to 100, the confusion is a list of rows."""
        values: dict[str, Any] = scores_in_percent(asdict(self))
        if self.agreement is not None:
            for name in ("unanimous", "pairwise"):
                values["agreement"][name] *= 100
        if self.intents is not None:
            for name in ("accuracy", "accuracy_with_secondary", "macro_f1"):
                values["intents"][name] *= 100
            values["intents"]["confusion"] = [
                {"gold": gold, "predicted": made, "cases": number}
                for (gold, made), number in sorted(self.intents.confusion.items())
            ]
        return values


def analyse(run: RunFolder, gold: Mapping[str, GoldCase], tune_on: RunFolder | None = None) -> Analysis:
    """Ask everything.

    The threshold is chosen on another run's cases, or for each case on all the others.

    Raises:
        ScoringError: The run has no votes, or the other one cannot choose a threshold for it.
    """
    cases = read_voted_cases(run, gold)
    if not cases:
        raise ScoringError(f"{run.path}: no case of this run is done and has votes")
    keyed = labelled(cases)
    evidence = evidence_settings(run)
    threshold, votes = evidence.vote_threshold, evidence.all_votes
    predicted = {
        line["case_id"]: (line["intent"]["primary"], line["intent"]["secondary"])
        for line in run.cases()
        if line["status"] == "done" and line.get("intent")
    }
    return Analysis(
        run=str(run.path),
        cases=len(cases),
        labelled_cases=len(keyed),
        threshold=threshold,
        votes=votes,
        adaptive=evidence.adaptive,
        by_threshold=sweep(keyed, votes) if keyed else [],
        by_setting=settings(keyed),
        tuned=_tuned(keyed, votes, tune_on),
        agreement=vote_agreement(cases, votes),
        reflection=(reflection_changes(cases, keyed, threshold, votes) if evidence.reflects else None),
        by_intent=evidence_by_intent(keyed),
        intents=intent_scores(predicted, gold),
        weak_cases=sum(case.gold.weak for case in keyed),
    )


def _tuned(keyed: list[VotedCase], votes: int, tune_on: RunFolder | None) -> TunedThreshold | None:
    if tune_on is None:
        return leave_one_out(keyed, votes) if len(keyed) > 1 else None
    others = labelled(read_voted_cases(tune_on, gold_of_run(tune_on), with_votes=False))
    its_votes = evidence_settings(tune_on).all_votes
    if not others or not keyed:
        place = tune_on.path if keyed else "this run"
        raise ScoringError(f"{place}: no case is labelled by a key, so no threshold can be tuned")
    if its_votes != votes:
        raise ScoringError(
            f"{tune_on.path} has {plural(its_votes, 'vote')} a case and this run {votes}; a"
            " threshold of one means nothing in the other"
        )
    shared = {case.case_id for case in others} & {case.case_id for case in keyed}
    if shared:
        raise ScoringError(
            f"{tune_on.path} has {plural(len(shared), 'case')} of this run (such as"
            f" {min(shared)!r}); tune on others"
        )
    return tuned_elsewhere(keyed, votes, tune(others, votes), str(tune_on.path))
