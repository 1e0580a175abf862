"""Addresses that only show what they were made of."""

from __future__ import annotations

from urllib.parse import quote, urlencode


class PlainAddresses:
    """Enough for a page that nobody follows."""

    policy: str | None = None

    def asset(self, name: str) -> str:
        return f"/assets/{name}"

    def runs(self) -> str:
        return "/"

    def run(self, run: str) -> str:
        return f"/runs/{quote(run, safe='')}"

    def rows(self, run: str) -> str:
        return f"{self.run(run)}/rows"

    def chart(self, run: str, name: str) -> str:
        return f"{self.run(run)}/charts/{name}"

    def case(self, run: str, case_id: str) -> str:
        return f"{self.run(run)}/cases/{quote(case_id, safe='')}"

    def call(self, run: str, case_id: str, key: str) -> str | None:
        return f"{self.case(run, case_id)}/calls/{key}"

    def review(self, run: str, case_id: str) -> str | None:
        return f"{self.case(run, case_id)}/review"

    def compare(
        self, one: str, other: str, *, kind: str | None = None, page: int | None = None
    ) -> str | None:
        wanted = {"a": one, "b": other, "kind": kind, "page": page}
        return f"/compare?{urlencode({name: value for name, value in wanted.items() if value is not None})}"

    def compare_case(self, one: str, other: str, case_id: str) -> str | None:
        return f"/compare/case?{urlencode({'a': one, 'b': other, 'case': case_id})}"
