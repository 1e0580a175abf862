"""Which candidate to try next, and when to give one up: optuna's samplers and pruner over a file of trials.

Optuna searches any space of values (Akiba et al. 2019) and calls nothing by itself, so that candidates stay
ordinary recipes whose calls go through our own client and journal; DSPy's optimisers would bring their own
client, cache and program. The sampler is a tree-structured Parzen estimator (Bergstra et al. 2011), the
pruner asynchronous successive halving (Li et al. 2018), with cases as the resource.

Each choice is drawn from the trials before it with its own seed, and a trial is written once it has ended. So
a killed search draws the same candidate again and continues seamlessly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evals.errors import OptimisationError
from evals.optimisation.space import Choices, Dimension

if TYPE_CHECKING:
    from optuna import Study, Trial

STUDY = "study.log"
FEWEST_IN_A_RUNG = 6
"""Cases that a candidate is judged by before it may be given up."""

_STARTUP = 5
"""Random candidates before the estimator has anything to go by."""

_GUIDED, _RANDOM = 10, 200
"""Draws of the estimator, then at random, until one gives a candidate that was not tried."""

State = Literal["done", "given up", "refused"]
"""Whether a candidate ran on all search cases, fell behind on some of them, or cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A candidate that was tried.

    Attributes:
        number: 0 is the given recipe.
        scores: How many search cases it ran on, the fewest first, with its strict micro F1, 0 to 100.
        failed: Cases that ended without labels.
        tokens: Read and written only for it: calls shared with others count for the first.
        reason: Why it was rejected.
    """

    number: int
    choices: Choices
    state: State
    scores: Sequence[tuple[int, float]]
    failed: int = 0
    tokens: int = 0
    reason: str = ""

    @property
    def cases(self) -> int:
        return self.scores[-1][0] if self.scores else 0

    @property
    def score(self) -> float | None:
        """On the most cases that it ran on."""
        return self.scores[-1][1] if self.scores else None


def rungs(cases: int) -> list[int]:
    """Numbers of cases after which candidates are compared, halves of one another; the last is all."""
    found = [cases]
    while found[0] // 2 >= FEWEST_IN_A_RUNG:
        found.insert(0, found[0] // 2)
    return found


@dataclass(frozen=True, slots=True)
class Attempt:
    """A candidate that is being tried."""

    choices: Choices
    study: Study
    trial: Trial
    scores: list[tuple[int, float]] = field(default_factory=list)

    @property
    def number(self) -> int:
        return self.trial.number


class Search:
    """Trials of an optimisation, in a file that `optuna-dashboard` reads too."""

    def __init__(self, folder: Path, dimensions: Sequence[Dimension], cases: int, seed: int) -> None:
        """Open the search of a folder, or begin it.

        Raises:
            OptimisationError: Optuna is not installed, or the file cannot be read.
        """
        try:
            import optuna
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend
        except ImportError:
            raise OptimisationError(
                "`optimise` needs an extra: pip install -e '.[optimise]' in the clone"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.rungs = rungs(cases)
        self._dimensions = dimensions
        self._seed = seed
        path = folder / STUDY
        try:
            storage = JournalStorage(JournalFileBackend(str(path)))
            self._stored = optuna.create_study(
                storage=storage, study_name="optimise", direction="maximize", load_if_exists=True
            )
        except (OSError, ValueError, KeyError) as error:
            raise OptimisationError(f"{path}: cannot be read: {error}; give another --out") from error

    @property
    def ended(self) -> list[Ended]:
        """All trials that have ended, by number."""
        return [
            Ended(number=trial.number, choices=trial.params, **trial.user_attrs)
            for trial in self._stored.trials
        ]

    @property
    def best(self) -> Ended | None:
        """The candidate that did best on all search cases; of equal ones the first."""
        done = [one for one in self.ended if one.state == "done"]
        return max(done, key=lambda one: (one.score or 0.0, -one.number), default=None)

    def noted(self, name: str) -> int | None:
        """A number that was noted, such as what had been spent before a trial."""
        return self._stored.user_attrs.get(name)

    def note(self, name: str, value: int) -> None:
        self._stored.set_user_attr(name, value)

    def begin(self, own: Choices) -> Attempt | None:
        """The next candidate: the given recipe first, then others; None when all have been tried."""
        from optuna.samplers import RandomSampler, TPESampler

        number = len(self._stored.trials)
        if number == 0:
            study = self._copy(TPESampler(seed=self._seed))
            study.enqueue_trial(dict(own))
            return self._attempt(study)
        tried = [one.choices for one in self.ended]
        for draw in range(_GUIDED + _RANDOM):
            seed = int.from_bytes(hashlib.sha256(f"{self._seed} {number} {draw}".encode()).digest()[:4])
            guided = draw < _GUIDED
            sampler = TPESampler(seed=seed, n_startup_trials=_STARTUP) if guided else RandomSampler(seed=seed)
            attempt = self._attempt(self._copy(sampler))
            if attempt.choices not in tried:
                return attempt
        return None

    def is_behind(self, attempt: Attempt, cases: int, score: float) -> bool:
        """Keep a score on the first cases; whether to give the candidate up.

        The first to be compared, the given recipe, never is.
        """
        attempt.scores.append((cases, score))
        attempt.trial.report(score, step=2 ** self.rungs.index(cases))
        return attempt.trial.should_prune() and cases < self.rungs[-1]

    def end(self, attempt: Attempt, *, failed: int = 0, tokens: int = 0, refused: str = "") -> Ended:
        """Write the trial."""
        from optuna.trial import TrialState

        on_all = dict(attempt.scores).get(self.rungs[-1])
        if refused:
            state, of_optuna = "refused", TrialState.FAIL
        elif on_all is None:
            state, of_optuna = "given up", TrialState.PRUNED
        else:
            state, of_optuna = "done", TrialState.COMPLETE
        facts = {"state": state, "failed": failed, "tokens": tokens, "reason": refused}
        for name, fact in {**facts, "scores": attempt.scores}.items():
            attempt.trial.set_user_attr(name, fact)
        attempt.study.tell(attempt.trial, on_all, state=of_optuna)
        self._stored.add_trial(attempt.study.trials[-1])
        return self.ended[-1]

    def _copy(self, sampler: Any) -> Study:
        """The trials so far in memory: a choice that is drawn leaves no trace until its trial has ended."""
        import optuna
        from optuna.pruners import SuccessiveHalvingPruner

        pruner = SuccessiveHalvingPruner(min_resource=1, reduction_factor=2, min_early_stopping_rate=0)
        study = optuna.create_study(sampler=sampler, pruner=pruner, direction="maximize")
        study.add_trials(self._stored.trials)
        return study

    def _attempt(self, study: Study) -> Attempt:
        trial = study.ask()
        chosen: dict[str, Any] = {}
        for dimension in self._dimensions:
            if dimension.applies(chosen):
                chosen[dimension.name] = trial.suggest_categorical(dimension.name, dimension.options)
        return Attempt(chosen, study, trial)
