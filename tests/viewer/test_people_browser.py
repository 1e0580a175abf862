"""Two people in a real browser: what each sees, and how each gets in and out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect

from access.users import Users
from runs.review.reviews import Reviews
from tests.viewer.browsing import needs_browser
from tests.viewer.written_run import add, ended, new_run
from viewer.library import Library
from viewer.listening import configured, link, listen
from viewer.server import application
from viewer.signing_in import SigningIn

pytestmark = needs_browser


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    with new_run(tmp_path / "run", ["k0", "k1"]) as run:
        add(run, ended("k0", review=None))
        add(run, ended("k1", review=None))
        yield run.path


@contextmanager
def with_users(run: Path, users: Users) -> Iterator[str]:
    library, bound = Library([run]), listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    door = SigningIn(users, port, [run])
    server = uvicorn.Server(configured(application(library, port, "", signing_in=door)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield link("127.0.0.1", port, None)
    server.should_exit = True
    thread.join()
    bound.close()
    library.close()


def sign_in(page: Page, address: str, token: str) -> None:
    page.goto(address)
    page.get_by_label("Your token").fill(token)
    page.keyboard.press("Enter")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_ana_reviews_and_bert_reads(
    browser: Browser, run: Path, tmp_path: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    users = Users(tmp_path / "people" / "users.json")
    now = datetime.now(UTC)
    tokens = {
        "Ana María López-Echeverría": users.add("Ana María López-Echeverría", "review", now)[1],
        "bert": users.add("bert", "view", now)[1],
    }
    faults: list[str] = []
    with with_users(run, users) as link:
        for name, token in tokens.items():
            context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
            page = context.new_page()
            page.on("pageerror", lambda error: faults.append(str(error)))
            sign_in(page, f"{link}runs/run/case?id=k0", "evigraph-wrong-one")
            expect(page.get_by_role("alert")).to_contain_text("opens nothing")
            assert page.evaluate("document.documentElement.scrollWidth") == width
            sign_in(page, f"{link}runs/run/case?id=k0", token)
            expect(page.locator(".person")).to_contain_text(name)
            assert page.url == f"{link}runs/run/case?id=k0"
            assert page.evaluate("document.documentElement.scrollWidth") == width
            if name == "bert":
                expect(page.locator("#review-form")).to_have_count(0)
            else:
                # Keys are taken once the scripts of the page have run.
                page.wait_for_load_state("load")
                for key in ("r", "j", "j", "s"):
                    page.keyboard.press(key)
                page.keyboard.press("Control+Enter")
                expect(page.locator(".saved")).to_contain_text(name)
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            page.goto(f"{link}runs/run")
            expect(page.get_by_label("Your token")).to_be_focused()
            context.close()
    assert faults == []
    assert [one.reviewer for one in Reviews(run).history("k0")] == ["Ana María López-Echeverría"]
