"""Addresses of pages that are served.

Names of runs are safe by themselves. Ids of cases and keys of calls stand in the query: browsers would take
an id such as `..` in a path for a way upwards, however it is quoted.
"""

from __future__ import annotations

from urllib.parse import quote


class ServedAddresses:
    """Where the server's pages are; relative to its root."""

    def asset(self, name: str) -> str:
        """A style sheet or script."""
        return f"/assets/{name}"

    def runs(self) -> str:
        """The list of runs."""
        return "/"

    def run(self, run: str) -> str:
        """A run's page."""
        return f"/runs/{_quoted(run)}"

    def rows(self, run: str) -> str:
        """Its rows as JSON."""
        return f"{self.run(run)}/rows.json"

    def chart(self, run: str, name: str) -> str:
        """One of its charts."""
        return f"{self.run(run)}/charts/{_quoted(name)}.svg"

    def case(self, run: str, case_id: str) -> str:
        """A case's page."""
        return f"{self.run(run)}/case?id={_quoted(case_id)}"

    def call(self, run: str, case_id: str, key: str) -> str | None:
        """A call's prompt and reply."""
        return f"{self.run(run)}/call?id={_quoted(case_id)}&key={_quoted(key)}"

    def review(self, run: str, case_id: str) -> str | None:
        """No page takes reviews yet."""
        return None

    def compare(self, one: str, other: str) -> str | None:
        """No page compares yet; when one does, it is `/compare?run=ONE&run=OTHER`."""
        return None

    def compare_case(self, one: str, other: str, case_id: str) -> str | None:
        """No page compares yet."""
        return None


def _quoted(text: str) -> str:
    return quote(text, safe="")
