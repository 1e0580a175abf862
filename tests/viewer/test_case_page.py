from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import lxml.html
import pytest

import runs
from cases.records import Case, Phrase
from runs import RunError
from runs.record.folder import CALLS
from tests.viewer.case_runs import FileAddresses, call, line, step, voted_run, weighed_run, write_run
from tests.viewer.written_run import ended, new_run
from viewer.pages.case import _adopted, call_page, case_page

Page = Any
"""An element of lxml.html, which has no types."""

HOSTILE = (
    "</script><script>alert(1)</script><svg onload=alert(1)><img src=x onerror=alert(1)>"
    " [link](javascript:alert(1)) {{ 7 * 7 }} \u202eevil\u202c \" ' onfocus=alert(1) </title></style>"
)
OWN_TAGS = {
    *("html", "head", "meta", "title", "link", "script", "body", "header", "nav", "main", "section"),
    *("h1", "h2", "h3", "p", "a", "ul", "ol", "li", "dl", "dt", "dd", "details", "summary", "span", "div"),
    *("table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "path", "g", "text", "dialog", "form"),
    *("button", "strong", "mark", "code", "kbd", "pre", "blockquote", "cite"),
}


@pytest.fixture(scope="module")
def voted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[runs.Run]:
    with runs.open(voted_run(tmp_path_factory.mktemp("voted"))) as run:
        yield run


def parsed(html: str) -> Page:
    return lxml.html.document_fromstring(html)


def page_of(run: Path) -> Page:
    with runs.open(run) as opened:
        return parsed(case_page(opened, "run", "c", FileAddresses()))


def words(element: Page) -> str:
    return " ".join(element.text_content().split())


def check_nothing_acts(page: Page) -> None:
    """No element, handler, style or address that the templates do not have."""
    assert {element.tag for element in page.iter() if isinstance(element.tag, str)} <= OWN_TAGS
    assert [script.get("src") for script in page.iter("script")] in ([], ["case.js"])
    for element in page.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on") and name != "style", name
            if name in ("href", "src"):
                file = value.partition("#")[0]
                assert not file or file.partition(".")[2] in ("html", "css", "js"), value
            if name in ("id", "class", "d", "data-evidence"):
                assert "evil" not in value


def test_a_sentence_says_which_votes_named_it_before_and_after_reflection(voted: runs.Run) -> None:
    page = parsed(case_page(voted, "run", "c", FileAddresses()))
    why = page.get_element_by_id("s-1").find(".//div[@class='why']")
    assert "1 of 2 votes, needs 2: not essential. Named by vote 0." in words(why)
    rows = [[words(cell) for cell in row] for row in why.findall(".//tbody/tr")]
    assert rows == [
        ["vote 0", "not essential", "essential (added)", "first reply reflection"],
        ["vote 1", "not essential", "not essential", "first reply reflection"],
    ]
    assert "sentence 2 of the run's answer" in words(why)
    assert "Key: essential, the label is wrong (strict)." in words(why)


def test_every_vote_leads_to_its_own_call(voted: runs.Run) -> None:
    page = parsed(case_page(voted, "run", "c", FileAddresses()))
    steps = voted.trace("c")
    keys = [steps[0]["calls"][0]["key"], steps[1]["calls"][0]["key"]]
    links = page.get_element_by_id("s-0").xpath(".//tbody/tr[1]//a/@href")
    assert links == [FileAddresses().call("run", "c", key) for key in keys]


def test_no_prompt_stands_in_the_page_of_a_case(voted: runs.Run) -> None:
    html = case_page(voted, "run", "c", FileAddresses())
    assert "Which are essential?" not in html and "reflection 0" not in html


def test_a_call_shows_prompt_and_reply_with_their_roles(voted: runs.Run) -> None:
    key = voted.trace("c")[1]["calls"][0]["key"]
    page = parsed(call_page(voted, "run", "c", key, FileAddresses()))
    messages = [words(one) for one in page.find_class("message")]
    assert messages == ["user Sure?", "reply reflection 0"]


def test_a_call_of_another_case_is_not_shown(voted: runs.Run) -> None:
    with pytest.raises(RunError, match="no call"):
        call_page(voted, "run", "c", "0" * 64, FileAddresses())


def test_an_unknown_case_is_an_error(voted: runs.Run) -> None:
    with pytest.raises(RunError, match="no case"):
        case_page(voted, "run", "zzz", FileAddresses())


def test_headings_skip_no_level_and_ids_are_unique(voted: runs.Run) -> None:
    page = parsed(case_page(voted, "run", "c", FileAddresses()))
    levels = [int(one.tag[1]) for one in page.iter("h1", "h2", "h3")]
    assert levels[0] == 1 and all(after - before <= 1 for before, after in pairwise(levels))
    ids = page.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert set(page.xpath("//a/@href[starts-with(., '#')]")) <= {f"#{id_}" for id_ in ids}


def hostile_run(folder: Path) -> Path:
    journal = folder / CALLS
    asked = call(journal, "label", 0, HOSTILE, HOSTILE) | {
        "model": HOSTILE,
        "fault": HOSTILE,
        "server": HOSTILE,
    }
    id_ = "<b>1</b>"
    facts = {HOSTILE: {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}, "votes": [{"vote": 0, "essential": [id_]}]}
    shown = [{"case_id": HOSTILE, "distance": 0.5, "intent": HOSTILE, "tier": HOSTILE, "source": HOSTILE}]
    steps = [
        step("label_evidence", facts, because=HOSTILE, calls=[asked], flags=[HOSTILE], next=[HOSTILE]),
        step("retrieve_answer_demonstrations", {"chosen": shown}, reads={HOSTILE: [0]}, writes=[HOSTILE]),
        step("generate_answer", calls=[asked]),
        step(
            "check_answer",
            {"verdict": "sent_back", "faults": [HOSTILE]},
            reads={"draft_answer": [2]},
            error=HOSTILE,
        ),
        step(HOSTILE),
    ]
    case = {
        "case_id": "c",
        "narrative": HOSTILE,
        "question": HOSTILE,
        "sentences": [{"id": id_, "text": HOSTILE}, {"id": "2", "text": "<script>" + "x" * 1_000_000}],
        "labels": {id_: "essential", "2": "not-relevant"},
        "answer": HOSTILE,
    }
    ended = line(
        "c",
        status="failed",
        error={"class": HOSTILE, "message": HOSTILE},
        labels={id_: "essential", "2": "not-essential"},
        flags=[HOSTILE],
        intent={"primary": HOSTILE, "secondary": HOSTILE, "risk_level": HOSTILE},
        interpreted_question=HOSTILE,
        vote_counts={id_: 1, "2": 0},
        usable_votes=1,
        evidence={HOSTILE: [id_]},
        answer=HOSTILE,
        answer_evidence=[id_, HOSTILE],
        aligned_answer="generated",
        answer_sentences=[{"id": HOSTILE, "text": HOSTILE}],
        alignment={HOSTILE: [id_, HOSTILE]},
    )
    run = write_run(folder, case, ended, steps)
    journal.rename(run / CALLS)
    return run


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    with runs.open(hostile_run(tmp_path)) as run:
        html = case_page(run, HOSTILE, "c", FileAddresses())
        key = run.trace("c")[0]["calls"][0]["key"]
        called = call_page(run, HOSTILE, "c", key, FileAddresses())
    for page in (html, called):
        assert "\u202e" not in page
        check_nothing_acts(parsed(page))
        assert "[link](javascript:alert(1)) {{ 7 * 7 }}" in words(parsed(page))


BARE: dict[str, Any] = {"case_id": "c", "narrative": "Why?", "sentences": ["He fell."]}


def failed(error: str = "timeout") -> dict[str, Any]:
    return line("c", status="failed", error={"class": error, "message": "too late"})


def test_a_case_that_failed_in_a_node_says_where_and_why(tmp_path: Path) -> None:
    broken = step("label_evidence", because="failed: timeout: too late", error="NodeFailure: too late")
    page = page_of(write_run(tmp_path, BARE, failed(), [broken]))
    assert "failed: timeout too late" in words(page)
    assert page.find_class("box failed") or page.find_class("box lit failed")
    assert "The sentences were not labelled." in words(page)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (BARE | {"sentences": []}, "The note has no sentences."),
        (BARE | {"question": ""}, "clinician none"),
        (BARE | {"narrative": ""}, "no message"),
    ],
)
def test_what_a_case_lacks_is_said(tmp_path: Path, case: dict[str, Any], said: str) -> None:
    page = page_of(write_run(tmp_path, case, failed()))
    assert said in words(page)
    assert "The run has no trace of this case: it failed before the first node." in words(page)


def test_a_case_that_is_in_neither_trace_nor_case_file_has_a_page(tmp_path: Path) -> None:
    with new_run(tmp_path / "run", ["x"]) as run:
        run.append(ended("c", labels={"1": "essential"}), [])
    page = words(page_of(run.path))
    assert "The run has no trace of this case" in page
    assert "no readable case file has this id" in page


def test_what_is_asked_in_place_of_a_missing_question_is_shown(tmp_path: Path) -> None:
    case = Case("c", "It hurt,\n why?", "", (), (Phrase("1", "It\n hurt", 0), Phrase("2", "why", 10)))
    steps = [step("interpret"), step("adopt", {"found_in": "focus phrases"}, because="none was given")]
    assert _adopted(steps, case) == "It hurt why"
    assert _adopted(steps, None) == "none was given"
    assert _adopted(steps[:1], case) is None
    (tmp_path / "cases.jsonl").touch()
    page = page_of(
        write_run(tmp_path, BARE, line("c"), [step("adopt", {"found_in": "words"}, because="none")])
    )
    assert "adopted none" in words(page)


def test_missing_texts_leave_labels_and_one_clear_line(tmp_path: Path) -> None:
    run = write_run(tmp_path, BARE, line("c", labels={"1": "essential"}))
    (tmp_path / "cases.jsonl").unlink()
    page = page_of(run)
    assert sum("Texts are not shown" in words(one) for one in page.find_class("caution")) == 1
    assert "text missing" in words(page.get_element_by_id("s-0"))


def test_a_run_without_a_graph_lists_its_route(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path, BARE, line("c"), [step("label_evidence")], graph=None))
    assert "recorded no graph" in words(page)
    assert page.xpath("//details[@open]//a[@href='#step-0']")


def test_a_missing_journal_is_said_on_the_page_of_the_call(tmp_path: Path) -> None:
    asked = call(tmp_path / "elsewhere", "label", 0, "p", "r")
    ended = write_run(tmp_path, BARE, line("c"), [step("label_evidence", calls=[asked])])
    with runs.open(ended) as run:
        page = parsed(call_page(run, "run", "c", asked["key"], FileAddresses()))
    assert "The call journal cannot be read" in words(page)


def test_a_rejected_draft_is_shown_with_its_faults(tmp_path: Path) -> None:
    asked = call(tmp_path / CALLS, "answer", 0, "Write.", "Far too long.")
    facts = {"verdict": "sent_back", "faults": ["it is too long"]}
    sent_back = step("check_answer", facts, reads={"draft_answer": [0]})
    run = write_run(tmp_path, BARE, line("c"), [step("generate_answer", calls=[asked]), sent_back])
    (tmp_path / CALLS).rename(run / CALLS)
    (drafts,) = page_of(run).find_class("drafts")
    assert "it is too long" in words(drafts) and "Far too long." in words(drafts)


def test_two_thousand_sentences_with_five_votes_are_all_told(tmp_path: Path) -> None:
    ids = [str(number) for number in range(2000)]
    case = BARE | {"sentences": [{"id": id_, "text": f"Sentence {id_}."} for id_ in ids]}
    votes = [{"vote": vote, "essential": ids[vote::3]} for vote in range(5)]
    run = write_run(tmp_path, case, line("c"), [step("label_evidence", {"votes": votes})])
    note = page_of(run).find_class("sentence")
    assert [len(one.findall(".//tbody/tr")) for one in note] == [5] * 2000


def test_a_sentence_that_was_asked_for_by_itself_shows_its_probability_and_its_own_call(
    tmp_path: Path,
) -> None:
    page = page_of(weighed_run(tmp_path))
    first, second, third = (page.get_element_by_id(f"s-{index}") for index in range(3))
    assert [bar.get("width") for bar in first.find_class("likely")] == ["59.1"]
    assert "P(essential) 0.92" in words(first) and "log-odds of Yes against No +2.50" in words(first)
    assert "P(essential)" not in words(second) and "The model gave no label to this sentence" in words(second)
    assert [len(one.xpath(".//tbody//a")) for one in (first, second, third)] == [1, 2, 1]
    assert [words(cell) for cell in second.xpath(".//tbody/tr")[0]][:2] == ["vote 0", "missing"]
    check_nothing_acts(page)


def test_a_rule_and_the_model_have_probabilities_of_different_names(tmp_path: Path) -> None:
    probabilities = {"1": 0.25, "2": 0.5, "3": 0.75}
    page = page_of(weighed_run(tmp_path, sums=dict.fromkeys("123", 0.0), probabilities=probabilities))
    first = page.get_element_by_id("s-0")
    assert "P by rule 0.25" in words(first) and "P by model 0.92" in words(first)
    assert [bar.get("width") for bar in first.find_class("likely")] == ["16.0"]
    assert not first.find_class("tally"), "votes decide nothing here"
