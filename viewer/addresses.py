"""Link targets of pages, which are both served and written as files that open from disk.

Names of runs are safe by themselves. Case ids are data: each implementation makes them safe. On served pages,
case ids and call keys are in the query: browsers would take an id such as `..` in a path for the parent
folder, however it is quoted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from urllib.parse import quote, urlencode


class Addresses(ABC):
    """Links of a page. A kind of page that does not exist everywhere has no address unless one is given."""

    policy: str | None = None
    """The Content-Security-Policy that pages carry themselves; None where a server sends one."""

    @abstractmethod
    def asset(self, name: str) -> str:
        """A style sheet or script of `viewer/assets`."""

    def ask(self) -> str | None:
        """Address for asking a question; None if nothing runs."""
        return None

    @abstractmethod
    def runs(self) -> str:
        """The list of runs."""

    @abstractmethod
    def run(self, run: str) -> str:
        """A run's table of cases and charts."""

    @abstractmethod
    def rows(self, run: str) -> str:
        """The rows of the table of cases."""

    @abstractmethod
    def case(self, run: str, case_id: str) -> str:
        """A case."""

    @abstractmethod
    def call(self, run: str, case_id: str, key: str) -> str | None:
        """Prompt and reply of a call of the case; None where they are left out."""

    def review(self, run: str, case_id: str) -> str | None:
        """The case with a review form, and where the form is sent; None where nothing can be written."""
        return None

    def state(self, run: str, case_id: str) -> str | None:
        """Address of a case's state; None if nothing changes."""
        return None

    def verify(self, run: str, case_id: str) -> str | None:
        """The case's answer checked against its note; None where nothing is computed."""
        return None

    def compare(
        self, one: str, other: str, *, kind: str | None = None, page: int | None = None
    ) -> str | None:
        """Two runs side by side; None where that page is left out."""
        return None

    def compare_case(self, one: str, other: str, case_id: str) -> str | None:
        """One case of two runs side by side; None where that page is left out."""
        return None


class ServedAddresses(Addresses):
    """Addresses of the server's pages, relative to its root."""

    def __init__(self, *, asks: bool = False) -> None:
        self._asks = asks

    def ask(self) -> str | None:
        return "/ask" if self._asks else None

    def asset(self, name: str) -> str:
        return f"/assets/{name}"

    def runs(self) -> str:
        return "/"

    def run(self, run: str) -> str:
        return f"/runs/{_quoted(run)}"

    def rows(self, run: str) -> str:
        return f"{self.run(run)}/rows.json"

    def case(self, run: str, case_id: str) -> str:
        return f"{self.run(run)}/case?id={_quoted(case_id)}"

    def call(self, run: str, case_id: str, key: str) -> str:
        return f"{self.run(run)}/call?id={_quoted(case_id)}&key={_quoted(key)}"

    def verify(self, run: str, case_id: str) -> str:
        return f"{self.run(run)}/verify?id={_quoted(case_id)}"

    def state(self, run: str, case_id: str) -> str:
        return f"{self.run(run)}/state?id={_quoted(case_id)}"

    def review(self, run: str, case_id: str) -> str:
        return f"{self.next_review(run)}?id={_quoted(case_id)}"

    def reviewers(self, run: str) -> str:
        """Address of the page of reviewers and their agreement."""
        return f"{self.run(run)}/reviewers"

    def key(self, run: str) -> str:
        """The key that the reviewers' labels come to, as a file."""
        return f"{self.run(run)}/key.json"

    def adjudicate(self, run: str, case_id: str) -> str:
        """A case on which reviewers differ, with the form of the decision."""
        return f"{self.run(run)}/adjudicate?id={_quoted(case_id)}"

    def next_review(self, run: str) -> str:
        """Redirects to the next case that waits for a review."""
        return f"{self.run(run)}/review"

    def gold(self, run: str) -> str:
        """The reviewed cases as a file."""
        return f"{self.run(run)}/gold.jsonl"

    def sign_in(self) -> str:
        """The page on which people sign in, and where its form is sent."""
        return "/sign-in"

    def sign_out(self) -> str:
        return "/sign-out"

    def compare(self, one: str, other: str, *, kind: str | None = None, page: int | None = None) -> str:
        wanted = [("run", one), ("run", other), ("kind", kind), ("page", page)]
        return f"/compare?{urlencode([(name, value) for name, value in wanted if value is not None])}"

    def compare_case(self, one: str, other: str, case_id: str) -> str:
        return f"/compare/case?{urlencode([('run', one), ('run', other), ('id', case_id)])}"


def _quoted(text: str) -> str:
    return quote(text, safe="")
