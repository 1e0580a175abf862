"""An analysis of votes for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from cli.terminal import output, safe
from evals.analysis.agreement import Agreement
from evals.analysis.intents import IntentScores
from evals.analysis.reflection import ReflectionChanges
from evals.analysis.report import Analysis
from evals.analysis.sweep import EvidenceScores, TunedThreshold
from evals.scoring.counts import PrecisionRecallF1
from evals.scoring.weak import weak_note

_FEW = 50
"""Below so many labelled cases a threshold's lead over the next is mostly chance."""


def print_analysis(found: Analysis) -> None:
    """Print every part that there is."""
    console = output()
    console.print(
        safe(f"{found.run}: {found.cases:,} cases with votes, {found.labelled_cases:,} of them in a key")
    )
    if found.weak_cases:
        console.print(weak_note(found.weak_cases, found.labelled_cases))
    if found.by_threshold:
        _print_scores("vote thresholds", found.by_threshold, mark=f"T = {found.threshold}")
        if found.adaptive:
            console.print(
                "  votes stopped once labels were settled at the recipe's T; other thresholds saw fewer votes"
            )
        if found.tuned is not None:
            console.print(safe(f"  {_tuned(found.tuned)}"))
        if found.labelled_cases < _FEW:
            console.print(
                f"  {found.labelled_cases} cases are few: the best threshold of the table is partly luck"
            )
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
        console.print("without labels in a key nothing can be scored; give one: --key KEY")


def _print_scores(title: str, rows: Sequence[EvidenceScores], mark: str = "") -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in ("cases", "sentences", "P", "R", "F1", "macro F1", "lenient F1"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            safe(row.name + (" *" if row.name == mark else "")),
            f"{row.cases:,}",
            f"{row.sentences:,}",
            *_percent(row.strict_micro),
            f"{100 * row.strict_macro.f1:.1f}",
            f"{100 * row.lenient_micro.f1:.1f}",
        )
    output().print()
    output().print(table)
    output().print(
        "  P, R, F1: strict micro; lenient F1: micro, as in 2026" + ("; * the recipe's" if mark else "")
    )


def _percent(scores: PrecisionRecallF1) -> list[str]:
    return [f"{100 * value:.1f}" for value in scores]


def _tuned(tuned: TunedThreshold) -> str:
    precision, recall, f1 = _percent(tuned.strict_micro)
    picks = ", ".join(f"T = {threshold} for {count:,}" for threshold, count in tuned.thresholds.items())
    return f"tuned on {tuned.tuned_on}: P {precision} R {recall} F1 {f1} ({picks} cases)"


def _print_agreement(agreement: Agreement, votes: int) -> None:
    alpha = "not defined: all votes are alike" if agreement.alpha is None else f"{agreement.alpha:.3f}"
    output().print("\n[bold]agreement of votes[/bold]")
    output().print(
        f"  Krippendorff's alpha {alpha}; {100 * agreement.unanimous:.1f} % of {agreement.sentences:,}"
        f" sentences unanimous; {100 * agreement.pairwise:.1f} % of pairs of votes agree"
    )
    counts = "  ".join(f"{number}:{sentences:,}" for number, sentences in agreement.by_count.items())
    output().print(f"  sentences by essential votes of {votes}:  {counts}")


def _print_reflection(changes: ReflectionChanges) -> None:
    output().print("\n[bold]self-reflection[/bold]")
    output().print(
        f"  changed {changes.changed_votes:,} of {changes.votes:,} votes; labels added {changes.added:,}"
        + (f" ({changes.added_right:,} rightly)" if changes.added_right is not None else "")
        + f", removed {changes.removed:,}"
        + (f" ({changes.removed_right:,} rightly)" if changes.removed_right is not None else "")
    )
    if changes.before is not None and changes.after is not None:
        for one in (changes.before, changes.after):
            precision, recall, f1 = _percent(one.strict_micro)
            output().print(f"  {one.name:<7} P {precision} R {recall} F1 {f1}")


def _print_intents(scores: IntentScores) -> None:
    output().print("\n[bold]intents[/bold]")
    output().print(
        f"  accuracy {100 * scores.accuracy:.1f} ({100 * scores.accuracy_with_secondary:.1f} with the"
        f" secondary), macro F1 {100 * scores.macro_f1:.1f} on {scores.cases:,} cases"
    )
    wrong = {pair: number for pair, number in scores.confusion.items() if pair[0] != pair[1]}
    for (gold, made), number in sorted(wrong.items(), key=lambda item: (-item[1], item[0]))[:5]:
        output().print(safe(f"  {gold} taken for {made}: {number:,}"))
