from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

from cases.biomedical import BiomedicalQuestion, ExactAnswer, QuestionType, Snippet
from cases.load import find_cases
from cases.records import Case, Gold
from cases.submissions.bioasq import BioasqPrediction
from evals.bioasq.parts import Definitions
from evals.bioasq.scores import PartScores, score_parts
from evals.scoring.gold import GoldCase, gold_of_case

SAMPLES = Path(str(resources.files("cases").joinpath("samples", "bioasq")))


def question(id_: str, kind: QuestionType, exact: ExactAnswer | None = None, **given: Any) -> Case:
    gold = Gold(exact_answer=exact, ideal_answers=given.pop("ideal", None))
    return Case(id_, "", "Why?", (), biomedical=BiomedicalQuestion(kind, **given), gold=gold)


def key(cases: Sequence[Case]) -> dict[str, GoldCase]:
    return {case.id: gold_of_case(case) for case in cases}


def only(scored: Sequence[PartScores]) -> PartScores:
    (one,) = scored
    return one


def yes_no(gold: str, said: Sequence[str | None]) -> PartScores:
    cases = [
        question(str(number), "yesno", "yes" if letter == "y" else "no") for number, letter in enumerate(gold)
    ]
    predictions = [
        BioasqPrediction(str(number), exact_answer=text) for number, text in enumerate(said) if text
    ]
    return only(score_parts(key(cases), predictions))


def test_macro_f1_is_the_mean_over_yes_and_no() -> None:
    found = yes_no("yyynn", ["yes", "yes", "no", "no", "yes"]).values
    assert found == pytest.approx({"f1_yes": 2 / 3, "f1_no": 0.5, "macro_f1": 0.583333, "accuracy": 0.6})


def test_a_batch_of_yes_alone_has_a_macro_f1_of_a_half() -> None:
    assert yes_no("yy", ["yes", "Yes."]).values["macro_f1"] == 0.5


def test_an_answer_of_neither_is_wrong() -> None:
    assert yes_no("yn", ["maybe", "no"]).values["accuracy"] == 0.5


def ranked(*rankings: tuple[str, ...] | None, **definitions: Any) -> PartScores:
    """One question for each ranking; d1 to d4 are relevant."""
    gold = ("d1", "d2", "d3", "d4")
    cases = [question(str(number), "list", documents=gold) for number in range(len(rankings))]
    said = [BioasqPrediction(str(number), documents) for number, documents in enumerate(rankings)]
    return only(score_parts(key(cases), said, Definitions(**definitions)))


def test_means_and_geometric_means_of_the_specification() -> None:
    found = ranked(("d1", "x", "d2", "y", "z", "d3"), ("x",), ("d1", "d2", "d3", "d4")).values
    assert found["map"] == pytest.approx(0.513889, abs=5e-7)
    assert found["gmap"] == pytest.approx(0.017562, abs=5e-7)
    assert found["f1"] == pytest.approx((0.6 + 0 + 1) / 3)


def test_only_ten_documents_count_and_each_once() -> None:
    assert ranked(("x",) * 5 + ("d1",)).values["map"] == pytest.approx(1 / 8)
    assert ranked((*map(str, range(10)), "d1")).values["map"] == 0


def test_a_missing_question_is_nothing_and_named() -> None:
    found = ranked(("d1", "d2", "d3", "d4"), None)
    assert found.values["map"] == 0.5
    assert found.values["gmap"] == pytest.approx(exp((log(1 + 1e-5) + log(1e-5)) / 2))
    assert found.unscored == ("1",)


def test_as_bioasq_does_a_missing_question_is_skipped_and_named() -> None:
    found = ranked(("d1", "d2", "d3", "d4"), None, bioasq_compat=True)
    assert (found.values["map"], len(found.case_ids), found.unscored) == (1.0, 1, ("1",))


def test_an_empty_list_is_an_answer() -> None:
    assert ranked(("d1",), (), bioasq_compat=True).values["map"] == 0.125


def test_the_scorers_slip_is_behind_its_flag() -> None:
    pieces = tuple(Snippet("1", "xx", "abstract", start, start + 2) for start in range(0, 10, 2))
    case = question("q", "list", snippets=(Snippet("1", "x" * 10, "abstract", 0, 10),))
    said = [BioasqPrediction("q", snippets=pieces)]
    assert only(score_parts(key([case]), said)).values["map"] == 1
    assert only(score_parts(key([case]), said, Definitions(bioasq_compat=True))).values["map"] == 5


def test_gold_snippets_without_offsets_are_no_gold() -> None:
    case = question("q", "list", snippets=(Snippet("1", "mint"),))
    assert score_parts(key([case]), [BioasqPrediction("q", snippets=())]) == []


def test_what_nobody_answered_is_no_part() -> None:
    assert score_parts(key([question("q", "yesno", "yes")]), [BioasqPrediction("q", ("d1",))]) == []


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    found = find_cases([SAMPLES / "questions.json"])
    return [case for case in found if isinstance(case, Case)]


def perfect(case: Case) -> BioasqPrediction:
    assert case.biomedical is not None and case.gold.ideal_answers is not None
    return BioasqPrediction(
        case.id,
        case.biomedical.documents,
        case.biomedical.snippets,
        case.gold.exact_answer,
        case.gold.ideal_answers[0],
    )


@pytest.fixture(scope="module")
def scored(cases: list[Case]) -> list[PartScores]:
    return score_parts(key(cases), map(perfect, cases))


def test_the_gold_of_the_samples_scores_one(scored: list[PartScores]) -> None:
    assert [one.task for one in scored] == ["documents", "snippets", "yesno", "factoid", "list", "ideal"]
    for one in scored:
        assert not one.unscored
        found = {name: value for name, value in one.values.items() if "rouge" not in name and name != "gmap"}
        assert found == pytest.approx(dict.fromkeys(found, 1.0)), one.task


def test_each_type_has_its_scores(scored: list[PartScores]) -> None:
    assert {name: len(group.case_ids) for name, group in scored[0].groups.items()} == {
        **{"all": 24, "yesno": 6, "factoid": 6},
        **{"list": 6, "summary": 6},
    }


def test_every_value_lies_in_its_interval(cases: list[Case]) -> None:
    said = [perfect(case) for case in cases[::2]]
    said += [replace(perfect(case), documents=("x",)) for case in cases[1::2]]
    (one,) = score_parts(key(cases), said, parts=("documents",))
    for interval in one.intervals().values():
        assert interval.low < interval.value < interval.high


def test_programs_get_the_definitions_too(cases: list[Case]) -> None:
    said = map(perfect, cases)
    (one,) = score_parts(key(cases), said, Definitions(divisor="ten"), parts=("documents",))
    assert one.as_json()["definitions"]["average_precision"] == "ten"
    assert one.as_json()["groups"]["all"]["values"]["map"] < 1
