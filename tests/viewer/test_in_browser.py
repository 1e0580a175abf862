"""Pages as a reader has them: a real browser, a real server, real files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from runs.record.folder import RunWriter
from tests.viewer.browsing import needs_browser, served
from tests.viewer.written_run import add, ended, failed, finish
from viewer.bundle import write_bundle

pytestmark = needs_browser
READY = "#cases[data-ready]"


@pytest.fixture(scope="module")
def link(folder: Path) -> Iterator[str]:
    with served(folder) as link:
        yield link


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which nothing may go wrong: no error, no breach of the policy, no dialog."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))

    def dismiss(dialog: Dialog) -> None:
        wrong.append("a dialog")
        dialog.dismiss()

    page.on("dialog", dismiss)
    yield page
    context.close()
    assert wrong == []


def open_run(page: Page, link: str, run: str, state: str = "") -> None:
    page.goto(link)
    page.goto(link.partition("?")[0] + f"runs/{run}{state}")
    page.wait_for_selector(READY)


def ids(page: Page) -> list[str]:
    return page.locator("#cases tbody th").all_inner_texts()


def test_the_list_leads_to_a_run_and_sorts(page: Page, link: str) -> None:
    page.goto(link)
    assert "token" not in page.url
    page.get_by_role("button", name="Cases").click()
    first = page.locator("table.runs tbody tr").first
    page.get_by_role("button", name="Cases").click()
    expect(first).to_contain_text("plain")
    first.locator("a").click()
    expect(page.locator("h1")).to_have_text("plain")


def test_search_and_filters_narrow_the_table(page: Page, link: str) -> None:
    open_run(page, link, "plain")
    expect(page.locator("#found")).to_have_text("250 cases")
    page.keyboard.press("/")
    page.keyboard.type("timeout")
    expect(page.locator("#found")).to_have_text("10 of 250 cases")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#found")).to_have_text("250 cases")
    for field, value, count in (("through", "generate_answer", 240), ("past", "generate_answer", 10)):
        page.locator(f"[name={field}]").select_option(value)
        expect(page.locator("#found")).to_have_text(f"{count} of 250 cases")
        page.locator(f"[name={field}]").select_option("")
    page.locator("[name=wrong]").fill("2")
    page.locator("[name=divided]").fill("3")
    expect(page.locator("#found")).to_have_text("0 of 250 cases")


def test_columns_sort_and_pages_turn(page: Page, link: str) -> None:
    open_run(page, link, "plain")
    page.locator("[data-sort=seconds]").click()
    assert ids(page)[:2] == ["c249", "c248"]
    page.locator("[data-sort=seconds]").click()
    page.locator("[data-sort=position]").click()
    page.get_by_role("button", name="Next").click()
    assert ids(page)[0] == "c100"
    assert len(ids(page)) == 100


def test_keys_move_open_and_back_returns_to_the_same_place(page: Page, link: str) -> None:
    open_run(page, link, "plain", "#intent=treatment_plan&sort=-seconds")
    page.keyboard.press("n")
    for key in ("j", "ArrowDown", "j", "k"):
        page.keyboard.press(key)
    chosen = page.locator("#cases tr:focus-within th").inner_text()
    assert chosen == ids(page)[1]
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/runs/plain/case\?id={chosen}"))
    page.go_back()
    page.wait_for_selector(READY)
    expect(page.locator("#cases tr:focus-within th")).to_have_text(chosen)
    expect(page.locator("#page")).to_have_text("page 2 of 3")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_hostile_text_is_shown_and_does_nothing(page: Page, link: str) -> None:
    open_run(page, link, "hostile")
    page.locator("[name=route]").select_option(index=1)
    page.locator("[name=route]").select_option("")
    assert "<b>bold</b>" in ids(page)
    hrefs = page.locator("#cases tbody a").evaluate_all("(links) => links.map((link) => link.href)")
    root = link.partition("?")[0]
    assert all(href.startswith(f"{root}runs/hostile/case?id=") for href in hrefs)
    assert page.locator("#cases b, #cases img, #cases script, #cases svg").count() == 0
    page.locator("#cases tbody tr").filter(has_text="a b/c").locator("a").click()
    assert page.url == f"{root}runs/hostile/case?id=a%20b%2Fc%3Fd%23e%252e"


def test_bars_are_as_long_as_their_numbers(page: Page, link: str) -> None:
    open_run(page, link, "plain")
    rows = page.locator("[data-bars=intents] tr")
    assert rows.last.inner_text().split() == ["none", "10"]
    bars = rows.locator("progress").evaluate_all("(all) => all.map((bar) => bar.position)")
    assert bars == pytest.approx([1, 10 / 240])


def test_a_run_that_goes_on_grows_on_the_page_and_then_rests(page: Page, going: RunWriter) -> None:
    page.clock.install()
    with served(going.path) as link:
        open_run(page, link, "going")
        page.locator("#cases tbody a").nth(1).focus()
        focused = page.locator("#cases tr:focus-within")
        place = focused.bounding_box()
        for number in range(2, 9):
            add(going, ended(f"k{number}"))
        add(going, failed("k9", "refusal"))
        finish(going)
        expect(page.locator("[data-live=cases]")).to_have_text("9 done, 1 failed, of 10")
        expect(page.locator("#found")).to_have_text("10 cases")
        expect(page.locator("[data-live=status]")).to_have_text("finished")
        expect(page.locator("[data-bars=votes] tr").first).to_contain_text("9")
        expect(focused).to_contain_text("k1")
        assert focused.bounding_box() == place
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "since" in request.url else None)
        page.clock.run_for(60_000)
        assert asked == []


def test_two_ticked_runs_stand_side_by_side(page: Page, link: str) -> None:
    page.goto(link)
    page.get_by_label("Compare plain").check()
    page.get_by_label("Compare again").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("h1")).to_have_text("3 of 3 cases differ")
    # The run that was ticked first is A, whatever its place in the list.
    expect(page.locator("main")).to_contain_text("A is plain, B is again.")
    expect(page.locator("main")).to_contain_text("A and B differ in the model (")
    page.get_by_role("link", name="Swap A and B").click()
    expect(page.locator("main")).to_contain_text("A is again, B is plain.")
    page.go_back()
    page.get_by_role("link", name="answer (1)").click()
    page.get_by_role("link", name="c001").click()
    expect(page.locator("mark", has_text="Because of the <b>drain</b>.")).to_be_visible()


def test_three_ticked_runs_are_a_matrix(page: Page, link: str) -> None:
    page.goto(link)
    for name in ("again", "hostile", "plain"):
        page.get_by_label(f"Compare {name}").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("h1")).to_have_text("3 runs, 255 cases")
    expect(page.locator("tbody tr", has_text="c002").locator("td")).to_have_count(3)
    page.get_by_role("link", name="A and C").click()
    expect(page.locator("main")).to_contain_text("A is again, B is plain.")


def test_a_bundle_opens_from_disk(page: Page, folder: Path, tmp_path: Path) -> None:
    write_bundle({"plain": folder / "plain"}, tmp_path / "pages", with_calls=False)
    page.goto((tmp_path / "pages" / "index.html").as_uri())
    page.get_by_role("link", name="plain").click()
    page.wait_for_selector(READY)
    page.locator("[name=error]").select_option("timeout")
    expect(page.locator("#found")).to_have_text("10 of 250 cases")
    page.locator("#cases tbody a").first.click()
    expect(page.locator("h1")).to_have_text("Case c007")


def test_without_scripts_the_first_cases_are_there(browser: Browser, link: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(link)
    page.get_by_role("link", name="plain", exact=True).click()
    assert len(ids(page)) == 100
    assert "first 100 of 250" in page.locator("noscript").inner_text()
    context.close()


def test_nothing_moves_while_a_page_is_made(page: Page, link: str) -> None:
    open_run(page, link, "plain")
    moved = page.evaluate(
        """() => new Promise((resolve) => new PerformanceObserver((list) =>
             resolve(list.getEntries().reduce((sum, entry) => sum + entry.value, 0))
           ).observe({ type: "layout-shift", buffered: true }) || setTimeout(() => resolve(0), 200))"""
    )
    assert moved < 0.01


def test_the_charts_keep_their_places_while_the_page_is_still_read(page: Page, link: str) -> None:
    open_run(page, link, "plain")
    first = page.locator(".charts figure").first
    place = first.bounding_box()
    page.locator(".charts figure").evaluate_all("(all) => all.slice(1).forEach((figure) => figure.remove())")
    assert first.bounding_box() == place


def test_a_phone_scrolls_the_table_and_not_the_page(browser: Browser, link: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    for run in ("", "plain"):
        page.goto(link)
        if run:
            page.goto(link.partition("?")[0] + f"runs/{run}")
            page.wait_for_selector(READY)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_a_comparison_fits_every_screen(browser: Browser, link: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844})
    page = context.new_page()
    page.goto(link)
    root = link.partition("?")[0]
    for path in ("compare?run=plain&run=again", "compare/case?run=plain&run=again&id=c002"):
        page.goto(root + path)
        boxes = page.locator("html, .scroll")
        wide = boxes.evaluate_all("(all) => all.map((one) => one.scrollWidth - one.clientWidth)")
        assert len(wide) > 1 and max(wide) <= 0
    context.close()


def test_a_comparison_on_a_phone_says_what_each_cell_is(browser: Browser, link: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(link)
    page.goto(link.partition("?")[0] + "compare?run=plain&run=again")
    row = page.locator(".stacked tbody tr").filter(has_text="c002")
    labels = """(row) => [...row.cells].filter((one) => one.checkVisibility()).map((one) =>
        (one.dataset.label ? getComputedStyle(one, "::before").content : "") + one.textContent)"""
    assert row.evaluate(labels)[:3] == ["c002", "done", '"essential in B alone "2']
    box = row.bounding_box()
    assert box is not None and box["height"] < 100
    context.close()
