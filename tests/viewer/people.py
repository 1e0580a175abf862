"""People with tokens, and what they see of a server that has named users."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from access.users import Role, Users
from runs.record.audit import read_audit
from tests.viewer.conftest import PORT
from viewer.blind_handlers import Blind
from viewer.library import Library
from viewer.server import application
from viewer.signing_in import SigningIn

OURS = f"http://127.0.0.1:{PORT}"
TODAY = datetime(2026, 11, 23, tzinfo=UTC)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


class People:
    """A server of a folder with named users, and the browsers of those who sign in."""

    def __init__(self, root: Path, *, blind: bool = False, scheme: str = "http") -> None:
        self.root = root
        self._before = len(list(read_audit(root)))
        self.users = Users(root.parent / "people" / "users.json")
        self.clock, self.today = Clock(), TODAY
        self.library = Library([root])
        self.said: list[str] = []
        self.door = SigningIn(self.users, PORT, [root], self.said.append, self.clock, lambda: self.today)
        self.app = application(self.library, PORT, "", signing_in=self.door, blind=Blind() if blind else None)
        self.base = f"{scheme}://127.0.0.1:{PORT}"

    def browser(self) -> TestClient:
        return TestClient(self.app, base_url=self.base, follow_redirects=False)

    def token(self, name: str, role: Role, days: int | None = None) -> str:
        return self.users.add(name, role, self.today, days=days)[1]

    def sign_in(self, browser: TestClient, token: str, target: str = "/") -> Any:
        sent = {"token": token, "next": target}
        return browser.post("/sign-in", data=sent, headers={"origin": self.base})

    def signed_in(self, name: str, role: Role) -> TestClient:
        browser = self.browser()
        assert self.sign_in(browser, self.token(name, role)).status_code == 303
        return browser

    def log(self, run: Path | None = None) -> list[dict[str, Any]]:
        found = list(read_audit(run or self.root))
        assert not [one for one in found if one.fault]
        fields = [one.fields for one in found if one.fields is not None]
        return fields if run is not None else fields[self._before :]


def form_of(page: str, form: str = "review-form") -> dict[str, str]:
    """The fields of a form that its reader left alone."""
    inside = page.partition(f'id="{form}"')[2].partition("</form>")[0]
    areas = re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>\n([^<]*)<', inside)
    return dict(areas + re.findall(r'<input type="hidden" name="(\w+)"[^>]*value="([^"]*)"', inside))
