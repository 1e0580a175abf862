"""Addresses within a bundle: relative, so that the files open from disk and from any web host."""

from __future__ import annotations

from collections.abc import Mapping

INDEX = "index.html"
ASSETS = "assets"
CASES = "cases"
CALLS = "calls"
ROWS = "rows.js"

# From disk every file is an origin of its own in some browsers, so `'self'` alone may forbid its neighbours.
_POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:;"
    " connect-src 'self'"
)

Numbers = Mapping[str, Mapping[str, int]]
"""Run to case id to the number of its page. Ids are data and never become a path."""


class BundledAddresses:
    """Addresses seen from a folder of the bundle."""

    policy: str | None = f"{_POLICY}; base-uri 'none'; form-action 'none'"

    def __init__(self, numbers: Numbers, up: str, *, with_calls: bool) -> None:
        """Seen from a folder.

        Args:
            numbers: The pages that there are.
            up: From that folder to the top of the bundle, such as `../`.
            with_calls: Whether prompts and replies have pages.
        """
        self._numbers = numbers
        self._up = up
        self._with_calls = with_calls

    def asset(self, name: str) -> str:
        """A style sheet or script."""
        return f"{self._up}{ASSETS}/{name}"

    def runs(self) -> str:
        """The list of runs."""
        return f"{self._up}{INDEX}"

    def run(self, run: str) -> str:
        """A run's page; names of runs hold letters, digits and `-` only."""
        return f"{self._up}{run}/{INDEX}"

    def rows(self, run: str) -> str:
        """Its rows as a script: a page on disk may fetch nothing."""
        return f"{self._up}{run}/{ROWS}"

    def chart(self, run: str, name: str) -> str:
        """One of its charts."""
        return f"{self._up}{run}/{name}.svg"

    def case(self, run: str, case_id: str) -> str:
        """A case's page; empty where there is none."""
        number = self._numbers[run].get(case_id)
        return "" if number is None else f"{self._up}{run}/{CASES}/{case_file(number)}"

    def call(self, run: str, case_id: str, key: str) -> str | None:
        """A call's prompt and reply, where they are not left out."""
        if not self._with_calls:
            return None
        return f"{self._up}{run}/{CALLS}/{call_file(self._numbers[run][case_id], key)}"

    def verify(self, run: str, case_id: str) -> str | None:
        """Files compute nothing."""
        return None

    def review(self, run: str, case_id: str) -> str | None:
        """Files take no reviews."""
        return None

    def compare(
        self, one: str, other: str, *, kind: str | None = None, page: int | None = None
    ) -> str | None:
        """Files compare nothing."""
        return None

    def compare_case(self, one: str, other: str, case_id: str) -> str | None:
        """Files compare nothing."""
        return None


def case_file(number: int) -> str:
    """The name of a case's page."""
    return f"{number:06d}.html"


def call_file(number: int, key: str) -> str:
    """The name of a call's page; keys are hexadecimal, and anything else in them is dropped."""
    return f"{number:06d}-{''.join(letter for letter in key if letter in '0123456789abcdef')[:24]}.html"
