"""Which columns and rows each table of the papers has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evals.experiments.tables import Unit
from evals.studies.data import HELD_OUT, NOISY, domain_set
from evals.studies.definition import Row, Study, TableName
from evals.studies.measures import Measure
from ranking.cutoffs import AdaptiveSoftK, Cutoff, FixedThreshold, ScoreGap, TopK
from ranking.cutoffs import cutoff_text as in_words
from ranking.tuning import RuleKind


@dataclass(frozen=True, slots=True)
class Tuned:
    """A rule whose parameters are those that give the best micro F1 on the tuning part.

    Attributes:
        kind: Of rule; `best` is the kind that does best there when each case is left out in turn.
        fallback: Of thresholds, whether the best sentence is taken where none reaches them.
    """

    kind: RuleKind | Literal["best"]
    fallback: bool = True


Rule = Cutoff | Tuned


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """A figure on some sets, all cases of theirs together."""

    title: str
    sets: tuple[str, ...]
    measure: Measure
    rule: Rule


@dataclass(frozen=True, slots=True)
class RowLayout:
    """A row of a table: which ranker, and its rule where it is not that of the columns."""

    label: str
    row: str
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """A part of a table with rows and columns of its own.

    Attributes:
        headline: Title of the column that rows are compared by.
    """

    title: str
    columns: tuple[ColumnLayout, ...]
    lines: tuple[RowLayout, ...]
    headline: str


TITLES: Mapping[TableName, str] = {
    "tamu-1": "TAMU 2026, table 1: training objectives",
    "tamu-2": "TAMU 2026, table 2: cut-offs",
    "abridge-2": "Abridge 2025, table 2: fusion types, without and with (++) pre-training",
    "abridge-3": "Abridge 2025, table 3: trained on one domain, tested on others",
    "abridge-5": "Abridge 2025, table 5: noisy queries",
    "abridge-9": "Abridge 2025, table 9: LSTM against Transformer over the sentences",
}
UNITS: Mapping[TableName, Unit] = {
    name: "points" if name.startswith("abridge") else "share" for name in TITLES
}
"""Each paper's own."""

_THRESHOLD = Tuned("threshold")
_CORPUS = Tuned("threshold", fallback=False)
"""Abridge's one global threshold; a query may have no evidence."""

_CUTOFFS: Mapping[str, Rule] = {
    "Fixed Threshold 0.4": FixedThreshold(tau=0.4),
    "Fixed Threshold, tuned": _THRESHOLD,
    "Score-Gap Selection": ScoreGap(),
    "Score-Gap Selection, limit tuned": Tuned("gap"),
    "Adaptive Soft Dynamic-k, tuned": Tuned("adaptive"),
    "Top-k, tuned": Tuned("top_k"),
}


_CORPUS_PARTS: Mapping[str, Measure] = {"F-Score": "micro_f1", "P": "micro_p", "R": "micro_r"}


def layout(table: TableName, study: Study) -> list[BlockLayout]:
    """The blocks of a table, with the study's rows."""
    rows = study.tables[table]
    lines = tuple(RowLayout(study.rows[name].label or name, name) for name in rows)
    match table:
        case "tamu-1":
            return _objectives(lines)
        case "tamu-2":
            return [_cutoffs(line) for line in lines]
        case "abridge-2" | "abridge-9":
            columns = tuple(
                ColumnLayout(title, (HELD_OUT,), part, _CORPUS) for title, part in _CORPUS_PARTS.items()
            )
            return [BlockLayout("", columns, lines, "F-Score")]
        case "abridge-3":
            return [_domains(lines, study)]
        case "abridge-5":
            return [_noise(lines)]


def rule_of(line: RowLayout, column: ColumnLayout, row: Row) -> Rule:
    """The rule of a cell. Scores of most baselines are no probabilities: they have rules of their own."""
    from evals.studies.baselines import own_cutoff

    rule = line.rule or column.rule
    if row.baseline in (None, "logistic"):
        return rule
    if row.baseline == "bm25" and rule in (Tuned("top_k"), Tuned("best")):
        return Tuned("top_k")
    assert row.baseline is not None
    return own_cutoff(row.baseline)


def cutoff_text(cutoff: Cutoff) -> str:
    """For people, in a few characters."""
    match cutoff:
        case FixedThreshold():
            return f"p>={cutoff.tau:.2f}"
        case ScoreGap():
            return "gap" if cutoff.max_k is None else f"gap<={cutoff.max_k}"
        case AdaptiveSoftK():
            return f"tau0={cutoff.tau0:.2f} lambda={cutoff.entropy_weight:+.2f}"
        case TopK():
            return f"k={cutoff.k}"
        case _:
            return in_words(cutoff)


def _objectives(lines: Sequence[RowLayout]) -> list[BlockLayout]:
    blocks: Mapping[str, Rule] = {
        "Fixed threshold 0.4, as in the paper": FixedThreshold(tau=0.4),
        "Threshold tuned on the tuning part": _THRESHOLD,
        "Fixed top-k, k tuned on the tuning part": Tuned("top_k"),
        "Rule and parameters chosen on the tuning part": Tuned("best"),
    }
    made = [
        BlockLayout(
            title,
            tuple(
                ColumnLayout(f"{average} {part}", (HELD_OUT,), measure, rule)
                for average, parts in _AVERAGES.items()
                for part, measure in parts.items()
            ),
            tuple(lines),
            "Micro F1",
        )
        for title, rule in blocks.items()
    ]
    ap = ColumnLayout("Average precision", (HELD_OUT,), "ap", FixedThreshold(tau=0.4))
    return [*made, BlockLayout("Order alone, no cut-off", (ap,), tuple(lines), ap.title)]


_AVERAGES: Mapping[str, Mapping[str, Measure]] = {
    "Macro": {"P": "macro_p", "R": "macro_r", "F1": "macro_f1"},
    "Micro": {"P": "micro_p", "R": "micro_r", "F1": "micro_f1"},
}


def _cutoffs(line: RowLayout) -> BlockLayout:
    columns = [
        ColumnLayout(part, (HELD_OUT,), measure, FixedThreshold(tau=0.4))
        for part, measure in _AVERAGES["Micro"].items()
    ]
    lines = [RowLayout(label, line.row, rule) for label, rule in _CUTOFFS.items()]
    return BlockLayout(line.label, tuple(columns), tuple(lines), "F1")


def _domains(lines: Sequence[RowLayout], study: Study) -> BlockLayout:
    trained_on = {study.rows[line.row].train_on for line in lines}
    elsewhere = tuple(domain_set(name) for name in study.domains if name not in trained_on)
    columns = [
        ColumnLayout(
            name + (" (trained on)" if name in trained_on else ""), (domain_set(name),), "micro_f1", _CORPUS
        )
        for name in study.domains
    ]
    together = ColumnLayout("All others", elsewhere, "micro_f1", _CORPUS)
    return BlockLayout("", (*columns, together), tuple(lines), together.title)


def _noise(lines: Sequence[RowLayout]) -> BlockLayout:
    parts: Mapping[str, Measure] = {"P": "char_p", "R": "char_r", "F": "char_f1"}
    columns = [
        ColumnLayout(f"{kind} {part}", (name,), measure, _CORPUS)
        for kind, name in (("Clean", HELD_OUT), ("Noisy", NOISY))
        for part, measure in parts.items()
    ]
    return BlockLayout("", tuple(columns), tuple(lines), "Noisy F")
