"""`evigraph show RUN --html`: one file, without texts unless asked for, that needs nothing else."""

from __future__ import annotations

import json
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Dialog

from runs.record.audit import read_audit
from storage.errors import InputError
from tests.evigraph import edit_manifest, evigraph, said
from tests.viewer.browsing import needs_browser
from tests.viewer.case_runs import voted_run
from tests.viewer.test_bundle import TEXTS
from tests.viewer.test_case_page import hostile_run, parsed
from tests.viewer.written_run import add, ended, failed, finish, new_run
from viewer.one_page import write_one_page

SAMPLES = Path(str(resources.files("cases").joinpath("samples")))
OF_THE_CASE = [text for text in TEXTS if not text.startswith(("reply", "reflection", "Which"))]


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """Of three cases `good` is right, `poor` is not, and one has failed."""
    with new_run(tmp_path / "scored", ["good", "lost", "poor"]) as run:
        add(
            run,
            ended("good", labels={"1": "essential", "2": "essential"} | dict.fromkeys("34", "not-essential")),
        )
        add(run, failed("lost", "timeout"))
        add(run, ended("poor"))
        finish(run)
    return run.path


def written(run: Path, texts: bool = False, most: int = 50) -> str:
    file = run.parent / f"page-{texts}-{most}.html"
    write_one_page(run, file, texts=texts, most=most)
    return file.read_text("utf-8")


def cases(page: str) -> list[str]:
    found = parsed(page).xpath("//details[@class='case']/summary")
    return [" ".join(one.text_content().split()) for one in found]


def test_a_page_has_scores_with_intervals_prompts_models_and_the_worst_case_first(scored: Path) -> None:
    page = written(scored)
    assert [one.split()[0] for one in cases(page)] == ["poor", "good", "lost"]
    assert "poor 50.00 done 2 of 4 sentences essential 2 wrong" in cases(page)
    read = parsed(page)
    rows = [[" ".join(cell.itertext()) for cell in row] for row in read.xpath("//section//tr")]
    assert ["strict micro F1", "75.00", "[50.00, 100.00]"] in rows
    text = read.text_content()
    assert "Scores: 2026, subtask 2: evidence" in text and "Failed: 1 timeout" in text
    assert "scripted:auto" in text and "answer abc123" in text
    assert str(scored.parent) not in page


def test_the_worst_cases_alone_are_shown_on_request(scored: Path) -> None:
    page = written(scored, most=1)
    assert len(cases(page)) == 1 and "2 more are not shown" in page


def test_texts_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    run = voted_run(tmp_path)
    without, whole = written(run), written(run, texts=True)
    assert [text for text in TEXTS if text in without] == []
    assert [text for text in OF_THE_CASE if text not in whole] == []
    assert "2/2" in without and "key: essential" in without
    assert [line.fields["texts"] for line in read_audit(run) if line.fields and "texts" in line.fields] == [
        False,
        True,
    ]


def test_every_link_leads_to_a_place_on_the_page(tmp_path: Path) -> None:
    run = voted_run(tmp_path)
    for texts in (False, True):
        page = parsed(written(run, texts))
        ids = page.xpath("//@id")
        assert len(ids) == len(set(ids))
        sheets, others = page.xpath("//link/@href"), page.xpath("//a/@href | //@src | //@action")
        assert sheets and all(one.startswith("data:text/css;") for one in sheets)
        assert {*others} <= {f"#{id_}" for id_ in ids}
        assert page.xpath("//script | //form | //iframe | //img") == []


def test_a_prompt_of_the_user_counts_as_text(scored: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    said("prompts", "copy", "answer_exactly", "--to", folder)
    file = folder / "answer_exactly.yaml"
    file.write_text(file.read_text().replace("system:", "# SECRET HINT\nsystem:", 1) + "# SECRET HINT\n")
    hashes = {"answer_exactly": sha256(file.read_bytes()).hexdigest()}
    edit_manifest(scored, recipe={"prompts": str(folder)}, prompts=hashes)
    assert "SECRET HINT" not in written(scored)
    assert "SECRET HINT" in written(scored, texts=True)
    file.write_text(file.read_text() + "# changed since\n")
    assert "SECRET HINT" not in written(scored, texts=True, most=2)


@pytest.mark.parametrize("texts", [False, True])
def test_a_case_whose_answer_was_not_supported_is_shown(tmp_path: Path, texts: bool) -> None:
    arguments = (
        "direct",
        SAMPLES / "batch.xml",
        "--limit",
        "1",
        "--set",
        "verification=rules",
        "--out",
        "run",
    )
    assert evigraph("run", *arguments, "--model", "scripted:auto", folder=tmp_path).code == 0
    page = parsed(written(tmp_path / "run", texts)).text_content()
    assert cases(written(tmp_path / "run", texts, most=1))
    assert ("sentence 1: not stated; no word of it is in the record" in page) is texts


def test_nothing_is_overwritten(scored: Path) -> None:
    (scored.parent / "mine.html").write_text("mine")
    with pytest.raises(InputError, match=r"is there already\. Choose another --html"):
        write_one_page(scored, scored.parent / "mine.html")
    assert (scored.parent / "mine.html").read_text() == "mine"
    assert "is there already" in said("show", scored, "--html", scored.parent / "mine.html")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--texts",), "--texts needs --html FILE"),
        (("poor", "--html", "a.html"), "leave out CASE"),
        (("--failed", "--html", "a.html"), "leave out --failed"),
    ],
)
def test_options_that_say_nothing_together_are_refused(
    scored: Path, options: tuple[str, ...], words: str
) -> None:
    refused = evigraph("show", scored, *options, folder=scored.parent)
    assert refused.code == 2 and words in refused.err
    assert not (scored.parent / "a.html").exists()


def test_the_command_says_what_it_wrote(scored: Path) -> None:
    made = evigraph("show", scored, "--html", "a.html", "--rows", "2", "--json", folder=scored.parent)
    assert json.loads(made.out) == {"html": "a.html", "cases": 2, "left_out": 1, "texts": False}
    printed = evigraph("show", scored, "--html", "b.html", "--texts", folder=scored.parent).out
    assert printed.startswith("page  b.html\n3 cases, ") and "treat it like the cases themselves" in printed


def test_a_run_whose_key_is_gone_has_a_page_without_scores(scored: Path) -> None:
    (scored.parent / "scored.jsonl").unlink()
    page = written(scored)
    assert "No scores: " in page and [one.split()[0] for one in cases(page)] == ["good", "lost", "poor"]


@needs_browser
@pytest.mark.parametrize(
    ("width", "scheme", "essential"),
    [(1280, "light", "rgb(227, 241, 250)"), (390, "dark", "rgb(22, 48, 63)")],
)
def test_a_page_opens_offline_with_its_looks_and_does_nothing(
    tmp_path: Path, browser: Browser, width: int, scheme: Literal["light", "dark"], essential: str
) -> None:
    file = tmp_path / "page.html"
    write_one_page(hostile_run(tmp_path), file, texts=True)
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    wrong: list[str] = []
    asked: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        wrong.append("a dialog")
        dialog.dismiss()

    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", dismiss)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    colour = "one => getComputedStyle(one).backgroundColor"
    assert page.locator(".sentence.essential").first.evaluate(colour) == essential
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".answer a.support").first.click()
    assert page.evaluate("document.querySelector(':target').className").startswith("sentence essential")
    assert [one for one in asked if not one.startswith(("data:text/css", "file:"))] == []
    assert wrong == []
    context.close()
