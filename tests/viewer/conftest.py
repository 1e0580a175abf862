from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from starlette.testclient import TestClient

from access import users
from runs.record.folder import RunWriter
from tests.viewer.browsing import CHROMIUM
from tests.viewer.written_run import ROUTE, add, ended, failed, finish, new_run
from viewer.library import Library
from viewer.server import application

expect.set_options(timeout=60_000)

PORT = 8123
CHEAP = (2, 8, 1)
"""Of scrypt."""
TOKEN = "the-key"  # noqa: S105 - of a test
HOSTILE_ID = "../../etc/passwd</script><script>alert('id')</script>"
HOSTILE_FLAG = '"><img src=x onerror=alert(1)>'
HOSTILE_ERROR = "<svg onload=alert(2)>"
HOSTILE_INTENT = "[click](javascript:alert(3)) \u202eevil"


@pytest.fixture(autouse=True)
def cheap_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash that takes long on purpose says nothing here."""
    monkeypatch.setattr(users, "_COST", CHEAP)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`plain` has 250 cases, `hostile` text of attackers, `damaged` a broken line, `torn` no manifest."""
    out = tmp_path_factory.mktemp("out")
    ids = [f"c{number:03}" for number in range(250)]
    with new_run(out / "plain", ids) as run:
        for number, id_ in enumerate(ids):
            if number % 25 == 7:
                add(run, failed(id_, "timeout"), ROUTE[:2])
            elif number % 10 == 0:
                add(run, ended(id_, flags=["missing_votes"], labels={"1": "essential", "2": "essential"}))
            else:
                add(run, ended(id_), seconds=number / 10)
        finish(run)
    hostile = [HOSTILE_ID, "..", "<b>bold</b>", "a b/c?d#e%2e", "é\u202e中"]
    with new_run(out / "hostile", hostile, recipe_origin=HOSTILE_FLAG, model=HOSTILE_ERROR) as run:
        for id_ in hostile[1:]:
            intent = {"primary": HOSTILE_INTENT, "secondary": None, "risk_level": "low"}
            add(run, ended(id_, flags=[HOSTILE_FLAG], intent=intent), ["<node>", HOSTILE_FLAG])
        add(run, failed(HOSTILE_ID, HOSTILE_ERROR))
        finish(run)
    with new_run(out / "damaged", ["x"]) as run:
        add(run, ended("x"))
        finish(run)
    (out / "damaged" / "cases.jsonl").write_text("{broken\n")
    with new_run(out / "again", ids[:3], model="scripted:other") as run:
        add(run, ended("c000"))
        add(run, ended("c001", answer="Because of the <b>drain</b>."))
        labels = dict.fromkeys("123", "essential") | {"4": "not-essential"}
        add(run, ended("c002", labels=labels))
        finish(run)
    (out / "torn").mkdir()
    (out / "torn" / "run.json").write_text("{")
    return out


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    """A reader who has opened the link."""
    library = Library([folder])
    with TestClient(application(library, PORT, TOKEN), base_url=f"http://127.0.0.1:{PORT}") as client:
        client.get("/", params={"token": TOKEN})
        yield client
    library.close()


@pytest.fixture
def going(tmp_path: Path) -> Iterator[RunWriter]:
    """A run of ten cases, of which two have ended."""
    with new_run(tmp_path / "going", [f"k{number}" for number in range(10)]) as run:
        add(run, ended("k0"))
        add(run, ended("k1"))
        yield run


def rows(client: TestClient, run: str, since: int = 0) -> dict[str, Any]:
    """The rows of a run."""
    found = json.loads(client.get(f"/runs/{run}/rows.json", params={"since": since}).content)
    assert isinstance(found, dict)
    return found
