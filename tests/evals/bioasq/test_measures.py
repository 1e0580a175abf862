"""The vectors of the specification, and libraries as judges where there are any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases.biomedical import Snippet
from evals.bioasq.measures import (
    SkipVariant,
    document_scores,
    factoid_scores,
    list_scores,
    read_yes_or_no,
    rouge_2,
    rouge_su4,
    snippet_average_precision,
    snippet_scores,
)

GOLD = {"d1", "d2", "d3", "d4"}
RANKED = ["d1", "x", "d2", "y", "z", "d3"]


def test_no_documents_score_nothing() -> None:
    assert document_scores([], GOLD) == (0.0, 0.0, 0.0)


def test_documents_as_a_set() -> None:
    assert document_scores(RANKED, GOLD) == pytest.approx((0.5, 0.75, 0.6))


@pytest.mark.parametrize(
    ("text", "read_as"),
    [("Yes.", "yes"), ("no", "no"), ("No, yes", "yes"), ("unsure", None), ((("No",),), "no"), ((), None)],
)
def test_yes_and_no_are_read_out_of_a_text(text: str, read_as: str | None) -> None:
    assert read_yes_or_no(text) == read_as


def test_a_factoid_may_equal_any_synonym_in_any_case() -> None:
    gold = (("HER2", "ERBB2"),)
    assert factoid_scores((("erbb2",), ("x",)), gold) == (1.0, 1.0, 1.0)
    assert factoid_scores((("x",), ("Her2",)), gold) == (0.0, 1.0, 0.5)
    assert factoid_scores("HER2", gold) == (1.0, 1.0, 1.0)


def test_only_the_first_synonym_of_the_first_five_entries_counts() -> None:
    gold = (("HER2",),)
    assert factoid_scores((("x", "HER2"),), gold) == (0.0, 0.0, 0.0)
    assert factoid_scores((*((("x",),) * 4), ("HER2",)), gold) == (0.0, 1.0, 0.2)
    assert factoid_scores((*((("x",),) * 5), ("HER2",)), gold) == (0.0, 0.0, 0.0)


def test_punctuation_is_not_forgiven() -> None:
    assert factoid_scores((("HER-2",),), (("HER2",),)).lenient == 0.0


def test_a_second_name_of_a_list_item_is_wrong() -> None:
    gold = (("EGFR", "ErbB1"), ("HER2", "ERBB2"), ("HER3",))
    found = list_scores((("ErbB1",), ("egfr",), ("her2",), ("KRAS",)), gold)
    assert found == pytest.approx((0.5, 2 / 3, 0.571429), abs=5e-7)


def test_nothing_listed_is_nothing() -> None:
    assert list_scores((), (("EGFR",),)) == (0.0, 0.0, 0.0)


def at(begin: int, end: int, document: str = "1", section: str = "abstract") -> Snippet:
    return Snippet(document, "x" * (end - begin), section, begin, end)


def test_snippets_share_characters_once() -> None:
    found = snippet_scores([at(0, 10), at(5, 15)], [at(10, 20), at(18, 30)])
    assert found == pytest.approx((5 / 15, 5 / 20, 2 / 7))


def test_a_snippet_within_another_adds_nothing() -> None:
    assert snippet_scores([at(0, 20), at(5, 10)], [at(0, 20)]) == (1.0, 1.0, 1.0)


def test_snippets_of_another_section_or_document_share_nothing() -> None:
    assert snippet_scores([at(0, 10, section="title"), at(0, 10, "2")], [at(0, 10)]) == (0.0, 0.0, 0.0)


def test_a_snippet_without_offsets_is_wrong_by_its_length() -> None:
    assert snippet_scores([at(0, 10), Snippet("1", "x" * 10)], [at(0, 10)]).precision == 0.5


def test_a_wanted_snippet_is_hit_once() -> None:
    wanted = [at(0, 10), at(20, 30)]
    pieces = [at(0, 5), at(5, 10), at(50, 60), at(20, 30)]
    assert snippet_average_precision(pieces, wanted) == pytest.approx((1 + 20 / 30) / 2)
    assert snippet_average_precision(pieces, []) == 0.0


def test_the_official_scorers_slip_passes_one() -> None:
    pieces = [at(start, start + 2) for start in range(0, 10, 2)]
    assert snippet_average_precision(pieces, [at(0, 10)]) == 1.0
    assert snippet_average_precision(pieces, [at(0, 10)], any_of_document=True) == 5.0


CANDIDATE = "Papilin is a secreted extracellular matrix glycoprotein"
FIRST = "Yes, papilin is a secreted glycoprotein"
SECOND = "Papilin is an extracellular matrix glycoprotein that is secreted"


@pytest.mark.parametrize(
    ("references", "precision", "recall_", "f1"),
    [
        ([FIRST], 0.5, 0.6, 0.54545),
        ([SECOND], 0.5, 0.375, 0.42857),
        ([FIRST, SECOND], 0.5, 0.46154, 0.48),
    ],
)
def test_rouge_2(references: list[str], precision: float, recall_: float, f1: float) -> None:
    assert rouge_2(CANDIDATE, references) == pytest.approx((precision, recall_, f1), abs=5e-6)


@pytest.mark.parametrize(
    ("variant", "references", "recall_", "precision", "f1"),
    [
        ("perl", [FIRST], 0.65, 0.5, 0.56522),
        ("perl", [SECOND], 0.36842, 0.53846, 0.43750),
        ("perl", [FIRST, SECOND], 0.46552, 0.51923, 0.49091),
        ("textbook", [FIRST], 0.66667, 0.51852, 0.58333),
        ("textbook", [SECOND], 0.41026, 0.59259, 0.48485),
        ("textbook", [FIRST, SECOND], 0.5, 0.55556, 0.52632),
    ],
)
def test_rouge_su4(
    variant: SkipVariant, references: list[str], recall_: float, precision: float, f1: float
) -> None:
    found = rouge_su4(CANDIDATE, references, variant)
    assert found == pytest.approx((precision, recall_, f1), abs=5e-6)


def test_hyphens_and_punctuation_part_words() -> None:
    assert rouge_2("beta-blockers, (daily)", ["Beta blockers daily"]).f1 == 1.0


def test_texts_without_words_score_nothing() -> None:
    assert rouge_2("", ["So it is."]) == rouge_su4("So it is.", []) == rouge_2("...", ["..."]) == (0.0,) * 3


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abcd"), max_size=30))
def test_rouge_is_symmetric_for_one_reference(one: list[str], other: list[str]) -> None:
    first, second = rouge_su4(" ".join(one), [" ".join(other)]), rouge_su4(" ".join(other), [" ".join(one)])
    assert (first.precision, first.recall) == (second.recall, second.precision)
    assert 0 <= first.f1 <= 1
