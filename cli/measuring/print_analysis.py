"""Analyses of votes and citations for people."""

from __future__ import annotations

from collections.abc import Sequence

from cases.texts import plural
from cli.terminal import print_line, print_table
from evals.analysis.attribution import AttributionSweep
from evals.analysis.intents import IntentScores
from evals.analysis.reflection import ReflectionChanges
from evals.analysis.render import attribution_table, score_table
from evals.analysis.report import Analysis
from evals.analysis.sweep import EvidenceScores
from evals.analysis.voted_cases import Agreement
from evals.pages.page import FEW_CASES
from evals.scoring.score import weak_note
from ranking.measures import PrecisionRecallF1

_NO_KEY = "without labels in a key nothing can be scored; give one: --key KEY"


def print_analysis(found: Analysis) -> None:
    """Every part that there is."""
    print_line(
        f"{found.run}: {plural(found.cases, 'case')} with votes, {found.labelled_cases:,} of them in a key"
    )
    if found.weak_cases:
        print_line(weak_note(found.weak_cases, found.labelled_cases), wrap=True)
    if found.by_threshold:
        _print_scores("vote thresholds", found.by_threshold, found.threshold)
        if found.adaptive:
            print_line(
                "  votes stopped once labels were settled at the recipe's T;"
                " other thresholds saw fewer votes",
                wrap=True,
            )
        if (tuned := found.tuned) is not None:
            picks = ", ".join(
                f"T = {value} for {plural(count, 'case')}" for value, count in tuned.thresholds.items()
            )
            scores = _scores(tuned.strict_micro)
            print_line(f"  tuned on {tuned.tuned_on}: {scores} ({picks})", wrap=True)
        _print_few(found.labelled_cases)
        _print_scores("evidence settings", found.by_setting)
    if found.agreement is not None:
        _print_agreement(found.agreement, found.votes)
    if found.reflection is not None:
        _print_reflection(found.reflection)
    if found.by_intent:
        _print_scores("by intent, at the recipe's threshold", found.by_intent)
    if found.intents is not None:
        _print_intents(found.intents)
    if not found.by_threshold:
        print_line(_NO_KEY)


def _print_scores(title: str, rows: Sequence[EvidenceScores], threshold: int | None = None) -> None:
    print_line()
    print_table(score_table(rows, threshold), title=title)
    mark = "" if threshold is None else "; * the recipe's"
    print_line(f"  P, R, F1: strict micro; macro: strict F1; lenient: micro F1, as in 2026{mark}", wrap=True)


def _print_few(cases: int) -> None:
    if cases < FEW_CASES:
        print_line(f"  few cases ({cases}): the best threshold of the table is partly luck", wrap=True)


def _scores(scores: PrecisionRecallF1) -> str:
    precision, recall, f1 = (f"{100 * value:.1f}" for value in scores)
    return f"P {precision} R {recall} F1 {f1}"


def _print_agreement(agreement: Agreement, votes: int) -> None:
    alpha = "not defined: all votes are alike" if agreement.alpha is None else f"{agreement.alpha:.3f}"
    print_line("\nagreement of votes", "bold")
    print_line(
        f"  Krippendorff's alpha {alpha}; {100 * agreement.unanimous:.1f} % of"
        f" {plural(agreement.sentences, 'sentence')} unanimous; {100 * agreement.pairwise:.1f} % of pairs of"
        " votes agree",
        wrap=True,
    )
    counts = "  ".join(f"{number}:{sentences:,}" for number, sentences in agreement.by_count.items())
    print_line(f"  sentences by essential votes of {votes}:  {counts}")


def _print_reflection(changes: ReflectionChanges) -> None:
    print_line("\nself-reflection", "bold")
    print_line(
        f"  changed {changes.changed_votes:,} of {plural(changes.votes, 'vote')}; labels added"
        f" {changes.added:,}"
        + (f" ({changes.added_right:,} rightly)" if changes.added_right is not None else "")
        + f", removed {changes.removed:,}"
        + (f" ({changes.removed_right:,} rightly)" if changes.removed_right is not None else ""),
        wrap=True,
    )
    if changes.before is not None and changes.after is not None:
        for one in (changes.before, changes.after):
            print_line(f"  {one.name:<7} {_scores(one.strict_micro)}")


def _print_intents(scores: IntentScores) -> None:
    print_line("\nintents", "bold")
    print_line(
        f"  accuracy {100 * scores.accuracy:.1f} ({100 * scores.accuracy_with_secondary:.1f} with the"
        f" secondary), macro F1 {100 * scores.macro_f1:.1f} on {plural(scores.cases, 'case')}",
        wrap=True,
    )
    wrong = {pair: number for pair, number in scores.confusion.items() if pair[0] != pair[1]}
    for (gold, made), number in sorted(wrong.items(), key=lambda item: (-item[1], item[0]))[:5]:
        print_line(f"  {gold} taken for {made}: {number:,}")


def print_attribution(found: AttributionSweep) -> None:
    """A row for each threshold and each set of weights."""
    print_line(
        f"{found.run}: {plural(found.cases, 'case')} attributed, {found.labelled_cases:,} of them in a key"
    )
    if not found.rows:
        print_line(_NO_KEY)
        return
    print_line()
    print_table(attribution_table(found), title="attribution threshold")
    print_line(
        "  weights: lexical/fuzzy/semantic; P, R, F1: cited against essential sentences, strict micro;"
        " macro: strict F1; lenient: micro F1, as in 2025; clin.: F1 against the citations of the clinician's"
        " answer; uncited: cases without a citation; * the recipe's",
        wrap=True,
    )
    _print_few(found.labelled_cases)
