"""What is verified against what, and the page and the JSON of a verified text."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from evals.submissions import unsupported_answers
from evals.verification import Report, read_lines, read_run, read_source, render, verify_run
from ranking.rankers.bm25 import Bm25Ranker
from ranking.verify import Evidence, Verification, VerifiedLine
from runs.record.manifest import RunError
from storage.errors import InputError
from tests.evals.bioasq.runs import ideal_lines
from tests.evals.bioasq.runs import make_run as make_bioasq_run
from tests.evals.scoring.runs import done, failed, make_run
from tests.evigraph import write_cases

ATTACK = "<script>alert(1)</script>\"' {{ 7 * 7 }}\x1b[31m\u202e"


def report(line: str = "Fever.", sentence: str = "Fever since Monday.") -> Report:
    lines = (
        VerifiedLine(line, True, (Evidence(1, 0.0, 0.5),), cut=True),
        VerifiedLine("Knee.", False, (), cut=False),
    )
    found = Verification(lines, ("First.", sentence), 0.4, (0,))
    return Report("n.txt", "s.txt", ("11", "12"), "logistic@1", found, True)


def test_lines_and_sentences_link_to_each_other() -> None:
    page = render(report())
    assert 'id="line-1"' in page and 'href="#line-1"' in page
    assert 'id="sentence-2"' in page and 'href="#sentence-2"' in page
    assert 'href="#sentence-1"' not in page


def test_texts_are_data() -> None:
    page = render(report(ATTACK, ATTACK))
    assert "<script" not in page
    assert "{{ 7 * 7 }}" in page
    assert not re.search("[\x1b\u202e]", page)


def test_the_page_fetches_and_runs_nothing() -> None:
    page = render(report())
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!#)', page)


def test_the_keyboard_reaches_both_sides() -> None:
    assert render(report()).count('tabindex="0"') == 2


def test_a_line_that_is_not_stated_has_its_mark() -> None:
    assert render(report()).count("<strong>not stated</strong>") == 1


def test_json_has_stable_keys() -> None:
    fields = report().as_json()
    assert fields["lines"][0] == {
        "text": "Fever.",
        "support": "supported",
        "supported": True,
        "evidence": [
            {"sentence": "12", "text": "Fever since Monday.", "score": 0.0, "probability": 0.5},
        ],
    }
    assert (fields["supported"], fields["not_stated"]) == (1, 1)
    assert (fields["cut_sentences"], fields["cut_lines"]) == (["11"], [1])


def test_the_hash_of_a_source_is_of_its_sentences() -> None:
    assert report().as_json()["source_sha256"] != report(sentence="Else.").as_json()["source_sha256"]


SAMPLES = Path(str(resources.files("cases").joinpath("samples", "batch.xml")))


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_sentences_of_a_text_are_numbered_from_1(tmp_path: Path) -> None:
    source = read_source(write(tmp_path / "s.txt", b"\xef\xbb\xbfOne. Two.\r\nThree"), None)
    assert source.ids == ("1", "2", "3")
    assert source.sentences == ("One.", "Two.", "Three")


def test_sentences_of_a_case_keep_their_ids() -> None:
    source = read_source(SAMPLES, "101")
    assert source.ids[0] == "1"
    assert source.name.endswith("batch.xml, case 101")


def test_the_only_case_needs_no_id(tmp_path: Path) -> None:
    assert read_source(write_cases(tmp_path / "one.jsonl", 1), None).name.endswith("case k0")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no sentence in it"),
        (b" \n---\n", "has no sentence in it"),
        (b"%PDF\0\x01", "is not a text file: it has null bytes"),
        (b"caf\xe9", "not UTF-8 at byte 4"),
    ],
    ids=["empty", "rules", "binary", "latin-1"],
)
def test_what_is_no_text_is_told(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_lines(write(tmp_path / "n.txt", content))


@pytest.mark.parametrize(
    ("case", "words"), [(None, "Choose one with --case: k0, k1"), ("k9", "no case 'k9' in it")]
)
def test_a_case_has_to_be_chosen(tmp_path: Path, case: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_source(write_cases(tmp_path / "two.jsonl", 2), case)


def test_a_text_has_no_cases(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a case file"):
        read_source(write(tmp_path / "s.txt", b"One."), "1")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_lines(tmp_path / "gone.txt")


def test_a_run_brings_its_answer_and_its_note(tmp_path: Path) -> None:
    make_run(tmp_path, ["7"], [done("7")])
    lines, source = read_run(tmp_path / "run", "7")
    assert lines == ("He was ill.", "It helped.")
    assert (source.ids, source.sentences) == (("1", "2", "3"), ("A.", "B.", "C."))


def test_a_case_without_an_answer_is_told(tmp_path: Path) -> None:
    make_run(tmp_path, ["7"], [failed("7")])
    with pytest.raises(InputError, match="case '7' has no answer"):
        read_run(tmp_path / "run", "7")


def test_a_case_that_is_not_in_the_run_is_told(tmp_path: Path) -> None:
    make_run(tmp_path, ["7"], [done("7")])
    with pytest.raises(RunError, match="no case '8' has ended"):
        read_run(tmp_path / "run", "8")


def test_a_case_that_its_file_has_lost_is_told(tmp_path: Path) -> None:
    make_run(tmp_path, ["7"], [done("7")])
    write_cases(tmp_path / "cases.jsonl", 1)
    with pytest.raises(InputError, match="case '7' is not in the run's case files any more"):
        read_run(tmp_path / "run", "7")


def test_an_answer_to_a_question_without_a_note_is_told(tmp_path: Path) -> None:
    line = ideal_lines()[0]
    make_bioasq_run(tmp_path, [line])
    with pytest.raises(InputError, match=f"case '{line['case_id']}' has no note"):
        read_run(tmp_path / "run", line["case_id"])


def test_a_case_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    make_run(tmp_path, "78", [], unreadable="8")
    with pytest.raises(InputError, match=r"cases\.jsonl: line 2: sentences\[0\]: 1 should be"):
        read_source(tmp_path / "cases.jsonl", "8")


def test_cases_without_an_answer_are_counted_apart(tmp_path: Path) -> None:
    run = make_run(tmp_path, "789", [done("7"), failed("8"), done("9", **DECLINED), failed("x")])
    numbers: list[int] = []
    found = verify_run(run, Bm25Ranker(), None, numbers.append)
    assert found.without_answer == ["8", "9", "x"]
    assert {id_: len(findings) for id_, findings in found.answers.items()} == {"7": 2}
    assert numbers == [1, 2, 3, 4]
    assert (found.sentences, found.rate) == (2, None)


FINDINGS = [
    {"id": "1", "text": "He was ill.", "support": "supported", "sentence_ids": ["1"]},
    {"id": "2", "text": "It helped.", "support": "contradicted", "sentence_ids": ["2"]},
]
UNSUPPORTED = {"answer_status": "unsupported", "answer_support": FINDINGS}
DECLINED = {"answer": "The note does not say.", "answer_status": "not_stated", "answer_support": []}


def test_answers_without_support_are_named_before_they_are_submitted(tmp_path: Path) -> None:
    lines = [done("a"), done("b", **UNSUPPORTED), done("c", **DECLINED)]
    run = make_run(tmp_path, "abc", lines)
    marked = "He was ill. It helped. [contradicted]"
    assert unsupported_answers(run, "2026-3") == [
        f"case b is submitted though not all is supported: {marked}",
        "case c is submitted as not stated: The note does not say.",
    ]
    assert unsupported_answers(run, "2026-2") == []
