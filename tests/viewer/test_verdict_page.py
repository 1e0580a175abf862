"""The page of a health question: its evidence, its verdict, and text that tries to be more than text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lxml.html

import runs
from nodes.reading.verdict_votes import count_readings, measure_disagreement
from tests.nodes.literature_builders import read_as
from tests.viewer.case_runs import line, step, write_run
from tests.viewer.test_case_page import Page, check_nothing_acts, page_of, words
from viewer.addresses import ServedAddresses
from viewer.bundle import write_bundle
from viewer.case_parts.verdict import read_verdict
from viewer.opened_run import OpenedRun
from viewer.pages.runs import listed, run_page

EVIL = "</blockquote><script>evil()</script><img src=x onerror=evil()> {{ 7 * 7 }} [2]"
PASSAGES = [
    *read_as("S", id="1", text="Mint tea quagga helps.", year=1998, citations=41, source="Old Journal"),
    *read_as("R", id="2", text=EVIL, title=EVIL, source=EVIL, document='" class="odd', strength="other"),
    *read_as("-", id="3", text="Third.", sentences=[0, 4]),
]
CASE = {"case_id": "c", "question": "Does quagga help?", "verdict": "no", "as_of": 2005}


def verdict_line(**fields: Any) -> dict[str, Any]:
    made = {
        "verdict": "yes",
        "reading_counts": count_readings(PASSAGES),
        "evidence_passages": PASSAGES,
        "disagreement": measure_disagreement(PASSAGES),
        "explanation": f"It quagga helps [1, 2]. {EVIL} See [9].",
    }
    return line("c") | made | fields


def page(folder: Path, **fields: Any) -> Page:
    return page_of(
        write_run(folder, CASE, verdict_line(**fields), [step("aggregate_verdict")], system="timeaware")
    )


def test_the_page_shows_verdict_evidence_year_and_source(tmp_path: Path) -> None:
    shown = page(tmp_path)
    answer = words(shown.find(".//section[@class='answers']"))
    assert "yes, by a tie 1 speak for yes and 1 speak for no" in answer
    assert "key: no ✗ wrong" in answer
    assert "1 speak for yes 0 are neutral 1 speak for no 1 could not be read" in answer
    first = words(shown.get_element_by_id("passage-1"))
    assert "✓ speaks for yes Mint tea quagga helps. Old Journal, 1998, cited 41 times; document d1" in first
    assert "sentence 1, 5 of the abstract" in words(shown.get_element_by_id("passage-3"))


def test_texts_of_documents_and_models_stay_text(tmp_path: Path) -> None:
    shown = page(tmp_path)
    check_nothing_acts(shown)
    assert EVIL in words(shown.get_element_by_id("passage-2"))


def test_citations_lead_to_their_passages_and_unknown_ones_nowhere(tmp_path: Path) -> None:
    (explanation,) = page(tmp_path).find_class("explanation")
    assert [one.get("href") for one in explanation.iter("a")] == [
        *("#passage-1", "#passage-2", "#passage-2"),
    ]
    assert words(explanation).endswith("See [9].")


def test_without_evidence_the_page_says_so(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"evidence_passages": [], "explanation": None}
    counted = {"reading_counts": count_readings([]), "disagreement": measure_disagreement([])}
    shown = page(tmp_path, **nothing, **counted)
    assert "There was nothing to read" in words(shown.get_element_by_id("passages-title").getparent())


def test_a_run_without_verdicts_has_none() -> None:
    assert read_verdict(line("c"), None) is None


def test_a_redacted_bundle_has_readings_and_no_text(tmp_path: Path) -> None:
    run = write_run(tmp_path, CASE, verdict_line(), [step("aggregate_verdict")], system="timeaware")
    write_bundle({"run": run}, tmp_path / "pages", redact=True)
    pages = "".join(path.read_text() for path in (tmp_path / "pages" / "run").rglob("*.html"))
    assert "quagga" not in pages and "evil" not in pages
    assert "speaks for yes" in pages and "1998" in pages
    assert runs.open(run).line("c")["evidence_passages"][0]["text"]


def test_a_run_of_verdicts_is_listed_with_its_accuracy_and_results(tmp_path: Path) -> None:
    opened = OpenedRun(
        write_run(tmp_path, CASE, verdict_line(), [step("aggregate_verdict")], system="timeaware"), print
    )
    row = listed("run", opened.path, *opened.totals())
    assert (row.score, row.score_name, row.scored) == (0.0, "accuracy of verdicts", 1)
    ended = opened.ended()
    assert [(one.outcome, one.wrong) for one in ended.summaries] == [("yes", 1)]
    page = run_page("run", opened.path, ended, opened.totals()[1], ServedAddresses())
    shown = words(lxml.html.fromstring(page))
    assert "Accuracy of verdicts0.0, 1 case" in shown and "Results" in shown
    opened.release()


def test_a_run_of_failed_cases_is_no_success(tmp_path: Path) -> None:
    failed = line("c", status="failed", error={"class": "timeout", "message": "late"})
    opened = OpenedRun(write_run(tmp_path, CASE, failed, system="timeaware"), print)
    manifest, totals = opened.totals()
    manifest.status = "finished"
    assert listed("run", opened.path, manifest, totals).state == "all failed"
    opened.release()
