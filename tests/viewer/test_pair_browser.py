"""Blind review in pairs by keyboard alone: from assigned notes to a key, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from runs.review.reviewers import ReviewedRun
from runs.review.reviews import DEFINITIONS
from tests.viewer.browsing import needs_browser, served
from tests.viewer.written_run import add, ended, finish, new_run
from viewer.blind_handlers import Blind

pytestmark = needs_browser

IDS = ["k0", "k1", "k2"]
MOST_TABS = 60


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with new_run(tmp_path / "run", IDS) as run:
        for id_ in IDS:
            add(run, ended(id_, review=None))
        finish(run)
    return run.path


@pytest.fixture(params=[(390, "dark"), (1280, "light")], ids=["narrow", "wide"])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page whose mouse is never used."""
    width: int
    scheme: Literal["dark", "light"]
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, accept_downloads=True
    )
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    assert faults == []
    context.close()


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tab_to(page: Page, wanted: Locator) -> None:
    """Move the focus to an element as a person would."""
    for _ in range(MOST_TABS):
        if wanted.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} is not reached by {MOST_TABS} tabs")


def fits(page: Page) -> bool:
    """Whether nothing of the page is out of sight to the right."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def assign_two(page: Page, link: str) -> None:
    page.goto(link)
    page.goto(link.partition("?")[0] + "runs/run")
    tab_to(page, page.get_by_role("link", name="Reviewers"))
    press(page, "Enter")
    expect(page.get_by_label("Reviewers, separated by commas")).to_be_focused()
    page.keyboard.type("ana")
    press(page, "Enter")
    expect(page.get_by_role("alert")).to_contain_text("each case is to have 2 reviewers, but only 1 named")
    tab_to(page, page.get_by_label("Reviewers, separated by commas"))
    press(page, "End")
    page.keyboard.type(", ben")
    press(page, "Enter")
    expect(page.get_by_role("status")).to_have_text("3 cases assigned.")
    assert fits(page)


def label_all(page: Page, name: str, second: str) -> None:
    """Label sentence 1 essential, sentence 2 as `second` says, and all others not relevant."""
    page.goto(page.url.partition("?")[0])
    expect(page.get_by_label("Your name")).to_be_focused()
    page.keyboard.type(name)
    press(page, "Enter")
    expect(page.locator("main")).to_contain_text("0 of 3 cases reviewed, 3 remaining")
    expect(page.locator("details.instructions")).to_have_attribute("open", "")
    for meaning in DEFINITIONS.values():
        expect(page.locator("details.instructions")).to_contain_text(meaning)
    assert fits(page)
    expect(page.locator("#start")).to_be_focused()
    press(page, "Enter")
    for number, id_ in enumerate(IDS):
        expect(page.locator("h1 .id")).to_have_text(id_)
        expect(page.locator("#s-0")).to_be_focused()
        expect(page.locator(".top progress")).to_have_attribute("value", str(number))
        assert fits(page)
        # A measured pace needs time that the timer counts.
        page.wait_for_timeout(600)
        press(page, "e", second if id_ == "k1" else "e", "a", "Control+Enter")
        if number == 0:
            expect(page.locator("#remaining")).to_contain_text("2 remaining, under a minute left")
    expect(page.locator("main")).to_contain_text("All are reviewed. Thank you.")
    page.context.clear_cookies(name="evigraph_reviewer")


def decide(page: Page, link: str) -> Path:
    page.goto(link)
    page.goto(link.partition("?")[0] + "runs/run/reviewers")
    assert fits(page)
    expect(page.locator("#decide")).to_be_focused()
    press(page, "Enter")
    # The focus is at the one sentence that has no label yet.
    expect(page.locator("#s-1")).to_be_focused()
    assert fits(page)
    press(page, "s")
    tab_to(page, page.get_by_label("Your name"))
    page.keyboard.type("lead")
    press(page, "Control+Enter")
    expect(page.locator("#key")).to_be_focused()
    with page.expect_download() as download:
        press(page, "Enter")
    return download.value.path()


def test_two_people_label_and_a_third_decides_into_a_key(page: Page, run: Path) -> None:
    with served(run) as link:
        assign_two(page, link)
    with served(run, Blind()) as link:
        for name, second in (("ana", "e"), ("ben", "x")):
            page.goto(link)
            label_all(page, name, second)
    assert [id_ for id_, one in ReviewedRun(run).standings().items() if one.undecided] == ["k1"]
    with served(run) as link:
        key = json.loads(decide(page, link).read_text("utf-8"))
    labels = {one["case_id"]: [each["relevance"] for each in one["answers"]] for one in key}
    agreed = ["essential", "essential", "not-relevant", "not-relevant"]
    assert labels == {"k0": agreed, "k1": ["essential", "supplementary", *agreed[2:]], "k2": agreed}
