"""The page of a question of BioASQ: snippets, votes and keys, and text that tries to be more than text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cases.records import Gold
from tests.nodes.biomedical_builders import asking
from tests.viewer.case_runs import line, step, write_run
from tests.viewer.test_case_page import Page, check_nothing_acts, page_of, words
from viewer.bundle import write_bundle
from viewer.case_parts.question import read_question

EVIL = "</blockquote><script>evil()</script><img src=x onerror=evil()> {{ 7 * 7 }}"


def snippet(document: str, text: str, begin: int | None = 0) -> dict[str, Any]:
    end = None if begin is None else begin + len(text)
    return {"document": document, "section": "abstract", "begin": begin, "end": end, "text": text}


SNIPPETS = [snippet("11", "Quagga one."), snippet('" class="odd', EVIL, None), snippet("11", "Quagga two.")]
VOTES = [
    {"sample": 0, "answer": [["quagga"], [EVIL]]},
    {"sample": 1, "answer": None},
    {"sample": 2, "answer": [["zebra"], ["quagga"]]},
]
ENTRIES = [
    {"entry": "quagga", "votes": 2, "score": 1.5},
    {"entry": "zebra", "votes": 1, "score": 1.0},
    {"entry": EVIL, "votes": 1, "score": 0.5},
]
STEPS = [
    step("answer_exactly", {"exact_votes": VOTES, "failed_votes": {"1": "timeout: late"}}),
    step("aggregate_exact_answers", {"question_type": "factoid", "usable_votes": 2, "entries": ENTRIES}),
]
RANKING = [{"id": "11", "rank": 1, "score": 0.75}, {"id": "12", "rank": 2, "score": None}]


def question_line(**fields: Any) -> dict[str, Any]:
    made = {"snippets": SNIPPETS, "exact_answer": [["quagga"], ["zebra"], [EVIL]], "answer": f"Yes. {EVIL}"}
    return line("c") | made | fields


def page(folder: Path, **fields: Any) -> Page:
    case = {"case_id": "c", "question": "Which quagga?"}
    return page_of(write_run(folder, case, question_line(**fields), STEPS, system="bioasq"))


def test_the_page_shows_snippets_by_document_and_votes(tmp_path: Path) -> None:
    shown = page(tmp_path)
    evidence = words(shown.get_element_by_id("snippets-title").getparent())
    assert "3 from 2 documents" in evidence
    assert "document 11 Quagga one. abstract, 0 to 11 Quagga two. abstract, 0 to 11" in evidence
    said = words(shown.find(".//section[@class='answers']"))
    assert "quagga 2 of 2 votes, score 1.5" in said
    assert "vote 1: missing timeout: late" in said
    assert "vote 2: zebra; quagga" in said
    assert "The run's answer" in said


def test_texts_of_documents_and_models_stay_text(tmp_path: Path) -> None:
    shown = page(tmp_path)
    check_nothing_acts(shown)
    assert words(shown).count(EVIL) >= 4


def test_a_case_without_snippets_says_so(tmp_path: Path) -> None:
    shown = page(tmp_path, snippets=[], exact_answer=None, answer=None)
    assert "This question has no snippets" in words(shown.get_element_by_id("snippets-title").getparent())


def test_a_redacted_bundle_has_no_text_of_snippets_and_answers(tmp_path: Path) -> None:
    case = {"case_id": "c", "question": "Which quagga?"}
    run = write_run(tmp_path, case, question_line(), STEPS, system="bioasq")
    write_bundle({"run": run}, tmp_path / "pages", redact=True)
    pages = "".join(path.read_text() for path in (tmp_path / "pages" / "run").rglob("*.html"))
    assert "quagga" not in pages.lower() and "evil" not in pages and "zebra" not in pages
    assert "document" in pages and "Its text is left out." in pages


def test_entries_are_held_against_the_key_but_for_case() -> None:
    gold = Gold(exact_answer=(("QUAGGA", "quag"), ("okapi",)), ideal_answers=("It is.",))
    case = asking("c", "factoid", gold=gold, documents=("11", "13"))
    shown = read_question(question_line(document_ranking=RANKING), case, STEPS)
    assert shown is not None
    assert [one.right for one in shown.entries] == [True, False, False]
    assert shown.key == ["QUAGGA = quag", "okapi"]
    assert shown.ideal_answers == ("It is.",)
    assert [(one.id, one.relevant) for one in shown.ranking] == [("11", True), ("12", False)]
    assert shown.missed == 1
    assert shown.type == "factoid"


def test_yes_or_no_comes_with_its_votes() -> None:
    counted = step(
        "aggregate_exact_answers",
        {"question_type": "yesno", "usable_votes": 3, "yes_votes": 1, "no_votes": 2},
    )
    case = asking("c", gold=Gold(exact_answer="yes"))
    shown = read_question(line("c") | {"snippets": [], "exact_answer": "no"}, case, [counted])
    assert shown is not None
    assert [(one.text, one.counted, one.right) for one in shown.entries] == [("no", "2 of 3 votes", False)]


def test_a_case_of_another_system_is_no_question() -> None:
    assert read_question(line("c"), None, []) is None
