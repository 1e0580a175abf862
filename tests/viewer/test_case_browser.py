from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

import runs
import viewer
from tests.viewer.browsing import CHROMIUM, needs_browser
from tests.viewer.case_runs import FileAddresses, voted_run
from viewer.pages.case import call_page, case_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = needs_browser

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a case and of its calls as files next to the assets."""
    folder = tmp_path_factory.mktemp("pages")
    addresses = FileAddresses()
    for asset in (Path(viewer.__file__).parent / "assets").iterdir():
        shutil.copy(asset, folder)
    (folder / "favicon.ico").touch()  # browsers ask for it, and a 404 is an error on the console
    with runs.open(voted_run(tmp_path_factory.mktemp("voted"))) as run:
        path = folder / addresses.case("run", "c")
        path.write_text(case_page(run, "run", "c", addresses), "utf-8")
        for step in run.trace("c")[:-1]:
            for call in step["calls"]:
                address = addresses.call("run", "c", call["key"])
                assert address is not None
                (folder / address).write_text(call_page(run, "run", "c", call["key"], addresses), "utf-8")
    return path


@pytest.fixture(scope="module")
def page(written: Path) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 390, "height": 844})
        faults: list[str] = []
        opened.on("console", lambda message: faults.append(message.text))
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.goto(written.as_uri())
        yield opened
        browser.close()
    assert faults == []


def test_a_sentence_is_opened_by_keyboard_and_leads_to_prompt_and_reply(page: Page, written: Path) -> None:
    page.goto(written.as_uri())
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    link = page.locator("#s-1 .why a.call").nth(1)
    assert page.locator("#s-1 .why").is_visible() and not page.locator("#s-0 .why").is_visible()
    link.click()
    page.wait_for_url("**/call-*.html")
    assert page.locator(".reply pre").text_content() == "reflection 0"


def test_a_served_page_opens_calls_in_place(page: Page, written: Path) -> None:
    class Handler(SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", POLICY)
            super().end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(written.parent))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{written.name}"
        page.goto(address)
        page.locator("#step-1 summary", has_text="call").click()
        page.locator("#step-1 a.call").click()
        page.locator("#call .reply pre").wait_for()
        assert page.locator("#call .reply pre").text_content() == "reflection 0"
        assert page.url == address
        page.goto("about:blank")
        server.shutdown()


def test_evidence_and_answer_light_one_another(page: Page, written: Path) -> None:
    page.goto(written.as_uri())
    lit = "[...document.querySelectorAll('.lit:is(.sentence, .stated)')].map((one) => one.id)"
    page.locator("#a-1").focus()
    assert page.evaluate(lit) == ["s-1"]
    page.locator("#s-0 summary").focus()
    assert page.evaluate(lit) == ["a-0"]


def test_the_question_mark_shows_the_keys_and_the_page_fits_a_phone(page: Page, written: Path) -> None:
    page.goto(written.as_uri())
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
