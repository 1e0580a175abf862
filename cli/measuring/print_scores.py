"""Scores for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cases.texts import plural
from cli.terminal import output, print_line, print_table, safe
from evals.bioasq.parts import Part
from evals.bioasq.scores import PartScores
from evals.pages.tables import NO_VALUE, POINTS, Column, Format, Table, columns, some
from evals.scoring.scored_tasks import ScoredTask
from evals.scoring.tasks import TASKS
from evals.statistics.bootstrap import Interval
from evals.verdicts.scores import Classes, VerdictScores

_TITLES = {
    "2025": "2025: cited answer",
    "2026-1": "2026, subtask 1: clinician question",
    "2026-2": "2026, subtask 2: evidence",
    "2026-3": "2026, subtask 3: answer",
    "2026-4": "2026, subtask 4: links between answer and evidence",
}
_PARTS = ("precision", "recall", "f1")
_AVERAGES = ("micro", "macro")
_VERDICTS: dict[Classes, str] = {3: "yes, no or unknown", 2: "yes or no"}
_BIOASQ: dict[Part, str] = {
    "documents": "phase A: documents",
    "snippets": "phase A: snippets",
    "yesno": "exact answers: yes or no",
    "factoid": "exact answers: factoid",
    "list": "exact answers: list",
    "ideal": "ideal answers",
}


def print_scores(origin: str, scored: Sequence[ScoredTask]) -> None:
    """Each task: sets, texts, what is missing and why, and the overall score if it is official."""
    console = output()
    print_line(origin)
    for one in scored:
        scores, intervals = one.scores, one.intervals()
        console.print(f"\n[bold]{_TITLES[scores.task]}[/bold]  {plural(len(scores.cases), 'case')}")
        sets = _sets({**scores.values, **scores.extra}, intervals)
        if sets.rows:
            print_table(sets, gap=4)
        if TASKS[scores.task].averaged:
            print_table(_texts(one, intervals), header=False, gap=4)
        _print_overall(one, intervals)
        for note in scores.notes:
            print_line(f"  {note}", soft_wrap=True)


def _sets(values: Mapping[str, float], intervals: Mapping[str, Interval]) -> Table:
    """Precision, recall and F1 by the variant and average that their names begin with."""
    rows = []
    for name in values:
        prefix, _, part = name.rpartition("_")
        if part == "precision" and prefix.rpartition("_")[2] in _AVERAGES:
            parts = [POINTS.number(values[f"{prefix}_{one}"]) for one in _PARTS]
            rows.append([prefix.replace("_", " "), *parts, POINTS.bracket(intervals.get(f"{prefix}_f1"))])
    return Table([*columns("", "precision", "recall", "F1"), Column("F1, 95 %", "text")], rows)


def _texts(one: ScoredTask, intervals: Mapping[str, Interval]) -> Table:
    rows = [
        [name, POINTS.number(value), POINTS.bracket(intervals.get(name))]
        for name, value in {**one.scores.values, **one.scores.extra}.items()
        if name.rpartition("_")[2] not in _PARTS and not name.startswith("overall")
    ]
    rows += [[name, NO_VALUE, f"not computed: {reason}"] for name, reason in one.scores.not_computed.items()]
    return Table([*columns("", ""), Column("", "text")], rows)


def _print_overall(one: ScoredTask, intervals: Mapping[str, Interval]) -> None:
    console, scores = output(), one.scores
    if one.overall_score is not None:
        # Of evidence and links the official score is one of the values, and has its interval there.
        console.print(
            f"  [bold]overall_score[/bold] {one.overall_score:.2f}",
            safe(POINTS.bracket(intervals.get("overall_score"))),
        )
        return
    if scores.unscored:
        print_line(
            "  no overall_score, which needs every case of the key: no prediction of"
            f" {plural(len(scores.unscored), 'case')} ({some(scores.unscored)}); a part: --case-ids IDS",
            soft_wrap=True,
        )
    if scores.mean_of_available is not None:
        named = ", ".join(name for name in TASKS[scores.task].averaged if name in scores.values)
        bracket = POINTS.bracket(intervals.get("mean_of_available"))
        line = f"  mean_of_available {scores.mean_of_available:.2f} {bracket} ({named}); no overall_score"
        print_line(line, soft_wrap=True)


def print_verdicts(origin: str, scored: Sequence[VerdictScores]) -> None:
    """Each number of answers with its intervals."""
    console = output()
    print_line(origin)
    for one in scored:
        console.print(f"\n[bold]verdict: {_VERDICTS[one.classes]}[/bold]  {plural(one.cases, 'case')}")
        rows = [
            [name, POINTS.number(interval.value), Format(1).bracket(interval)]
            for name, interval in one.values.items()
        ]
        print_table(Table([*columns("", ""), Column("", "text")], rows), header=False, gap=4)
        gold, given = (
            ", ".join(f"{count} {name}" for name, count in counts.items()) for counts in (one.gold, one.given)
        )
        print_line(f"  key: {gold}; given: {given}")
        if one.unscored:
            print_line(f"  not done: {plural(len(one.unscored), 'case')} ({some(one.unscored)})")
        for note in one.notes:
            print_line(f"  {note}", soft_wrap=True)


_WIDE = 110
"""Letters that the widest table takes with an interval beside each value."""


def print_bioasq(origin: str, scored: Sequence[PartScores]) -> None:
    """Each part with the interval of all questions, and the values of each type beside it."""
    console = output()
    print_line(origin)
    for one in scored:
        noun = "question" if one.of_all.questions == 1 else "questions"
        console.print(f"\n[bold]{_BIOASQ[one.part]}[/bold]  {one.of_all.questions:,} {noun}")
        # Names of metrics are not broken: without room their intervals stand below.
        below = len(one.groups) > 1 and console.width < _WIDE
        gap = 2 if below else 4
        print_table(_bioasq_table(one, below=below), header=len(one.groups) > 1, below=below, gap=gap)
        if one.missing:
            how = "skipped, as BioASQ does" if one.definitions.bioasq_compat else "count as 0"
            print_line(
                f"  {len(one.missing):,} without an answer {how} ({some(one.missing)})", soft_wrap=True
            )
    print_line("\n0 to 1; brackets: 95 % intervals by bootstrap over questions")


def _bioasq_table(one: PartScores, *, below: bool) -> Table:
    types = [name for name in one.groups if name != "all"]
    heads = [Column("", "text", wraps=False), Column("all", wraps=False)]
    heads += [] if below else [Column("95 %", "text")]
    heads += [Column(f"{name} ({one.groups[name].questions})") for name in types]
    shares = Format(4)
    rows = [
        [
            score,
            *(
                [shares.cell(interval)]
                if below
                else [shares.number(interval.value), shares.bracket(interval)]
            ),
            *(shares.number(one.groups[name].values[score].value) for name in types),
        ]
        for score, interval in one.of_all.values.items()
    ]
    return Table(heads, rows)
