"""Summary of a run: counts, tokens, time, scores if a key is known, and next commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from cases.submissions.archehr import Prediction
from cases.texts import plural, quoted
from cli.terminal import duration, print_facts, safe
from evals.scoring.gold import GoldCase, gold_of_run, prediction_of
from graph.system import System, find_system
from nodes.evidence.settings import EvidenceSettings
from ranking.measures import PARTS
from runs.execute.reply_quality import DEGRADED, ReplyQuality
from runs.record.folder import RunFolder, is_impaired
from runs.record.manifest import Session, recorded_cases, utc_now
from runs.record.trace_file import Line
from runs.record.used import with_unrecorded
from runs.upkeep.away import away_batches
from serving.protocol.request import Usage
from storage.errors import InputError

if TYPE_CHECKING:
    from evals.scoring.scored_task import ScoredTask


class VoteUse(NamedTuple):
    """Votes over all cases: those asked for, and those that no label needed any more."""

    asked: int
    saved: int
    adaptive: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's counts and scores.

    Attributes:
        first_case: Id of the first that has ended.
        unreadable: What is first to correct in the case files, as such a case fails again until then.
        scored: Its evidence as subtask 2 of 2026 scores it; None where no case is scored.
        used: Of all sessions.
        weak_cases: Scored cases whose labels in the key are weak.
        reviewed_cases: Labelled cases that are not scored, as their labels are a reviewer's.
        impaired: Cases that ended although something that was asked for them had failed, by flag.
        quality: Retries, corrections, flags and degraded cases.
        answers: Completed cases by value, for each counted column.
        answer_key: Whether cases have answers in the key, for a system whose answers are scored.
    """

    folder: RunFolder
    first_case: str | None
    unreadable: str | None
    scored: ScoredTask | None
    scored_cases: int
    weak_cases: int
    reviewed_cases: int
    votes: VoteUse
    used: Usage
    impaired_cases: int
    impaired: Mapping[str, int]
    quality: ReplyQuality
    answers: Mapping[str, Mapping[str, int]]
    answer_key: bool

    def as_json(self) -> dict[str, Any]:
        """One object for programs: totals of the run, and what its last session added."""
        manifest, used = self.folder.manifest, self.used
        last = self._last
        return {
            "run": str(self.folder.path),
            "system": manifest.system,
            "status": self.folder.status,
            "cases": manifest.inputs.cases,
            "done": manifest.counts.done,
            "failed": manifest.counts.failed,
            "waiting": manifest.counts.waiting,
            "impaired": self.impaired_cases,
            "errors": manifest.counts.errors,
            "models": {role: model.name for role, model in manifest.models.items()},
            "stopped_by": last.stopped_by,
            **_numbers(used, manifest.seconds),
            **({} if (most := manifest.budget.max_cost) is None else {"max_cost": most}),
            "last_session": {"command": last.command, **_numbers(last, last.seconds)},
            "votes_asked": self.votes.asked,
            "votes_saved": self.votes.saved,
            **self.quality.as_json(),
            "evidence_scores": self._scores(),
            **({"answers": self.answers} if self.answers else {}),
            "next": self.next_commands(),
        }

    def next_commands(self) -> list[str]:
        """Suggested next commands."""
        path, manifest = quoted(self.folder.path), self.folder.manifest
        commands = []
        # A resume leaves failed cases alone, so of a stopped retry it would run nothing.
        # A session that is under way is not resumed.
        unfinished = self.folder.status not in ("finished", "running") and manifest.forked_from is None
        if unfinished and (manifest.counts.total < manifest.inputs.cases or not manifest.counts.failed):
            away = away_batches(self.folder.path)
            commands.append(f"{away.next_command(self.folder.path)}{self._larger_budget()}")
        unreadable = manifest.counts.errors.get("invalid_input", 0)
        if manifest.counts.failed > unreadable and manifest.forked_from is None:
            commands.append(f"evigraph retry {path}")
        if unreadable and manifest.forked_from is None:
            commands.append(f"evigraph retry {path} --corrected")
        if self.impaired and manifest.status == "finished" and manifest.forked_from is None:
            commands.append(f"evigraph retry {path} --impaired")
        if manifest.counts.waiting:
            commands.append(f"evigraph review {path}")
        if manifest.status == "finished" and (self.scored_cases or self.answer_key):
            commands.append(f"evigraph score {path}")
        commands.append(f"evigraph show {path}")
        if self.first_case is not None:
            commands.append(f"evigraph show {path} {quoted(self.first_case)}")
        return commands

    def print(self) -> None:
        """For people."""
        print_facts(self._facts())

    def _facts(self) -> Iterator[tuple[str, Text | str]]:
        manifest = self.folder.manifest
        last = self._last
        counts = manifest.counts
        failed = ", ".join(f"{count} {name}" for name, count in counts.errors.items())
        left = manifest.inputs.cases - counts.done - counts.failed - counts.waiting
        yield (
            "cases",
            f"{counts.done} done, {counts.failed} failed"
            + (f" ({failed})" if failed else "")
            + (f", {counts.waiting} waiting for a person" if counts.waiting else "")
            + (f", {left} not run" if left else ""),
        )
        if self.impaired.keys() - {"degraded"}:
            yield "impaired", safe(self._impaired(), "yellow")
        for name, text in self.quality.rows().items():
            yield name, safe(text, "yellow" if name == "degraded" else "")
        yield "models", ", ".join(dict.fromkeys(model.name for model in manifest.models.values()))
        yield from self._usage_rows()
        if self.votes.adaptive:
            yield "votes", f"{self.votes.asked:,} asked, {self.votes.saved:,} saved"
        if self.used.cost is not None:
            yield "cost", cost_in_budget(self.used.cost, manifest.budget.max_cost)
        if self.unreadable is not None:
            yield "correct", safe(self.unreadable, "yellow")
        if last.stopped_by is not None and manifest.status != "finished":
            yield "stopped", safe(last.stopped_by, "yellow")
        yield "time", "-" if manifest.seconds is None else duration(manifest.seconds)
        if manifest.later_sessions and last.seconds is not None:
            cost = "" if last.cost is None else f", cost {last.cost:.4g}"
            yield (
                "of these",
                f"{last.command}: {plural(last.calls, 'call')} made, {last.replayed:,} replayed,"
                f" {plural(last.input_tokens + last.output_tokens, 'token')}{cost}, {duration(last.seconds)}",
            )
        for name, found in self.answers.items():
            yield name, ", ".join(f"{count:,} {words}" for words, count in found.items())
        if evidence := self.evidence:
            precision, recall, f1 = (evidence[f"strict_micro_{part}"] for part in PARTS)
            yield (
                "evidence",
                f"against the key of {plural(self.scored_cases, 'case')}{self._weak()}, micro:"
                f" strict P {precision:.1f} R {recall:.1f}"
                f" F1 {f1:.1f}, lenient F1 {evidence['lenient_micro_f1']:.1f}",
            )
        if self.reviewed_cases:
            yield "reviewed", f"{plural(self.reviewed_cases, 'case')} not scored: a reviewer's labels"
        yield "run", str(self.folder.path)
        yield "next", "\n".join(self.next_commands())

    def _usage_rows(self) -> Iterator[tuple[str, str]]:
        """Calls and tokens, and parts of requests that models do not take."""
        used = self.used
        yield "calls", f"{used.calls:,} made, {used.replayed:,} replayed from the journal"
        cached = f" ({used.cached_tokens:,} of them cached)" if used.cached_tokens else ""
        guessed = f" (estimated in {plural(used.estimated, 'call')})" if used.estimated else ""
        thought = f" ({used.thinking_tokens:,} of them thinking)" if used.thinking_tokens else ""
        written = f"{used.output_tokens:,} written{thought}{guessed}"
        yield "tokens", f"{used.input_tokens:,} read{cached}, {written}"
        if used.widened:
            yield "widened", f"{plural(used.widened, 'request')}, after thinking used up the limit"
        models = self.folder.manifest.models.values()
        not_sent = dict.fromkeys(sentence for model in models for sentence in model.not_sent)
        if not_sent:
            yield "not sent", "; ".join(not_sent)

    def _impaired(self) -> str:
        """Failures within completed cases."""
        parts = (f"{name.replace('_', ' ')} in {count:,}" for name, count in self.impaired.items())
        return f"{plural(self.impaired_cases, 'case')} with failed requests ({', '.join(parts)})"

    @property
    def evidence(self) -> Mapping[str, float]:
        return self.scored.values if self.scored is not None else {}

    @property
    def _last(self) -> Session:
        """The last session; one that did nothing where a kill came before the first."""
        sessions = self.folder.manifest.sessions
        return sessions[-1] if sessions else Session(command="run", started=utc_now())

    def _larger_budget(self) -> str:
        """A budget that stopped the run would stop it again."""
        budget = self.folder.manifest.budget
        if self._last.stopped_by is None or self._last.stopped_by.startswith(DEGRADED):
            return ""
        return "".join(
            [
                f" --max-tokens-total {2 * budget.max_tokens}" if budget.max_tokens is not None else "",
                f" --max-cost {2 * budget.max_cost:g}" if budget.max_cost is not None else "",
            ]
        )

    def _weak(self) -> str:
        """Scores against labels that a model made must not pass for others."""
        if not self.weak_cases:
            return ""
        part = "" if self.weak_cases == self.scored_cases else f"{self.weak_cases} of them with "
        return f" ({part}weak labels, so no gold score)"

    def _scores(self) -> dict[str, Any] | None:
        if not (evidence := self.evidence):
            return None
        return {
            "scored_cases": self.scored_cases,
            "weak_cases": self.weak_cases,
            "reviewed_cases": self.reviewed_cases,
            **{
                name: {part: evidence[f"{name}_{part}"] for part in PARTS}
                for name in ("strict_micro", "strict_macro", "lenient_micro")
            },
        }


@dataclass(slots=True)
class _Tally:
    """Counts over the cases that have ended, taken line by line."""

    system: System
    most_votes: int
    gold: Mapping[str, GoldCase]
    quality: ReplyQuality
    first: str | None = None
    unreadable: str | None = None
    used: Counter[str] = field(default_factory=Counter)
    impaired_cases: int = 0
    impaired: Counter[str] = field(default_factory=Counter)
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    asked: int = 0
    saved: int = 0
    made: list[Prediction] = field(default_factory=list)
    weak: int = 0
    reviewed: int = 0

    def add(self, line: Line) -> None:
        error = line["error"]
        self.first = self.first or line["case_id"]
        if error and error["class"] == "invalid_input":
            self.unreadable = self.unreadable or str(error["message"])
        self.quality.add_line(line)
        self.used.update({name: line["usage"][name] for name in _OF_CASES})
        if is_impaired(line, self.system.impairments):
            self.impaired_cases += 1
            self.impaired.update(self.system.impairments.intersection(line["flags"]))
            self.impaired.update(["degraded"] if line.get("degraded") else [])
        for name, column in self.system.columns.items():
            if column.counted and error is None and (words := column.cell(line)):
                self.answers.setdefault(name, Counter())[words] += 1
        if asked := line.get("asked_votes") or 0:
            self.asked += asked
            # A case that failed has saved nothing.
            self.saved += self.most_votes - asked if line["status"] == "done" else 0
        self._score(line)

    def _score(self, line: Line) -> None:
        """A case that the run has not labelled, as it failed or people had, is not scored as empty."""
        case = self.gold.get(line["case_id"])
        if line["status"] != "done" or not line["labels"] or case is None or not case.labels:
            return
        if line.get("review"):
            self.reviewed += 1
            return
        self.made.append(prediction_of(line))
        self.weak += case.weak

    def scores(self) -> ScoredTask | None:
        if not self.made:
            return None
        # It takes scipy along, which a run without a key does without.
        from evals.scoring.score import score

        return score("2026-2", self.made, self.gold, refuse_unknown=False)


def summarise(folder: RunFolder) -> Summary:
    """Read a run's counts, and score its evidence where its key labels sentences."""
    manifest = folder.manifest
    system = find_system(manifest.system)
    evidence = EvidenceSettings.model_validate(manifest.recipe.get("evidence", {}))
    try:
        gold = gold_of_run(folder)
    except InputError:
        # The inputs may have moved since; counts need none of them.
        gold = {}
    tally = _Tally(system, evidence.most_votes, gold, ReplyQuality(manifest.retries))
    for line in folder.cases():
        tally.add(line)
    return Summary(
        folder=folder,
        first_case=tally.first,
        unreadable=tally.unreadable,
        scored=tally.scores(),
        scored_cases=len(tally.made),
        weak_cases=tally.weak,
        reviewed_cases=tally.reviewed,
        votes=VoteUse(tally.asked, tally.saved, adaptive=evidence.adaptive),
        used=with_unrecorded(folder.path, manifest).used(**{name: tally.used[name] for name in _OF_CASES}),
        answers={
            name: dict(tally.answers[name].most_common()) for name in system.columns if name in tally.answers
        },
        answer_key=system.score in ("verdict", "biomedical") and _has_answers(folder),
        impaired_cases=tally.impaired_cases,
        impaired=dict(sorted(tally.impaired.items())),
        quality=tally.quality,
    )


_OF_CASES = ("calls", "input_tokens", "output_tokens")
"""Usage in a line of `cases.jsonl`."""


def _has_answers(folder: RunFolder) -> bool:
    """Whether the key of a run has an answer to any question."""
    try:
        golds = (case.gold for case in recorded_cases(folder.manifest))
        return any(gold.verdict or gold.exact_answer or gold.ideal_answers for gold in golds)
    except InputError:
        # The inputs may have moved since.
        return False


_SELDOM = ("estimated", "thinking_tokens", "widened")
"""Counts that most runs have none of."""


def cost_in_budget(cost: float, max_cost: float | None) -> str:
    """The cost of a run, next to its limit."""
    return f"{cost:.4g}" + ("" if max_cost is None else f" of {max_cost:g}")


def _numbers(used: Usage | Session, seconds: float | None) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "calls": used.calls,
        "replayed_calls": used.replayed,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cached_tokens": used.cached_tokens,
        **{name: count for name in _SELDOM if (count := getattr(used, name))},
        "cost": used.cost,
    }
