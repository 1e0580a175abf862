"""Scores for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from cases.texts import plural
from cli.terminal import WIDE, output, print_line, print_table, safe
from evals.bioasq.scores import PartScores
from evals.pages.tables import NO_VALUE, POINTS, Column, Format, Table, columns, some
from evals.scoring.score import AVAILABLE, OVERALL, ArchehrScores
from evals.scoring.scored_task import ScoredTask
from evals.scoring.tasks import TASKS
from evals.scoring.verified_answers import VerificationScores
from evals.statistics.bootstrap import Interval
from evals.verdicts.scores import VerdictScores
from ranking.measures import PARTS

_WORST = 10
"""Cases that a list of the worst has."""


def print_scores(origin: str, scored: Sequence[ScoredTask], *, worst_first: bool = False) -> None:
    """Each task with its intervals, and what a reader must know of it."""
    print_line(origin)
    for one in scored:
        noun = "question" if isinstance(one, PartScores) else "case"
        output().print(f"\n[bold]{one.title}[/bold]  {plural(len(one.case_ids), noun)}")
        match one:
            case ArchehrScores():
                _print_archehr(one)
            case VerdictScores():
                _print_verdicts(one)
            case VerificationScores():
                _print_verification(one)
            case PartScores():
                _print_part(one)
        if worst_first:
            worst = islice(one.by_case(worst_first=True).items(), _WORST)
            listed = ", ".join(f"{id_} {one.form.number(value)}" for id_, value in worst)
            print_line(f"  worst by {one.case_score or one.headline}: {listed}")
        for note in one.notes:
            print_line(f"  {note}")
    if scored and isinstance(scored[0], PartScores):
        print_line("\n0 to 1; brackets: 95 % intervals by bootstrap over questions")


def _print_archehr(one: ArchehrScores) -> None:
    """Sets, texts, missing metrics with reasons, and the overall score if official."""
    intervals = one.intervals()
    sets = _sets(one.shown, intervals)
    if sets.rows:
        print_table(sets, gap=4)
    if TASKS[one.task].averaged:
        print_table(_texts(one, intervals), header=False, gap=4)
    _print_overall(one, intervals)


def _sets(values: Mapping[str, float], intervals: Mapping[str, Interval]) -> Table:
    """Precision, recall and F1 by the variant and average that their names begin with."""
    rows = []
    for name in values:
        prefix, _, part = name.rpartition("_")
        if part == "precision" and prefix.rpartition("_")[2] in ("micro", "macro"):
            parts = [POINTS.number(values[f"{prefix}_{one}"]) for one in PARTS]
            rows.append([prefix.replace("_", " "), *parts, POINTS.bracket(intervals.get(f"{prefix}_f1"))])
    return Table([*columns("", "precision", "recall", "F1"), Column("F1, 95 %", "text")], rows)


def _texts(one: ArchehrScores, intervals: Mapping[str, Interval]) -> Table:
    rows = [
        [name, POINTS.number(value), POINTS.bracket(intervals.get(name))]
        for name, value in one.shown.items()
        if name.rpartition("_")[2] not in PARTS and not name.startswith("overall")
    ]
    rows += [[name, NO_VALUE, f"not computed: {reason}"] for name, reason in one.not_computed.items()]
    return Table([*columns("", ""), Column("", "text")], rows)


def _print_overall(one: ArchehrScores, intervals: Mapping[str, Interval]) -> None:
    if one.overall_score is not None:
        # Of evidence and links the official score is one of the values, and has its interval there.
        output().print(
            f"  [bold]overall_score[/bold] {one.overall_score:.2f}",
            safe(POINTS.bracket(intervals.get(OVERALL))),
        )
        return
    if one.unscored:
        print_line(
            "  no overall_score, which needs every case of the key: no prediction of"
            f" {plural(len(one.unscored), 'case')} ({some(one.unscored)}); a part: --case-ids IDS"
        )
    if (mean := intervals.get(AVAILABLE)) is not None:
        named = ", ".join(name for name in TASKS[one.task].averaged if name in intervals)
        line = f"  {AVAILABLE} {mean.value:.2f} {POINTS.bracket(mean)} ({named}); no overall_score"
        print_line(line)


def _print_verdicts(one: VerdictScores) -> None:
    rows = [
        [name, POINTS.number(interval.value), Format(1).bracket(interval)]
        for name, interval in one.intervals().items()
    ]
    print_table(Table([*columns("", ""), Column("", "text")], rows), header=False, gap=4)
    gold, given = (
        ", ".join(f"{count} {name}" for name, count in counts.items()) for counts in (one.gold, one.given)
    )
    print_line(f"  key: {gold}; given: {given}")
    if one.unscored:
        print_line(f"  not done: {plural(len(one.unscored), 'case')} ({some(one.unscored)})")


def _print_verification(one: VerificationScores) -> None:
    counts = one.counts
    rows = [
        [name, f"{counts[name]:,}", POINTS.number(interval.value), POINTS.bracket(interval)]
        for name, interval in one.intervals().items()
    ]
    print_table(Table([*columns("", "number", "%"), Column("95 %", "text")], rows), gap=4)


def _print_part(one: PartScores) -> None:
    """The interval of all questions, and the values of each type."""
    groups = one.groups
    # Names of metrics are not broken: without room their intervals stand below.
    below = len(groups) > 1 and output().width < WIDE
    types = {name: group.values for name, group in groups.items() if name != "all"}
    heads = [Column("", "text", wraps=False), Column("all", wraps=False)]
    heads += [] if below else [Column("95 %", "text")]
    heads += [Column(f"{name} ({len(groups[name].case_ids)})") for name in types]
    rows = []
    for score, interval in one.intervals().items():
        value = one.form.cell(interval)
        of_all = [value] if below else [value.text, one.form.bracket(interval)]
        rows.append([score, *of_all, *(one.form.number(values[score]) for values in types.values())])
    print_table(Table(heads, rows), header=len(groups) > 1, below=below, gap=2 if below else 4)
    if one.unscored:
        how = "skipped, as BioASQ does" if one.definitions.bioasq_compat else "count as 0"
        print_line(f"  {len(one.unscored):,} without an answer {how} ({some(one.unscored)})")
