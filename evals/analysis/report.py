"""Every question about a run's votes, asked at once: thresholds, agreement, reflection, intents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cases.texts import plural
from evals.analysis.sweep import (
    EvidenceScores,
    TunedThreshold,
    evidence_scores,
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
from nodes.evidence.aggregate_votes import scaled_threshold
from ranking.measures import Counts, macro
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


NONE = "(none)"
"""A prediction that names no known intent: wrong for every gold intent, and not a separate class."""


@dataclass(frozen=True, slots=True)
class IntentScores:
    """Primary intents against those of the key (TAMU 2026, section 4.2.1).

    Attributes:
        cases: Cases with a gold intent whose case is done.
        accuracy: Share of equal primary intents.
        accuracy_with_secondary: Share where the gold primary is the predicted primary or secondary.
        macro_f1: Mean F1 of the intents that occur in the key or in a prediction.
        confusion: Number of cases by gold and predicted intent.
    """

    cases: int
    accuracy: float
    accuracy_with_secondary: float
    macro_f1: float
    confusion: Mapping[tuple[str, str], int]


def intent_scores(
    predicted: Mapping[str, tuple[str | None, str | None]], gold: Mapping[str, GoldCase]
) -> IntentScores | None:
    """Score intents; None where the key has none."""
    rows = [
        (its.intent.primary, *predicted[case_id])
        for case_id, its in gold.items()
        if its.intent is not None and case_id in predicted
    ]
    if not rows:
        return None
    confusion = Counter((wanted, made or NONE) for wanted, made, _ in rows)
    wanted_of, made_of = (Counter(row[place] or NONE for row in rows) for place in (0, 1))
    classes = sorted({*wanted_of, *made_of} - {NONE})
    counts = [Counts(confusion[name, name], made_of[name], wanted_of[name]) for name in classes]
    return IntentScores(
        cases=len(rows),
        accuracy=sum(wanted == made for wanted, made, _ in rows) / len(rows),
        accuracy_with_secondary=sum(wanted in (made, second) for wanted, made, second in rows) / len(rows),
        macro_f1=macro(counts, "zero").f1,
        confusion=dict(confusion),
    )


def evidence_by_intent(cases: Sequence[VotedCase]) -> list[EvidenceScores]:
    """Evidence of the recipe's threshold by intent: the key's where it has one, else the predicted."""
    groups: dict[str, list[VotedCase]] = {}
    for case in cases:
        gold = case.gold.intent
        groups.setdefault(gold.primary if gold else case.intent or NONE, []).append(case)
    return [
        evidence_scores(name, group, [case.evidence["threshold"] for case in group])
        for name, group in sorted(groups.items())
    ]


@dataclass(frozen=True, slots=True)
class ReflectionChanges:
    """Labels that reflection changed, over all votes (TAMU 2026, section 4.1.3).

    Attributes:
        votes: Votes that were reflected on.
        changed_votes: Votes with at least one changed label.
        added: Labels turned to essential; `added_right` of them are essential by the key.
        removed: Labels turned to not-essential; `removed_right` of them are not essential by the key.
        before: Scores of the labels that the first votes would have given; None without a key.
        after: Scores of the labels that the reflected votes gave.
    """

    votes: int
    changed_votes: int
    added: int
    removed: int
    added_right: int | None
    removed_right: int | None
    before: EvidenceScores | None
    after: EvidenceScores | None


def reflection_changes(
    cases: Sequence[VotedCase], keyed: Sequence[VotedCase], threshold: int, votes: int
) -> ReflectionChanges | None:
    """Compare labels before and after reflection; None where no vote was read."""
    every = [vote for case in cases for vote in case.votes]
    if not every:
        return None
    added = [vote.after - vote.before for vote in every]
    removed = [vote.before - vote.after for vote in every]
    judged = [(case.gold.essential, *vote) for case in keyed for vote in case.votes]
    right = sum(len((after - before) & essential) for essential, before, after in judged)
    rightly_removed = sum(len(before - after - essential) for essential, before, after in judged)
    return ReflectionChanges(
        votes=len(every),
        changed_votes=sum(vote.before != vote.after for vote in every),
        added=sum(map(len, added)),
        removed=sum(map(len, removed)),
        added_right=right if keyed else None,
        removed_right=rightly_removed if keyed else None,
        before=_scores("before", keyed, threshold, votes) if keyed else None,
        after=_scores("after", keyed, threshold, votes) if keyed else None,
    )


def _scores(
    name: Literal["before", "after"], keyed: Sequence[VotedCase], threshold: int, votes: int
) -> EvidenceScores:
    chosen = []
    for case in keyed:
        least = scaled_threshold(threshold, votes - (case.asked - case.usable), votes)
        counts = Counter(id_ for vote in case.votes for id_ in getattr(vote, name))
        counts.update(dict.fromkeys(case.ranked or (), case.ranker_weight))
        chosen.append(frozenset(id_ for id_ in case.counts if counts[id_] >= least))
    return evidence_scores(name, keyed, chosen)
