"""Cases of a batch that wait for a person, until the person has said something."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cases.records import Case
from runs.manifest import RunError
from runs.reviews import Review, Reviews

MOST_HELD = 1000
"""Waiting cases that a batch takes up again by itself; memory stays flat. `resume` takes up the rest."""


class HeldCases:
    """Looks for new reviews by the size of their file, so it may be asked after every case."""

    def __init__(self, reviews: Reviews, report: Callable[[str], None]) -> None:
        """Of one batch; `report` is told of a file of reviews that cannot be read."""
        self._reviews = reviews
        self._report = report
        self._said: Mapping[str, Review] = {}
        self._held: dict[str, tuple[Case, str]] = {}
        self._news = False
        self._readable = True

    def review_of(self, case_id: str) -> Review | None:
        """The last review of the case's labels."""
        self._listen()
        return self._said.get(case_id)

    def hold(self, case: Case, shown: str) -> None:
        """Keep a case that waits.

        Args:
            case: Which.
            shown: Fingerprint of what a person is shown of it.
        """
        if len(self._held) < MOST_HELD:
            self._held[case.id] = case, shown
            # Its review may have come in while the case was on its way here.
            self._news = True

    def next_reviewed(self) -> Case | None:
        """A case that need not wait any more; it is held no longer."""
        self._listen()
        if not self._news:
            return None
        for case_id, (case, shown) in self._held.items():
            review = self._said.get(case_id)
            if review is not None and review.shown == shown:
                del self._held[case_id]
                return case
        self._news = False
        return None

    def _listen(self) -> None:
        if not self._readable or not self._reviews.changed():
            return
        try:
            self._said = self._reviews.latest("labels")
            self._news = True
        except RunError as error:
            # The batch can do without; whoever adds or reads reviews is told the same.
            self._readable = False
            self._report(f"reviews are left alone: {error}")
