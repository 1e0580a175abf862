"""How well a sentence of an answer is supported by its record: records, and the rule that adds signals up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

from pydantic import Field

from cases.definitions import Section
from nodes.verification.text_checks import Fault, FaultKind

Support = Literal["supported", "contradicted", "not_stated"]

AnswerStatus = Literal["answered", "not_stated", "unsupported"]
"""`not_stated` cases end with the product's own sentence; `unsupported` answers are shown with marks."""

SUPPORT_WORDS: Mapping[Support, str] = {
    "supported": "supported",
    "contradicted": "contradicted",
    "not_stated": "not stated",
}
"""For people."""


class Finding(TypedDict):
    """One sentence of an answer.

    Attributes:
        id: Of the answer's sentence: "1", "2" and so on.
        text: The sentence.
        support: What the rule makes of all signals.
        sentence_ids: Of the record, that decide, in its order.
        probability: P(supported) by the rule; None if no model and no ranker was asked.
        faults: What deterministic checks find.
    """

    id: str
    text: str
    support: Support
    sentence_ids: list[str]
    probability: float | None
    faults: list[Fault]


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of one statement.

    Attributes:
        faults: Of `check_text`.
        cited: The model's log-odds that the cited sentences support it; None if not asked or not answered.
        note: The same for the whole record.
        label: The label of a model without log-probabilities.
        ranker: The highest log-odds of a ranker over the record.
        missing: Whether the model was asked and gave no usable reply.
        repeated: Whether it denies a thing that a sentence of the record denies in the same words.
    """

    faults: Sequence[Fault] = ()
    cited: float | None = None
    note: float | None = None
    label: Support | None = None
    ranker: float | None = None
    missing: bool = False
    repeated: bool = False


class SupportRule(Section):
    """From signals to P(supported): the logistic function of a weighted sum.

    Attributes:
        model_weight: Of the model's log-odds, the higher of those for the cited sentences and the record.
        ranker_weight: Of the ranker's log-odds.
        fault_weight: Taken off for each fault that is merely not stated.
        contradiction_weight: Taken off for each fault that the record contradicts.
        intercept: Added.
        least: P(supported) from which on a statement is supported.
    """

    model_weight: float = Field(1.0, ge=0, allow_inf_nan=False)
    ranker_weight: float = Field(0.0, ge=0, allow_inf_nan=False)
    fault_weight: float = Field(8.0, ge=0, allow_inf_nan=False)
    contradiction_weight: float = Field(8.0, ge=0, allow_inf_nan=False)
    intercept: float = Field(0.0, allow_inf_nan=False)
    least: float = Field(0.5, gt=0, lt=1)


_LABEL_LOG_ODDS = 4.0
"""What a label without a probability counts for."""

_MOST_LOG_ODDS = 6.0
"""Of a model or a ranker; beyond it, it is only surer of itself, and must not outvote a fault."""

_DECISIVE: frozenset[FaultKind] = frozenset({"undone", "unrelated"})
"""No model outvotes these: they mark none of the 256 right statements of `evigraph bench verification`."""

_REPEATED_LOG_ODDS = 2.0
"""Small models doubt that a drug was not given even where its record reports it."""

_DIGITS = 4


def judge(signals: Signals, rule: SupportRule) -> tuple[Support, float | None]:
    """The support of a statement, and P(supported); None if only text checks judged it."""
    told = [_limited(one) for one in (signals.cited, signals.note) if one is not None]
    if signals.label is not None:
        told.append(_LABEL_LOG_ODDS if signals.label == "supported" else -_LABEL_LOG_ODDS)
    total = rule.intercept + (rule.model_weight * max(told) if told else 0.0)
    if signals.ranker is not None:
        total += rule.ranker_weight * _limited(signals.ranker)
    contradicting = sum(fault["contradicts"] for fault in signals.faults)
    total -= rule.contradiction_weight * contradicting
    total -= rule.fault_weight * (len(signals.faults) - contradicting)
    total += _REPEATED_LOG_ODDS * signals.repeated
    decisive = sum(fault["kind"] in _DECISIVE for fault in signals.faults)
    total -= rule.model_weight * _MOST_LOG_ODDS * decisive
    if not told and signals.ranker is None:
        supported, share = not signals.faults and not signals.missing, None
    else:
        share = round(1 / (1 + math.exp(-total)), _DIGITS)
        supported = share >= rule.least
    if supported:
        return "supported", share
    denied = contradicting or signals.label == "contradicted"
    return ("contradicted" if denied else "not_stated"), share


def _limited(log_odds: float) -> float:
    return max(-_MOST_LOG_ODDS, min(_MOST_LOG_ODDS, log_odds))


def without_texts(findings: Sequence[Mapping[str, Any]]) -> object:
    """Findings without what quotes a case: ids, labels and numbers."""
    return [
        {
            "id": one["id"],
            "support": one["support"],
            "sentence_ids": one["sentence_ids"],
            "probability": one["probability"],
            "faults": [fault["kind"] for fault in one["faults"]],
        }
        for one in findings
    ]


def finding_words(finding: Mapping[str, Any]) -> str:
    """`not stated in the note, P(supported) 0.03; the number 7 is stated nowhere`, for people.

    Of a finding that `without_texts` has left, the kinds of its faults.
    """
    share = finding["probability"]
    parts = [SUPPORT_WORDS[finding["support"]] + ("" if share is None else f", P(supported) {share:.2f}")]
    faults = (fault if isinstance(fault, str) else fault["text"] for fault in finding["faults"])
    return "; ".join([*parts, *faults])


def quotable_fault(finding: Finding) -> str:
    """What is wrong with a sentence of an answer, for the model that wrote it."""
    why = "; ".join(fault["text"] for fault in finding["faults"]) or "the record does not state it"
    if finding["support"] == "contradicted" and not finding["faults"]:
        why = "the record says otherwise"
    return f'"{finding["text"]}" is not supported by the record: {why}'


class MarkedSentence(NamedTuple):
    """A sentence of an answer as it is shown; `mark` is empty if it is supported, or was not verified."""

    text: str
    mark: str
    sentence_ids: list[str]

    @property
    def words(self) -> str:
        """As plain text, with the mark in brackets."""
        return f"{self.text} [{self.mark}]" if self.mark else self.text


def marked_sentence(finding: Mapping[str, Any]) -> MarkedSentence:
    """One finding as it is shown."""
    mark = "" if finding["support"] == "supported" else SUPPORT_WORDS[finding["support"]]
    return MarkedSentence(finding["text"], mark, finding["sentence_ids"])


def marked_answer(line: Mapping[str, Any]) -> list[MarkedSentence]:
    """The answer of a case by its line of `cases.jsonl`; one sentence if it was not verified."""
    if not line.get("answer"):
        return []
    found = [marked_sentence(one) for one in line.get("answer_support") or ()]
    return found or [MarkedSentence(line["answer"], "", list(line.get("nearest_sentences") or ()))]


def marked_text(line: Mapping[str, Any]) -> str:
    """The answer of a case as plain text, unsupported sentences with their mark in brackets."""
    sentences = marked_answer(line)
    if not any(one.mark for one in sentences):
        return line.get("answer") or ""
    return " ".join(one.words for one in sentences)
