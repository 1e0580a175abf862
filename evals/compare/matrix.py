"""Several runs over the same cases: a matrix of cases and runs with score, cost and time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evals.compare.outcomes import differing_settings, phrases
from evals.pages.tables import NO_VALUE, Cell, Column, Row, Table
from evals.scoring.scored_task import ScoredTask, by_task, on_common_cases, title_of
from runs.record.folder import RunFolder
from runs.record.manifest import Manifest
from runs.record.trace_file import Line
from serving.protocol.budget import Prices
from serving.protocol.model_name import recorded_name

LETTERS = "ABCDEFGH"
"""One a run; as many runs as fit side by side."""


class CaseUse(NamedTuple):
    """What one case took; replayed calls count like others.

    Attributes:
        seconds: Wall-clock time of its last pass.
        cost: By the prices that the run recorded; None without a price of each of its models.
    """

    seconds: float | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class Side:
    """A run.

    Attributes:
        errors: Class of the error of each failed case.
        scored: Its scores, at most one a task; empty without a key.
    """

    name: str
    manifest: Manifest
    case_ids: tuple[str, ...]
    errors: Mapping[str, str]
    uses: Mapping[str, CaseUse]
    scored: Sequence[ScoredTask]

    @property
    def models(self) -> str:
        return ", ".join(dict.fromkeys(model.name for model in self.manifest.models.values())) or "no model"


def read_side(run: RunFolder, scored: Sequence[ScoredTask], name: str = "") -> Side:
    """Read a run's cases, and its trace once and streamed."""
    lines = list(run.cases())
    return Side(
        name=name or str(run.path),
        manifest=run.manifest,
        case_ids=tuple(line["case_id"] for line in lines),
        errors={line["case_id"]: line["error"]["class"] for line in lines if line["error"]},
        uses={id_: _use(steps, run.manifest.budget.prices) for id_, steps in run.passes()},
        scored=scored,
    )


def _use(steps: Sequence[Line], prices: Prices) -> CaseUse:
    costs = [call_cost(call, prices) for step in steps for call in step.get("calls") or ()]
    known = [cost for cost in costs if cost is not None]
    return CaseUse(steps[-1]["seconds"], sum(known) if prices and len(known) == len(costs) else None)


def call_cost(call: Line, prices: Prices) -> float | None:
    """Cost of a call in a trace; None without a price of its model."""
    price = prices.get(recorded_name(call["model"]).identity)
    if price is None:
        return None
    return price.cost(call["input_tokens"], call["output_tokens"], call["cached_tokens"])


@dataclass(frozen=True, slots=True)
class Matrix:
    """Runs side by side.

    Attributes:
        case_ids: Of all runs, in the order of the first, then of the others.
        scores: The first task that all runs have, by letter, on the cases that all have scored.
        by_case: Score of each case by letter, also of cases that not all runs have.
    """

    sides: Mapping[str, Side]
    case_ids: tuple[str, ...]
    scores: Mapping[str, ScoredTask]
    by_case: Mapping[str, Mapping[str, float]]

    @property
    def score_name(self) -> str:
        first = next(iter(self.scores.values()), None)
        if first is None:
            return ""
        return first.headline_title or title_of(first.headline)

    @property
    def legend(self) -> str:
        """How to read the figures of `runs_table`."""
        scored = (
            f"Score: {self.score_name}, over the cases that are scored in all runs; brackets: 95 % intervals"
            " by bootstrap over cases."
            if self.scores
            else "No case is scored in all runs."
        )
        return (
            f"{scored} Cost by the prices that each run recorded, as if no call was replayed; time: the sum"
            " over cases."
        )

    def differences(self) -> Iterator[tuple[str, list[str]]]:
        """Of each run but the first its letter, and in what it differs from the first."""
        (base, first), *others = self.sides.items()
        for letter, side in others:
            yield letter, phrases(differing_settings(first.manifest, side.manifest), (base, letter))

    def runs_table(self) -> Table:
        """A row a run: models, score with its interval, cost, time, cases."""
        heads = [
            Column("run", "text"),
            Column("models", "text"),
            Column("score"),
            Column("cost"),
            Column("time"),
        ]
        intervals = {
            letter: task.intervals()[task.headline]
            for letter, task in self.scores.items()
            if len(task.case_ids) > 1
        }
        rows: list[Row] = []
        for letter, side in self.sides.items():
            task, costs = self.scores.get(letter), [use.cost for use in side.uses.values()]
            known = [cost for cost in costs if cost is not None]
            score = Cell(NO_VALUE)
            if task is not None:
                its = intervals.get(letter)
                score = Cell(task.form.number(task.headline_value)) if its is None else task.form.cell(its)
            cost = f"{sum(known):.4g}" if known and len(known) == len(costs) else NO_VALUE
            seconds = [use.seconds for use in side.uses.values() if use.seconds is not None]
            time = _seconds(sum(seconds)) if seconds else NO_VALUE
            done = f"{len(side.case_ids) - len(side.errors):,} done, {len(side.errors):,} failed"
            rows.append([letter, Cell(side.models, (side.name,)), score, cost, time, done])
        return Table([*heads, Column("cases", "text")], rows)

    def cases_table(self, *, worst_first: bool = False, most: int | None = None) -> Table:
        """A row a case: of each run its score over cost and time; the best score of a row is marked."""
        ids = self.worst_first if worst_first else self.case_ids
        shown = ids[:most]
        heads = [Column("case", "id"), *(Column(letter, wraps=False) for letter in self.sides)]
        rows: list[Row] = []
        for id_ in shown:
            found = [self.by_case[letter][id_] for letter in self.sides if id_ in self.by_case[letter]]
            best = max(found) if len(set(found)) > 1 else None
            rows.append([id_, *(self._cell(letter, id_, best) for letter in self.sides)])
        return Table(heads, rows, left_out=len(ids) - len(shown))

    @property
    def worst_first(self) -> tuple[str, ...]:
        """Cases by their mean score over the runs that have one; those without any come last."""

        def mean(id_: str) -> float:
            found = [scores[id_] for scores in self.by_case.values() if id_ in scores]
            return sum(found) / len(found) if found else float("inf")

        return tuple(sorted(self.case_ids, key=mean))

    def _cell(self, letter: str, id_: str, best: float | None) -> Cell:
        side = self.sides[letter]
        if id_ not in side.case_ids:
            return Cell("not run")
        use = side.uses.get(id_, CaseUse(None, None))
        parts = [] if use.cost is None else [f"{use.cost:.3g}"]
        parts += [] if use.seconds is None else [_seconds(use.seconds)]
        below = (", ".join(parts),) if parts else ()
        if id_ in side.errors:
            return Cell(side.errors[id_].replace("_", " "), below)
        score = self.by_case[letter].get(id_)
        if score is None:
            return Cell("done", below)
        task = self.scores.get(letter)
        written = f"{score:.2f}" if task is None else task.form.number(score)
        return Cell(written, below, tone="up" if best is not None and score == best else "")

    def as_json(self) -> dict[str, Any]:
        """One object for programs: ids and numbers, no text of a case or an answer."""
        return {
            "runs": {letter: side.name for letter, side in self.sides.items()},
            "models": {letter: side.models for letter, side in self.sides.items()},
            "score": self.score_name or None,
            "scored_in_all": len(next(iter(self.scores.values())).case_ids) if self.scores else 0,
            "scores": {letter: task.headline_value for letter, task in self.scores.items()},
            "cases": [
                {
                    "case_id": id_,
                    **{
                        letter: {
                            "score": self.by_case[letter].get(id_),
                            "error": side.errors.get(id_),
                            **side.uses.get(id_, CaseUse(None, None))._asdict(),
                        }
                        for letter, side in self.sides.items()
                        if id_ in side.case_ids
                    },
                }
                for id_ in self.case_ids
            ],
            "differences": dict(self.differences()),
        }


def matrix_of(sides: Sequence[Side]) -> Matrix:
    """Put runs side by side, on the first task that all of them are scored on."""
    letters = LETTERS[: len(sides)]
    tasks = next(iter(by_task([side.scored for side in sides])), None)
    own = dict(zip(letters, tasks, strict=True)) if tasks else {}
    return Matrix(
        sides=dict(zip(letters, sides, strict=True)),
        case_ids=tuple(dict.fromkeys(id_ for side in sides for id_ in side.case_ids)),
        scores=on_common_cases(own),
        by_case={letter: own[letter].by_case() if letter in own else {} for letter in letters},
    )


def _seconds(value: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if value >= length:
            return f"{value / length:.1f} {unit}"
    return f"{value:.1f} s"
