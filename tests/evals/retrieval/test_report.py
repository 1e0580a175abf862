"""Tables of retrieval from known scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from evals.retrieval.report import Examples, RetrievalReport, as_json, evaluate, render
from evals.retrieval.scored import FLOORS
from ranking.cutoffs import Surprise, TopK
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.ranker import Ranked

SENTENCES = ("0.9 a", "0.8 b", "0.2 CHF", "0.1 d", "0.05 e")


class Written:
    """A sentence has its score written down; a query `reverse` turns the order round."""

    identity = "written@1"
    cutoff = TopK()

    def __init__(self) -> None:
        self.read: list[str] = []

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        self.read += sentences
        sign = -1 if "reverse" in query else 1
        first_words = [sentence.split()[0] for sentence in sentences]
        digits = [float(word) if "." in word else float(f"0.{word[1:]}") for word in first_words]
        return Ranked(np.array([sign * score for score in digits], dtype=np.float32))


def example(id_: str, query: str = "q", labels: Sequence[bool] | None = None) -> Example:
    wanted = (True, True, False, False, False) if labels is None else tuple(labels)
    return Example(id_, query, SENTENCES, wanted, document_id="d", group=id_)


def made(ranker: Written | None = None) -> RetrievalReport:
    examples: Examples = {
        "patient": [example("1", "reverse"), example("2", "reverse")],
        "both": [example("1"), example("2")],
    }
    return evaluate(ranker or Written(), examples, "both", TopK(k=2), {"CHF": "congestive heart failure"})


@pytest.fixture(scope="module")
def report() -> RetrievalReport:
    return made()


def test_each_cut_off_is_scored(report: RetrievalReport) -> None:
    rows = {row.name: row for row in report.tables[0].rows}
    assert rows["autocut"].retrieved == 2
    assert rows["autocut"].values["F1"].value == 100
    assert rows["fixed k = 54"].retrieved == 5
    assert rows["fixed k = 54"].values["P"].value == pytest.approx(40)
    assert rows["autocut, min 3"].values["P"].value == pytest.approx(200 / 3)


def test_queries_are_compared_at_one_cut_off(report: RetrievalReport) -> None:
    rows = {row.name: row.values["F1"].value for row in report.tables[1].rows}
    assert rows == {"patient": 0, "both": 100}


def test_texts_are_prepared_for_the_ranker_alone() -> None:
    ranker = Written()
    made(ranker)
    assert "0.2 CHF (congestive heart failure)" in ranker.read
    assert "02 chf" in ranker.read
    assert "02 chf congestive heart failure" in ranker.read


def test_a_floor_trades_precision_for_recall(report: RetrievalReport) -> None:
    star = next(curve for curve in report.floors if curve.name == "autocut*")
    assert star.recall == (100,) * len(FLOORS)
    assert star.precision[FLOORS.index(2)] == 100
    assert star.precision[FLOORS.index(5)] == pytest.approx(40)


def test_json_holds_every_row(report: RetrievalReport) -> None:
    made_ = as_json(report)
    assert set(made_["tables"]) == {"strategies", "queries", "texts"}
    assert len(made_["tables"]["strategies"]) == 15
    assert [point["floor"] for point in made_["floors"]["surprise"]] == list(FLOORS)


def test_the_page_has_the_plot_and_no_text_of_a_case(report: RetrievalReport) -> None:
    page = render(report)
    assert "<svg" in page
    assert "autocut*, min 3" in page
    assert "0.9 a" not in page


def test_data_with_one_query_have_no_table_of_queries() -> None:
    found = evaluate(Written(), {None: [example("1"), example("2")]}, None, Surprise(), {})
    assert [table.name for table in found.tables] == ["strategies", "texts"]


def test_without_labels_there_is_one_line() -> None:
    unlabelled = Example("1", "q", SENTENCES, None, document_id="d", group="1")
    with pytest.raises(RankerError, match="no example is labelled by people"):
        evaluate(Written(), {None: [unlabelled]}, None, Surprise(), {})
