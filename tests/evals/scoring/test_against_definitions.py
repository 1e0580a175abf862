"""Random predictions and keys, against the definitions written out again, slowly and with fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases.records import Label
from cases.submissions.archehr import Prediction
from evals.scoring.gold import GoldCase
from evals.scoring.score import score

IDS = "12345678"
LABELS: tuple[Label, ...] = ("essential", "supplementary", "not-relevant")
ZERO, ONE = Fraction(0), Fraction(1)

Key = list[dict[str, Label]]
Made = list[set[str]]

notes = st.dictionaries(st.sampled_from(IDS), st.sampled_from(LABELS), min_size=1)


@st.composite
def evidence_tasks(draw: st.DrawFn) -> tuple[Key, Made]:
    key = draw(st.lists(notes, min_size=1, max_size=6))
    return key, [draw(st.sets(st.sampled_from(sorted(note)))) for note in key]


def ratio(above: int, below: int) -> Fraction:
    return Fraction(above, below) if below else ZERO


def one_case(predicted: set[str], gold: set[str], both_empty: Fraction) -> list[Fraction]:
    if not predicted and not gold:
        return [both_empty] * 3
    correct = 0
    for id_ in predicted:
        if id_ in gold:
            correct += 1
    precision, recall = ratio(correct, len(predicted)), ratio(correct, len(gold))
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else ZERO
    return [precision, recall, f1]


def expected(pairs: list[tuple[set[str], set[str]]], both_empty: Fraction) -> dict[str, list[Fraction]]:
    each = [one_case(predicted, gold, both_empty) for predicted, gold in pairs]
    # Pooling is scoring one large case whose items carry the number of theirs.
    predicted = {f"{number} {id_}" for number, (ids, _) in enumerate(pairs) for id_ in ids}
    gold = {f"{number} {id_}" for number, (_, ids) in enumerate(pairs) for id_ in ids}
    return {
        "macro": [sum((values[part] for values in each), ZERO) / len(each) for part in range(3)],
        "micro": one_case(predicted, gold, both_empty),
    }


def having(note: dict[str, Label], *labels: Label) -> set[str]:
    return {id_ for id_, label in note.items() if label in labels}


def check(values: object, prefix: str, wanted: dict[str, list[Fraction]]) -> None:
    assert isinstance(values, dict)
    for average, numbers in wanted.items():
        for part, number in zip(("precision", "recall", "f1"), numbers, strict=True):
            name = "_".join(filter(None, (prefix, average, part)))
            assert values[name] == pytest.approx(float(100 * number), abs=1e-9), name


@given(evidence_tasks())
def test_evidence(task: tuple[Key, Made]) -> None:
    key, made = task
    gold = {str(number): GoldCase(str(number), labels=note) for number, note in enumerate(key)}
    predictions = [Prediction(str(number), evidence=tuple(ids)) for number, ids in enumerate(made)]
    scores = score("2026-2", predictions, gold)
    strict = [(ids, having(note, "essential")) for ids, note in zip(made, key, strict=True)]
    lenient = [
        (ids - having(note, "supplementary"), having(note, "essential"))
        for ids, note in zip(made, key, strict=True)
    ]
    check(scores.values, "strict", expected(strict, ONE))
    check(scores.values, "lenient", expected(lenient, ONE))


@given(evidence_tasks())
def test_factuality_of_2025(task: tuple[Key, Made]) -> None:
    key, made = task
    gold = {str(number): GoldCase(str(number), labels=note) for number, note in enumerate(key)}
    predictions = [
        Prediction(str(number), evidence=tuple(ids), answer="So.") for number, ids in enumerate(made)
    ]
    values = score("2025", predictions, gold).values
    strict = [(ids, having(note, "essential")) for ids, note in zip(made, key, strict=True)]
    lenient = [(ids, having(note, "essential", "supplementary")) for ids, note in zip(made, key, strict=True)]
    check(values, "strict", expected(strict, ZERO))
    check(values, "lenient", expected(lenient, ZERO))


links = st.sets(st.tuples(st.sampled_from("123"), st.sampled_from(IDS)))


@given(st.lists(st.tuples(links, links), min_size=1, max_size=6))
def test_links(pairs: list[tuple[set[tuple[str, str]], set[tuple[str, str]]]]) -> None:
    gold = {
        str(number): GoldCase(str(number), links=frozenset(wanted), answer_ids=("1", "2", "3"))
        for number, (_, wanted) in enumerate(pairs)
    }
    predictions = [Prediction(str(number), links=tuple(made)) for number, (made, _) in enumerate(pairs)]
    joined = [
        ({"-".join(link) for link in made}, {"-".join(link) for link in wanted}) for made, wanted in pairs
    ]
    check(score("2026-4", predictions, gold).values, "", expected(joined, ZERO))


@given(evidence_tasks())
def test_lenient_recall_of_2026_is_strict_recall(task: tuple[Key, Made]) -> None:
    key, made = task
    gold = {str(number): GoldCase(str(number), labels=note) for number, note in enumerate(key)}
    predictions = [Prediction(str(number), evidence=tuple(ids)) for number, ids in enumerate(made)]
    values = score("2026-2", predictions, gold).values
    if all("essential" in note.values() for note in key):
        assert values["lenient_macro_recall"] == pytest.approx(values["strict_macro_recall"])
    if any("essential" in note.values() for note in key):
        assert values["lenient_micro_recall"] == values["strict_micro_recall"]
        assert values["lenient_micro_precision"] >= values["strict_micro_precision"]
