from __future__ import annotations

from pathlib import Path

import pytest

from evals.metrics.medcon import (
    ACCEPTED_TYPES,
    SEMANTIC_GROUPS,
    Concept,
    Medcon,
    concept_f1,
    concepts_of,
    read_terms,
)
from evals.metrics.text_metric import TextPair
from storage.errors import InputError

_HEART_ATTACK = Concept("heart attack", "C0027051")
_INFARCTION = Concept("myocardial infarction", "C0027051")
_FEVER = Concept("fever", "C0015967")


def _found(text: str) -> list[Concept]:
    """By candidates in the form of QuickUMLS 1.4.2."""
    known = [concept for concept in (_HEART_ATTACK, _INFARCTION, _FEVER) if concept.term in text.lower()]
    candidate = {"ngram": text, "similarity": 1.0, "semtypes": {"T047"}, "preferred": 1}
    return concepts_of([[{**candidate, **concept._asdict()}] for concept in known])


def test_a_synonym_is_as_good() -> None:
    assert concept_f1([_INFARCTION], [_HEART_ATTACK]) == 1


def test_two_reference_terms_of_one_concept_count_twice() -> None:
    assert concept_f1([_INFARCTION], [_HEART_ATTACK, _INFARCTION]) == pytest.approx(4 / 3)


def test_two_predicted_terms_of_one_concept_count_once() -> None:
    assert concept_f1([_HEART_ATTACK, _INFARCTION], [_INFARCTION]) == pytest.approx(2 / 3)


def test_a_term_of_several_concepts_is_one_term() -> None:
    cold = [Concept("cold", "C0009443"), Concept("cold", "C0234192")]
    assert concept_f1(cold[:1], cold) == 1


@pytest.mark.parametrize(
    ("prediction", "reference"), [([], []), ([_FEVER], []), ([], [_FEVER]), ([_FEVER], [_INFARCTION])]
)
def test_nothing_shared_scores_0(prediction: list[Concept], reference: list[Concept]) -> None:
    assert concept_f1(prediction, reference) == 0


def test_quickumls_terms_are_those_of_the_vocabulary() -> None:
    assert _found("FEVER after Heart attack") == [_HEART_ATTACK, _FEVER]


def test_pairs_are_scored_in_their_order() -> None:
    pairs = [TextPair("Fever", "fever, heart attack"), TextPair("none", "fever")]
    assert Medcon(_found).score(pairs) == [(pytest.approx(2 / 3),), (0,)]


def _terms(folder: Path, *lines: str) -> Path:
    path = folder / "terms.tsv"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_the_longest_term_wins(tmp_path: Path) -> None:
    terms = read_terms(_terms(tmp_path, "heart\tC1", "heart failure\tC2", "acute heart\tC3"))
    assert terms.match("Acute heart failure.") == [Concept("heart failure", "C2")]


def test_of_equally_long_terms_the_first_wins(tmp_path: Path) -> None:
    terms = read_terms(_terms(tmp_path, "aa bb\tC1", "bb cc\tC2"))
    assert terms.match("aa bb cc") == [Concept("aa bb", "C1")]


def test_case_and_punctuation_are_ignored(tmp_path: Path) -> None:
    terms = read_terms(_terms(tmp_path, "Beta-Blocker\tC1"))
    assert terms.match("a BETA blocker, beta-blocker") == [Concept("beta blocker", "C1")] * 2


def test_parts_of_words_are_no_terms(tmp_path: Path) -> None:
    assert read_terms(_terms(tmp_path, "art\tC1")).match("heart smart arts") == []


def test_a_term_of_five_words_is_found(tmp_path: Path) -> None:
    terms = read_terms(_terms(tmp_path, "a b c d e\tC1"))
    assert terms.match("x a b c d e y") == [Concept("a b c d e", "C1")]


def test_a_term_of_several_concepts_gives_them_all(tmp_path: Path) -> None:
    terms = read_terms(_terms(tmp_path, "cold\tC1", "Cold\tC2", "cold\tC1"))
    assert terms.match("cold") == [Concept("cold", "C1"), Concept("cold", "C2")]


def test_a_heading_and_empty_lines_and_carriage_returns_are_no_terms(tmp_path: Path) -> None:
    terms = read_terms(_terms(tmp_path, "\ufeffTerm\tCUI\r", "", "fever\tC1\r", ""))
    assert terms.match("term fever") == [Concept("fever", "C1")]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("fever C1", "line 2: not a term, a tab and a CUI"),
        ("fever\t", "line 2: not a term, a tab and a CUI"),
        ("fever\tC1\tT047", "line 2: not a term, a tab and a CUI"),
        ("--\tC1", "line 2: the term has no letter or digit"),
        ("a b c d e f\tC1", "line 2: the term has 6 words"),
    ],
)
def test_a_line_of_another_form_is_named(line: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_terms(_terms(tmp_path, "cough\tC9", line))
    assert caught.value.fault == fault
    assert caught.value.remedy


def test_bytes_that_are_not_utf_8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(b"cough\tC9\nfi\xe8vre\tC1\n")
    with pytest.raises(InputError, match="line 2: not UTF-8"):
        read_terms(path)


def test_a_file_without_terms_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no term in it"):
        read_terms(_terms(tmp_path, "term\tCUI"))


def test_the_semantic_groups_have_their_sizes() -> None:
    assert [len(types) for types in SEMANTIC_GROUPS.values()] == [11, 20, 3, 12, 5, 6, 9]
    assert len(ACCEPTED_TYPES) == 66
