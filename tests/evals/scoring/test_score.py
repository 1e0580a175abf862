from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cases.formats.archehr_key import write_archehr_key
from cases.records import Gold
from cases.submissions.archehr import Prediction, Task
from evals.metrics import registry
from evals.metrics.registry import official_metrics
from evals.metrics.text_metric import MetricSpec, TextPair
from evals.scoring.gold import GoldCase, ScoringError, read_gold
from evals.scoring.score import ArchehrScores, made_task, score
from evals.scoring.tasks import TASKS
from ranking.measures import Counts
from tests.evals.scoring.examples import evidence, labelled, linked, links

KEY = {
    "1": labelled("1", "123", "4", "56"),
    "2": labelled("2", "2", "13"),
    "3": labelled("3", "14", "", "23"),
}
MADE = [evidence("1", "125"), evidence("2", "12"), evidence("3", "")]
ALIGNED = {"901": linked("901", 5, a1="1", a2="1", a3="5", a4="6", a5="7")}


def rounded(values: object, *names: str) -> list[float]:
    assert isinstance(values, dict)
    return [round(values[name] / 100, 4) for name in names]


def parts(prefix: str) -> list[str]:
    return [f"{prefix}_{part}" for part in ("precision", "recall", "f1")]


def test_the_overall_score_of_evidence_is_strict_micro_f1() -> None:
    scores = score("2026-2", MADE, KEY)
    assert (scores.overall, scores.overall_score) == ("strict_micro_f1", scores.values["strict_micro_f1"])


def test_the_leaderboard_has_no_union() -> None:
    assert not any("union" in name for name in score("2026-2", MADE, KEY).official)


@pytest.mark.parametrize(("ids", "expected"), [("56", [1.0, 0.5, 0.6667]), ("12345678", [0.5, 1.0, 0.6667])])
def test_evidence_of_the_documentation(ids: str, expected: list[float]) -> None:
    key = {"901": labelled("901", "1567", "", "2348")}
    values = score("2026-2", [evidence("901", ids)], key).values
    assert rounded(values, *parts("strict_micro")) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (links("901", a1="1", a3="56", a4="6"), [0.75, 0.6, 0.6667]),
        (links("901", a1="1", a2="16", a3="5", a4="156", a5="678"), [0.5, 1.0, 0.6667]),
    ],
)
def test_links_of_the_documentation(made: Prediction, expected: list[float]) -> None:
    scores = score("2026-4", [made], ALIGNED)
    assert rounded(scores.values, *parts("micro")) == expected
    assert (scores.overall, scores.overall_score) == ("micro_f1", scores.values["micro_f1"])


def test_a_case_without_links_scores_nothing_in_subtask_4() -> None:
    key = {"1": linked("1", 1), "2": linked("2", 1, a1="3")}
    values = score("2026-4", [links("1"), links("2", a1="3")], key).values
    assert values["macro_f1"] == 50.0
    assert values["micro_f1"] == 100.0


def test_nothing_cited_where_nothing_is_essential_is_worth_nothing_in_2025() -> None:
    key = {"1": labelled("1", "", "", "12")}
    values = score("2025", [Prediction("1", evidence=(), answer="So.")], key).values
    assert values["strict_macro_f1"] == 0.0
    assert score("2026-2", [evidence("1", "")], key).values["strict_macro_f1"] == 100.0


def test_a_case_named_twice_counts_twice() -> None:
    once = score("2026-2", MADE, KEY)
    twice = score("2026-2", [*MADE, MADE[0]], KEY)
    assert len(twice.case_ids) == len(once.case_ids) + 1
    assert twice.values["strict_micro_recall"] > once.values["strict_micro_recall"]


def test_cases_without_a_prediction_are_named() -> None:
    assert score("2026-2", MADE[:1], KEY).unscored == ("2", "3")


def test_a_case_without_labels_is_unlabelled_and_not_empty() -> None:
    key = {**KEY, "4": GoldCase("4")}
    scores = score("2026-2", [*MADE, evidence("4", "1")], key)
    assert scores.case_ids == ("1", "2", "3")
    assert scores.unscored == ()


def counts(scores: ArchehrScores, variant: str) -> list[float]:
    """Of the first case."""
    return [scores.matrix[0, scores.columns.index(f"{variant} {name}")] for name in Counts._fields]


def test_counts_of_each_case_are_kept() -> None:
    scores = score("2026-2", MADE, KEY)
    assert (counts(scores, "strict"), counts(scores, "lenient_union")) == ([2, 3, 3], [2, 3, 4])


@pytest.mark.parametrize(
    ("task", "made", "key", "fault"),
    [
        ("2026-2", evidence("1", "19"), KEY, "case '1': the key has no sentence '9'"),
        ("2026-4", links("901", a9="1"), ALIGNED, "case '901': the key has no answer sentence '9'"),
    ],
)
def test_ids_that_the_official_scorer_refuses(
    task: Task, made: Prediction, key: dict[str, GoldCase], fault: str
) -> None:
    with pytest.raises(ScoringError, match=fault):
        score(task, [made], key)


def test_unknown_evidence_in_a_link_is_refused_where_the_note_is_known() -> None:
    key = {"901": replace(ALIGNED["901"], labels={"1": "essential"})}
    with pytest.raises(ScoringError, match="no sentence '8'"):
        score("2026-4", [links("901", a1="8")], key)


@pytest.mark.parametrize("task", ["2025", "2026-1", "2026-2", "2026-3", "2026-4"])
def test_a_key_that_has_nothing_for_the_task(task: Task) -> None:
    with pytest.raises(ScoringError, match="none of the 1 case of the key has"):
        score(task, MADE, {"1": GoldCase("1")})


def test_predictions_of_other_cases() -> None:
    with pytest.raises(ScoringError, match="none of the 1 predictions is of a case of the key"):
        score("2026-2", [evidence("8", "1")], KEY)


ANSWERED = {
    "1": GoldCase("1", answer="He may go home in two days.", narrative="When may he go home, doctor?"),
    "2": GoldCase("2", answer="The drain stays for a week.", narrative="How long does the drain stay?"),
}
ANSWERS = [Prediction("1", answer="He may go home in two days."), Prediction("2", answer="Nobody knows.")]


def test_without_weights_there_is_a_mean_of_what_is_left_and_no_overall_score() -> None:
    scores = score("2026-3", ANSWERS, ANSWERED)
    assert scores.overall is None
    assert set(scores.not_computed) == {"bertscore", "alignscore", "medcon"}
    parts = [scores.values[name] for name in ("bleu", "rougeLsum", "sari")]
    assert scores.values["mean_of_available"] == pytest.approx(sum(parts) / 3)
    assert scores.values["bleu"] == 50.0


def test_sari_needs_the_narrative() -> None:
    key = {case_id: replace(gold, narrative=None) for case_id, gold in ANSWERED.items()}
    scores = score("2026-3", ANSWERS, key)
    assert "needs the case file" in scores.not_computed["sari"]
    assert "bleu" in scores.values


def test_the_reference_of_2025_is_the_question_and_the_essential_sentences() -> None:
    gold = GoldCase(
        "1",
        labels={"1": "essential", "2": "not-relevant"},
        narrative=" Why? ",
        question=" Why so? ",
        essential_texts=("The drain leaked.",),
    )
    made = Prediction("1", evidence=("1",), answer="Why?\n\nWhy so?\n\nThe drain leaked.")
    scores = score("2025", [made], {"1": gold})
    assert scores.values["rougeLsum"] == pytest.approx(100.0)
    assert scores.shown["overall_factuality_score"] == 100.0
    assert "overall_relevance_score" not in scores.shown


def test_2025_without_the_case_file_scores_factuality_alone() -> None:
    scores = score("2025", [Prediction("1", evidence=("1",), answer="So.")], {"1": labelled("1", "1")})
    assert scores.shown["overall_factuality_score"] == 100.0
    assert set(scores.not_computed) >= {"bleu", "sari", "medcon"}
    assert "mean_of_available" not in scores.values


def test_ids_of_a_run_that_the_key_does_not_label_count_as_wrong_and_are_named() -> None:
    scores = score("2026-2", [evidence("1", "129")], KEY, refuse_unknown=False)
    assert counts(scores, "strict") == [2, 3, 3]
    assert scores.overall is None
    assert "the key has no sentence '9'" in scores.notes[-1]


@pytest.mark.parametrize(
    ("task", "texts", "overall"),
    [
        ("2026-1", {"alignscore": 28.2, "rougeLsum": 40.6, "medcon": 19.7, "bertscore": 19.8}, 27.1),
        (
            "2026-3",
            {
                **{"bleu": 9.42, "rougeLsum": 27.04, "sari": 55.42},
                **{"bertscore": 43.0, "alignscore": 25.28, "medcon": 37.04},
            },
            32.87,
        ),
    ],
)
def test_overall_scores_of_texts_as_teams_published_them(
    task: Task, texts: dict[str, float], overall: float
) -> None:
    made = made_task(task, ["1"], {name: [value] for name, value in texts.items()}, {})
    assert made.overall_score == pytest.approx(overall, abs=0.05)


def test_parts_of_an_overall_score_are_metrics_of_the_task() -> None:
    for task, rules in TASKS.items():
        assert set(rules.averaged) <= set(official_metrics(task))


@pytest.mark.parametrize("task", ["2025", "2026-2"])
def test_scores_against_weak_labels_say_so_and_have_no_overall_score(task: Task) -> None:
    key = {"1": labelled("1", "1", "", "2"), "2": replace(labelled("2", "1", "", "2"), weak=True)}
    made = [Prediction(id_, evidence=("1",), answer="So.") for id_ in key]
    found = score(task, made, key)
    assert found.notes[0].startswith("1 of 2 cases are scored against weak labels")
    assert found.notes[1:] == TASKS[task].notes
    assert found.overall_score is None and not any("overall" in name for name in found.shown)


def test_links_read_no_labels_and_keep_their_score() -> None:
    key = {"901": replace(ALIGNED["901"], labels={"1": "essential"}, weak=True)}
    assert score("2026-4", [links("901", a1="1")], key).overall_score is not None


def test_a_key_tells_which_labels_are_weak(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    labels = Gold({"1": "essential"})
    write_archehr_key(path, {"1": labels, "2": replace(labels, label_source="weak"), "3": Gold(answer="A.")})
    assert {case_id: one.weak for case_id, one in read_gold([path], []).items()} == {
        "1": False,
        "2": True,
        "3": False,
    }


class _Words:
    """Counts the words of a prediction."""

    names = ("words",)
    spread = False

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        return [(len(pair.prediction.split()),) for pair in pairs]


def test_a_metric_that_is_registered_is_scored_beside_the_official_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = MetricSpec(
        names=("words",),
        columns={},
        tasks=("2026-3",),
        load=lambda _: iter([_Words()]),
        official=False,
        percent=False,
    )
    monkeypatch.setattr(registry, "METRICS", (*registry.METRICS, words))
    gold = {"1": GoldCase("1", answer="He is well.", narrative="Is he well?")}
    found = score("2026-3", [Prediction("1", answer="He is well now.")], gold)
    assert (found.extra, found.values["words"]) == (("words",), 4)
    assert "words" not in found.official
