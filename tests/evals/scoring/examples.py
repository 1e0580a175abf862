"""Predictions and keys in as few letters as possible."""

from __future__ import annotations

from cases.records import Label
from cases.submissions.archehr import Prediction
from evals.scoring.gold import GoldCase


def evidence(case_id: str, ids: str) -> Prediction:
    return Prediction(case_id, evidence=tuple(ids))


def links(case_id: str, **of_answer: str) -> Prediction:
    """`a1="34"`: answer sentence 1 is supported by sentences 3 and 4."""
    pairs = ((name.removeprefix("a"), id_) for name, ids in of_answer.items() for id_ in ids)
    return Prediction(case_id, links=tuple(pairs))


def labelled(case_id: str, essential: str = "", supplementary: str = "", rest: str = "") -> GoldCase:
    labels: dict[str, Label] = dict.fromkeys(essential, "essential")
    labels |= dict.fromkeys(supplementary, "supplementary")
    labels |= dict.fromkeys(rest, "not-relevant")
    return GoldCase(case_id, labels=labels)


def linked(case_id: str, answers: int, **of_answer: str) -> GoldCase:
    pairs = frozenset((name.removeprefix("a"), id_) for name, ids in of_answer.items() for id_ in ids)
    return GoldCase(case_id, links=pairs, answer_ids=tuple(str(1 + n) for n in range(answers)))
