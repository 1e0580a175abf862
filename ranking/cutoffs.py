"""Rules that turn scores into a selection, and the words that the command line has for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from cases.definitions import Section
from ranking.prefixes import (
    Floats,
    adaptive_prefix,
    checked_scores,
    deviations_prefix,
    gap_prefix,
    ranking_order,
    share_prefix,
    threshold_prefix,
    top_prefix,
)
from ranking.truncation.rules import autocut, autocut_star, elbow, surprise, surprise_clean


class FixedThreshold(Section):
    """All with a probability of at least `tau`; the best one where there is none and `fallback` is set."""

    rule: Literal["threshold"] = "threshold"
    tau: float = Field(0.4, ge=0, le=1)
    fallback: bool = True


class ScoreGap(Section):
    """Everything before the widest gap of the ranking, of the gaps after its first `max_k` sentences."""

    rule: Literal["gap"] = "gap"
    max_k: int | None = Field(None, ge=1)


class AdaptiveSoftK(Section):
    """As many as reach a share of the softmax that grows with its entropy."""

    rule: Literal["adaptive"] = "adaptive"
    tau0: float = Field(0.5, ge=0, le=1)
    entropy_weight: float = Field(0.3, allow_inf_nan=False)


class TopK(Section):
    """The best `k`."""

    rule: Literal["top_k"] = "top_k"
    k: int = Field(3, ge=1)


class Share(Section):
    """The best of a document by a share of its sentences, rounded, and never fewer than one.

    It reads only the order, so it carries over to data with another range of scores.
    """

    rule: Literal["share"] = "share"
    share: float = Field(0.35, gt=0, le=1)


class Deviations(Section):
    """All scores `above` standard deviations over their document's mean; at least one."""

    rule: Literal["deviations"] = "deviations"
    above: float = Field(0.5, allow_inf_nan=False)


class _Truncation(Section):
    """A rule that looks for the end of the good scores; it needs no probabilities.

    Attributes:
        minimum: At least as many are taken, where there are as many.
    """

    minimum: int = Field(1, ge=1)


class Autocut(_Truncation):
    """Everything before a jump of the scores, the first one unless `jumps` says another."""

    rule: Literal["autocut"] = "autocut"
    jumps: int = Field(1, ge=1)


class AutocutStar(_Truncation):
    """Everything before the first gap that is a standard deviation wider than the mean gap."""

    rule: Literal["autocut_star"] = "autocut_star"


class Elbow(_Truncation):
    """Everything before the score that is furthest from the straight line between the first and the last."""

    rule: Literal["elbow"] = "elbow"


class Surprise(_Truncation):
    """Outliers from a generalised Pareto distribution of the scores, as heiDS released it."""

    rule: Literal["surprise"] = "surprise"


class SurpriseClean(_Truncation):
    """Scores that the fitted tail of the scores reaches with a probability of at most `alpha`."""

    rule: Literal["surprise_clean"] = "surprise_clean"
    alpha: float = Field(0.05, gt=0, lt=1)


Cutoff = Annotated[
    FixedThreshold
    | ScoreGap
    | AdaptiveSoftK
    | TopK
    | Share
    | Deviations
    | Autocut
    | AutocutStar
    | Elbow
    | Surprise
    | SurpriseClean,
    Field(discriminator="rule"),
]


def select(rule: Cutoff, scores: Sequence[float] | NDArray[np.floating[Any]]) -> list[int]:
    """Choose sentences of a document.

    Returns:
        Positions in document order. At least one of a document that has sentences, but for a threshold
        without fallback. Of equal scores the earlier sentence ranks first.

    Raises:
        ValueError: A score is not finite.
    """
    values = checked_scores(scores)
    if not values.size:
        return []
    order = ranking_order(values)
    return sorted(order[: kept(rule, values[order])].tolist())


def kept(rule: Cutoff, ranked: Floats) -> int:
    """How many a rule keeps of a ranking that is there already, as where many rules cut one ranking."""
    match rule:
        case FixedThreshold():
            return int(threshold_prefix(ranked, np.asarray(rule.tau), rule.fallback))
        case ScoreGap():
            return gap_prefix(ranked, rule.max_k)
        case AdaptiveSoftK():
            return int(adaptive_prefix(ranked, np.asarray(rule.tau0), np.asarray(rule.entropy_weight)))
        case TopK():
            return top_prefix(ranked, rule.k)
        case Share():
            return int(share_prefix(ranked.size, np.asarray(rule.share)))
        case Deviations():
            return int(deviations_prefix(ranked, np.asarray(rule.above)))
        case _:
            return min(max(_truncated(rule, ranked), rule.minimum), ranked.size)


def _truncated(rule: Autocut | AutocutStar | Elbow | Surprise | SurpriseClean, ranked: Floats) -> int:
    match rule:
        case Autocut():
            return autocut(ranked, rule.jumps)
        case AutocutStar():
            return autocut_star(ranked)
        case Elbow():
            return elbow(ranked)
        case Surprise():
            return surprise(ranked)
        case SurpriseClean():
            return surprise_clean(ranked, rule.alpha)


EXAMPLES = (
    "threshold=0.4, threshold=0.4,empty, gap, gap=5, adaptive, adaptive=0.5,0.3, top_k=3, share=0.35,"
    " deviations=0.5, autocut, autocut=2,"
    " autocut_star, elbow, surprise, surprise=min:3, surprise_clean=0.05,min:3"
)

_MINIMUM = "min:"
_EMPTY = "empty"
_CUTOFF: TypeAdapter[Cutoff] = TypeAdapter(Cutoff)


_RULES: Mapping[str, type[Section]] = {
    rule.model_fields["rule"].default: rule for rule in get_args(get_args(Cutoff)[0])
}
_WORDS = ("rule", "fallback", "minimum")
"""Fields written as a word at the end instead of as numbers after the rule's name."""


def _numbers(rule: str) -> list[str]:
    return [field for field in _RULES[rule].model_fields if field not in _WORDS]


def parse_cutoff(text: str) -> Cutoff:
    """Read a rule.

    Args:
        text: The name of a rule, and after `=` its parameters in the order of the rule's fields, separated
            by commas. `empty` after a threshold lets it select nothing; `min:3` makes a truncation take at
            least three.

    Raises:
        ValueError: The rule is unknown, or a parameter is wrong.
    """
    name, _, rest = text.strip().partition("=")
    if name not in _RULES:
        raise ValueError(f"unknown cut-off {text!r}; choose from {EXAMPLES}")
    values = [value.strip() for value in rest.split(",")] if rest else []
    fields, word = _numbers(name), _last_word(name, values)
    if len(values) > len(fields):
        takes = ", ".join(fields) or "no number"
        raise ValueError(f"{values[len(fields)]!r}: the rule takes at most {takes}")
    try:
        return _CUTOFF.validate_python({"rule": name, **dict(zip(fields, values, strict=False)), **word})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:])
        raise ValueError(f"{text!r}: {field}: {first['msg']}") from None


def cutoff_text(cutoff: Cutoff) -> str:
    """The rule in the words that `parse_cutoff` reads."""
    fields = cutoff.model_dump()
    values = [f"{fields[field]:g}" for field in _numbers(cutoff.rule) if fields[field] is not None]
    if isinstance(cutoff, Autocut) and cutoff.jumps == 1:
        values = []
    if isinstance(cutoff, FixedThreshold) and not cutoff.fallback:
        values.append(_EMPTY)
    if fields.get("minimum", 1) > 1:
        values.append(f"{_MINIMUM}{fields['minimum']}")
    return f"{cutoff.rule}={','.join(values)}" if values else cutoff.rule


def _last_word(rule: str, values: list[str]) -> dict[str, Any]:
    """Take the word off the values."""
    last = values[-1] if values else ""
    if "fallback" in _RULES[rule].model_fields and last == _EMPTY:
        values.pop()
        return {"fallback": False}
    if "minimum" in _RULES[rule].model_fields and last.startswith(_MINIMUM):
        values.pop()
        return {"minimum": last.removeprefix(_MINIMUM)}
    return {}
