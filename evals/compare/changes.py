"""Changes in each case: labels, score, intent, route, answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evals.compare.outcomes import CaseOutcome
from evals.scoring.gold import Labels
from ranking.measures import count, scores


class F1Pair(NamedTuple):
    """Strict F1 of a case's evidence in both runs, 0 to 1."""

    first: float
    second: float

    @property
    def gain(self) -> float:
        return self.second - self.first


class SentenceChanges(NamedTuple):
    """Sentences whose label changed, by their label in the key; supplementary ones are not essential.

    Attributes:
        found: Essential, found only by the second run.
        lost: Essential, found only by the first run.
        wrong: Not essential, selected only by the second run.
        righted: Not essential, and only the first run says that they are.
    """

    found: tuple[str, ...]
    lost: tuple[str, ...]
    wrong: tuple[str, ...]
    righted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaseChange:
    """One case in both runs.

    Attributes:
        same_sentences: Whether both runs label the same sentence ids; if not, labels are not compared.
        added: Sentences that only the second run calls essential.
        removed: Sentences that only the first run calls essential.
        f1: None without labels in the key, as is `sentences`.
        intents: Both, where they differ.
        answer_changed: Whether the answers differ in any character.
        steps_left: Steps that only the first run's route has.
        steps_taken: Steps that only the second run's route has.
        route_changed: Whether the routes differ, be it only in order or number of steps.
    """

    case_id: str
    same_sentences: bool
    added: tuple[str, ...]
    removed: tuple[str, ...]
    f1: F1Pair | None
    sentences: SentenceChanges | None
    intents: tuple[str | None, str | None] | None
    answer_changed: bool
    steps_left: tuple[str, ...]
    steps_taken: tuple[str, ...]
    route_changed: bool


def case_change(first: CaseOutcome, second: CaseOutcome, gold: Labels | None) -> CaseChange:
    """Compare a case that is done in both runs; `gold` has the key's labels of its sentences, if any."""
    same = first.labels.keys() == second.labels.keys()
    one, other = first.essential, second.essential
    added = tuple(id_ for id_ in second.labels if id_ in other - one) if same else ()
    removed = tuple(id_ for id_ in first.labels if id_ in one - other) if same else ()
    f1 = sentences = None
    if gold is not None and same:
        wanted = {id_ for id_, label in gold.items() if label == "essential"}
        f1 = F1Pair(*(scores(count(side, wanted), "perfect").f1 for side in (one, other)))
        sentences = SentenceChanges(
            found=tuple(id_ for id_ in added if id_ in wanted),
            lost=tuple(id_ for id_ in removed if id_ in wanted),
            wrong=tuple(id_ for id_ in added if id_ not in wanted),
            righted=tuple(id_ for id_ in removed if id_ not in wanted),
        )
    has_trace = bool(first.route and second.route)
    return CaseChange(
        case_id=first.case_id,
        same_sentences=same,
        added=added,
        removed=removed,
        f1=f1,
        sentences=sentences,
        intents=(first.intent, second.intent) if first.intent != second.intent else None,
        answer_changed=first.answer != second.answer,
        steps_left=_only(first.route, second.route) if has_trace else (),
        steps_taken=_only(second.route, first.route) if has_trace else (),
        route_changed=has_trace and first.route != second.route,
    )


def by_gain(changes: Iterable[CaseChange]) -> tuple[list[CaseChange], list[CaseChange]]:
    """Cases that gained F1, most first, and cases that lost F1, most first."""
    moved = [(change.f1.gain, change) for change in changes if change.f1 is not None and change.f1.gain]
    gained = sorted((pair for pair in moved if pair[0] > 0), key=lambda pair: -pair[0])
    lost = sorted((pair for pair in moved if pair[0] < 0), key=lambda pair: pair[0])
    return [change for _, change in gained], [change for _, change in lost]


def route_changes(changes: Iterable[CaseChange]) -> Mapping[tuple[str, str], int]:
    """How many cases left which steps for which others, most first."""
    moved = (change for change in changes if change.route_changed)
    return _counted((", ".join(change.steps_left), ", ".join(change.steps_taken)) for change in moved)


def intent_changes(changes: Iterable[CaseChange]) -> Mapping[tuple[str, str], int]:
    """How many cases went from which intent to which, most first."""
    pairs = (change.intents for change in changes if change.intents is not None)
    return _counted((one or "(none)", other or "(none)") for one, other in pairs)


def _counted(pairs: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
    """Ties by name."""
    return dict(Counter(sorted(pairs)).most_common())


def _only(route: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step for step in route if step not in other))
