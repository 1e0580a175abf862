"""Addresses of pages that are served.

Names of runs are safe by themselves. Ids of cases and keys of calls stand in the query: browsers would take
an id such as `..` in a path for a way upwards, however it is quoted.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode


class ServedAddresses:
    """Where the server's pages are; relative to its root."""

    policy: str | None = None

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

    def verify(self, run: str, case_id: str) -> str | None:
        """The answer of the case held against its note."""
        return f"{self.run(run)}/verify?id={_quoted(case_id)}"

    def review(self, run: str, case_id: str) -> str | None:
        """The case with the form of a review, which is sent to the same address."""
        return self.review_form(run, case_id)

    def review_form(self, run: str, case_id: str) -> str:
        """The same; a server always has it."""
        return f"{self.next_review(run)}?id={_quoted(case_id)}"

    def next_review(self, run: str) -> str:
        """Leads to the next case that waits for a review."""
        return f"{self.run(run)}/review"

    def gold(self, run: str) -> str:
        """The reviewed cases as a file."""
        return f"{self.run(run)}/gold.jsonl"

    def compare(
        self, one: str, other: str, *, kind: str | None = None, page: int | None = None
    ) -> str | None:
        """What differs between two runs; `run` stands twice, as the list of runs sends it."""
        wanted = [("run", one), ("run", other), ("kind", kind), ("page", page)]
        return f"/compare?{urlencode([(name, value) for name, value in wanted if value is not None])}"

    def compare_case(self, one: str, other: str, case_id: str) -> str | None:
        """What differs in one case."""
        return f"/compare/case?{urlencode([('run', one), ('run', other), ('id', case_id)])}"


def _quoted(text: str) -> str:
    return quote(text, safe="")
