from __future__ import annotations

from pathlib import Path

from cases.submissions.archehr import CitedSentence, Prediction
from evals.scoring.gold import prediction_of, predictions
from tests.evals.scoring.runs import done, failed, make_run

SENTENCES = [{"id": "1", "text": "He was ill."}, {"id": "2", "text": "It helped."}]
ALIGNMENT = {"1": ["3", "1"], "2": []}


def test_lines_of_older_runs_give_evidence_and_answer() -> None:
    assert prediction_of(done("7")) == Prediction("7", evidence=("1", "3"), answer="He was ill. It helped.")


def test_nothing_labelled_is_no_empty_evidence() -> None:
    assert prediction_of(done("7", labels={})).evidence is None
    assert prediction_of(done("7", labels={"1": "not-essential"})).evidence == ()


def test_an_interpreted_question_is_the_question() -> None:
    assert prediction_of(done("7", interpreted_question="Why?")).question == "Why?"


def test_an_aligned_generated_answer_is_a_cited_answer() -> None:
    line = done("7", answer_sentences=SENTENCES, alignment=ALIGNMENT, aligned_answer="generated")
    prediction = prediction_of(line)
    assert prediction.cited_answer == (
        CitedSentence("He was ill.", ("3", "1")),
        CitedSentence("It helped.", ()),
    )
    assert prediction.links is None


def test_an_aligned_clinicians_answer_is_links() -> None:
    line = done("7", answer_sentences=SENTENCES, alignment=ALIGNMENT, aligned_answer="clinician")
    prediction = prediction_of(line)
    assert prediction.links == (("1", "3"), ("1", "1"))
    assert prediction.cited_answer is None


def test_no_alignment_is_neither() -> None:
    line = done("7", answer_sentences=None, alignment=None, aligned_answer=None)
    assert (prediction_of(line).links, prediction_of(line).cited_answer) == (None, None)


def test_failed_cases_predict_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, ["7", "8"], [done("7"), failed("8")])
    assert [prediction.case_id for prediction in predictions(run)] == ["7"]


def test_the_last_line_of_a_case_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path, ["7"], [failed("7"), done("7", answer="Now.")])
    assert [prediction.answer for prediction in predictions(run)] == ["Now."]
