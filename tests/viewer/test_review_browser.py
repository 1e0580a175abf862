"""A review by keyboard, in a real browser on a real server: origin, cookies and policy are the browser's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from runs.review.reviews import REVIEWS, Reviews, make_review
from tests.viewer.browsing import needs_browser, served
from tests.viewer.written_run import add, ended, new_run

pytestmark = needs_browser


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """`k0` is done, `k1` waits; the run goes on."""
    with new_run(tmp_path / "run", ["k0", "k1"]) as run:
        add(run, ended("k0", review=None))
        add(run, ended("k1", review=None, status="waiting", answer=None))
        yield run.path


def opened(page: Page, link: str, path: str) -> None:
    page.goto(link)
    page.goto(link.partition("?")[0] + path)


def written(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / REVIEWS).read_text().splitlines()]


def test_a_label_is_corrected_by_keyboard_and_stands_in_the_history(browser: Browser, run: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    with served(run) as link:
        opened(page, link, "runs/run/case?id=k0")
        expect(page.locator(".choice").first).to_be_hidden()
        for key in ("r", "j", "j", "s"):
            page.keyboard.press(key)
        expect(page.locator("#s-1 .changed")).to_be_visible()
        expect(page.locator("#s-0 .changed")).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.get_by_label("Your name").fill("R. Chen")
        page.keyboard.press("Enter")
        expect(page.locator(".reviews")).to_contain_text("2: not essential → supplementary")
        expect(page.locator(".saved")).to_contain_text("R. Chen")
        page.close()
    assert faults == []
    (review,) = written(run)
    assert (review["reviewer"], review["named"]) == ("R. Chen", ["2"])


def test_a_review_without_scripts_is_saved(browser: Browser, run: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    with served(run) as link:
        opened(page, link, "runs/run/review")
        page.locator("#s-2").get_by_label("not relevant").check()
        page.get_by_label("Your name").fill("R. Chen")
        page.get_by_role("button", name="Save and next").click()
        expect(page.locator(".saved")).to_contain_text("labels changed on 3")
    context.close()
    assert [one["case_id"] for one in written(run)] == ["k1"]


def test_a_review_shows_in_the_table_while_nothing_else_changes(browser: Browser, run: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    with served(run) as link:
        opened(page, link, "runs/run#review=waiting")
        expect(page.locator("#found")).to_have_text("1 of 2 cases")
        line = ended("k1", review=None, status="waiting", answer=None)
        Reviews(run).add(make_review(line, reviewer="Bo", labels={}))
        expect(page.locator("#cases tbody .state.reviewed")).to_have_count(1)
        expect(page.locator("[data-live=reviews]")).to_have_text("0 waiting, 1 reviewed")
        expect(page.locator("#next-review")).to_be_hidden()
        page.close()
