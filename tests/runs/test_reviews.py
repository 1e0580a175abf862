"""What people say of cases is checked, kept, and never lost to a kill or to another writer."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runs.record.manifest import RunError
from runs.review.reviews import MAX_ANSWER, REVIEWS, Reviews, is_stale, make_review

LINE: dict[str, Any] = {
    "case_id": "k1",
    "labels": {"1": "essential", "2": "not-essential", "3": "not-essential"},
    "answer": "Heparin was stopped.",
    "review": None,
}
THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def add(folder: Path, **said: Any) -> None:
    Reviews(folder).add(make_review(LINE, **{"reviewer": "Ann", "labels": {}, **said}))


def test_sentences_that_nobody_names_are_confirmed_as_shown() -> None:
    made = make_review(LINE, reviewer="Ann", labels={"3": "essential", "2": "supplementary"}, at=THEN)
    assert made.labels == {"1": "essential", "2": "supplementary", "3": "essential"}
    assert (made.named, made.shown_labels) == (("2", "3"), LINE["labels"])
    assert made.corrected == ["3"]
    assert made.reviewed_at == "2026-01-02T03:04:05.000+00:00"


def test_a_second_review_completes_the_first_and_not_the_run() -> None:
    first = make_review(LINE, reviewer="Ann", labels={"2": "supplementary"})
    second = make_review(LINE, reviewer="Bo", labels={"1": "not-relevant"}, earlier=first)
    assert second.labels == {"1": "not-relevant", "2": "supplementary", "3": "not-relevant"}
    other = LINE | {"labels": {"1": "essential", "2": "essential", "3": "essential"}}
    assert make_review(other, reviewer="Bo", labels={}, earlier=first).labels == other["labels"]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [(" Heparin was stopped.\n", "confirmed"), ("It was not.", "corrected"), (None, None)],
)
def test_the_shown_answer_is_confirmed_and_another_one_corrects_it(
    answer: str | None, verdict: str | None
) -> None:
    assert make_review(LINE, reviewer="Ann", labels={}, answer=answer).verdict == verdict


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"labels": {"9": "essential"}}, "it has no sentence '9'; its sentences are 1, 2, 3"),
        (
            {"labels": {"1": "vital"}},
            "labels.1: 'vital' is not one of essential, supplementary, not-relevant",
        ),
        ({"reviewer": " \n"}, "reviewer: is empty"),
        ({"reviewer": "A" * 201}, "reviewer: has 201 characters, of at most 200"),
        ({"reviewer": "A\u202eB"}, "reviewer: character 2 is U+202E"),
        ({"reviewer": "A\ud800"}, "half of a surrogate pair"),
        ({"comment": "a\x00"}, "comment: character 2 is U+0000"),
        ({"answer": "a" * (MAX_ANSWER + 1)}, "answer: has 20,001 characters, of at most 20,000"),
        ({"answer": " "}, "answer: is empty"),
        ({"labels": None}, "says nothing: give labels, an answer or a comment"),
        ({"shown": "0" * 64}, "has another result than the one that was shown"),
    ],
)
def test_what_is_wrong_with_a_review_is_told_in_one_line(said: dict[str, Any], told: str) -> None:
    with pytest.raises(RunError) as caught:
        make_review(LINE, **{"reviewer": "Ann", "labels": {}, **said})
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_cannot_be_reviewed_where_there_are_none() -> None:
    with pytest.raises(RunError, match="no labels of its sentences"):
        make_review(LINE | {"labels": {}}, reviewer="Ann", labels={})


def test_a_review_is_stale_once_labels_or_answer_are_others() -> None:
    made = make_review(LINE, reviewer="Ann", labels={})
    assert not is_stale(made, LINE)
    assert is_stale(made, LINE | {"answer": "Another."})
    assert is_stale(made, LINE | {"labels": {}})


def test_a_case_that_went_on_with_a_review_does_not_make_it_stale() -> None:
    made = make_review(LINE, reviewer="Ann", labels={"2": "essential"})
    own = {"reviewer": "Ann", "reviewed_at": made.reviewed_at}
    assert not is_stale(made, LINE | {"labels": made.labels, "review": own})
    assert is_stale(made, LINE | {"labels": made.labels, "review": own | {"reviewer": "Bo"}})


def test_the_last_review_counts_and_history_stays(tmp_path: Path) -> None:
    add(tmp_path, labels={"2": "essential"})
    add(tmp_path, reviewer="Bo", labels=None, answer="It was not.")
    reviews = Reviews(tmp_path)
    assert [one.reviewer for one in reviews.history("k1")] == ["Ann", "Bo"]
    assert reviews.latest()["k1"].reviewer == "Bo"
    # What the last one says nothing of stands.
    assert reviews.latest("labels")["k1"].reviewer == "Ann"
    assert reviews.latest("answer")["k1"].answer == "It was not."
    assert reviews.history("k2") == []


def test_a_torn_tail_is_passed_over_and_mended_by_the_next_writer(tmp_path: Path) -> None:
    add(tmp_path)
    path = tmp_path / REVIEWS
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    reader = Reviews(tmp_path)
    assert len(reader.history("k1")) == 1
    add(tmp_path, reviewer="Bo")
    assert [one.reviewer for one in reader.history("k1")] == ["Ann", "Bo"]
    assert [json.loads(line)["reviewer"] for line in path.read_text().splitlines()] == ["Ann", "Bo"]


def test_a_line_of_something_else_is_named(tmp_path: Path) -> None:
    add(tmp_path)
    with (tmp_path / REVIEWS).open("a") as file:
        file.write('{"case_id": "k2"}\n')
    with pytest.raises(RunError, match=r"reviews\.jsonl: line 2: reviewer: is missing"):
        Reviews(tmp_path).latest()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"reviewed_at": "noon"}, "reviewed_at: 'noon' is not an ISO 8601 time"),
        ({"reviewed_at": "2026-01-02T03:04:05+01:00"}, "is not in UTC"),
        ({"reviewed_at": "2026-01-02T03:04:05"}, "is not in UTC"),
        ({"verdict": "confirmed"}, "an answer and a verdict on it come together"),
    ],
)
def test_a_line_with_a_wrong_field_is_named(tmp_path: Path, fields: dict[str, str], told: str) -> None:
    add(tmp_path)
    made = json.loads((tmp_path / REVIEWS).read_text())
    (tmp_path / REVIEWS).write_text(json.dumps(made | fields) + "\n")
    with pytest.raises(RunError, match=f"line 1: .*{told}"):
        Reviews(tmp_path).latest()


def test_a_file_that_was_written_anew_is_read_from_its_start(tmp_path: Path) -> None:
    add(tmp_path, comment="long " * 9)
    add(tmp_path, reviewer="Bo")
    reader = Reviews(tmp_path)
    assert len(reader.history("k1")) == 2
    kept = (tmp_path / REVIEWS).read_bytes().splitlines(keepends=True)[1]
    (tmp_path / REVIEWS).write_bytes(kept)
    assert [one.reviewer for one in reader.history("k1")] == ["Bo"]


WRITER = """\
import json, sys
from pathlib import Path
from runs.review.reviews import Reviews, make_review
for number in range(15):
    review = make_review(json.loads(sys.argv[2]), reviewer=sys.argv[3], labels={}, comment="x" * 5000)
    Reviews(Path(sys.argv[1])).add(review)
"""


def test_writers_in_several_processes_lose_nothing(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", WRITER, str(tmp_path), json.dumps(LINE)]
    writers = [subprocess.Popen([*arguments, name]) for name in ("Ann", "Bo")]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert len(Reviews(tmp_path).history("k1")) == 30


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nowhere/reviews\.jsonl: cannot be written"):
        add(tmp_path / "nowhere")
