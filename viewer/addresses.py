"""Where pages point to: the same pages are served, and written as files that open from disk."""

from __future__ import annotations

from typing import Protocol


class Addresses(Protocol):
    """Links of a page. Names of runs and ids of cases are data: each implementation makes them safe."""

    @property
    def policy(self) -> str | None:
        """The Content-Security-Policy that pages carry themselves; None where a server sends one."""

    def asset(self, name: str) -> str:
        """A style sheet or script of `viewer/assets`."""

    def runs(self) -> str:
        """The list of runs."""

    def run(self, run: str) -> str:
        """A run's table of cases and charts."""

    def rows(self, run: str) -> str:
        """What fills the table of cases."""

    def chart(self, run: str, name: str) -> str:
        """A chart of a run, as SVG."""

    def case(self, run: str, case_id: str) -> str:
        """A case."""

    def call(self, run: str, case_id: str, key: str) -> str | None:
        """Prompt and reply of a call of the case; None where they are left out."""

    def review(self, run: str, case_id: str) -> str | None:
        """The case with a form, and where that is sent to; None where nothing can be written."""

    def verify(self, run: str, case_id: str) -> str | None:
        """The answer of the case held against its note; None where nothing is computed."""

    def compare(
        self, one: str, other: str, *, kind: str | None = None, page: int | None = None
    ) -> str | None:
        """Two runs side by side; None where that page is left out."""

    def compare_case(self, one: str, other: str, case_id: str) -> str | None:
        """One case of two runs side by side."""
