"""Cut-off rules in one word, as the command line has them."""

from __future__ import annotations

from pydantic import ValidationError

from ranking.cutoffs import AdaptiveSoftK, Cutoff, FixedThreshold, ScoreGap, TopK

EXAMPLES = "threshold=0.4, threshold=0.4,empty, gap, gap=5, adaptive, adaptive=0.5,0.3, top_k=3"


def parse_cutoff(text: str) -> Cutoff:
    """Read a rule.

    Args:
        text: The name of a rule, and after `=` its parameters in the order of the rule's fields, parted by
            commas. `empty` after a threshold lets it select nothing.

    Raises:
        ValueError: There is no such rule, or a parameter is wrong.
    """
    name, _, rest = text.strip().partition("=")
    values = [value.strip() for value in rest.split(",")] if rest else []
    try:
        match name, values:
            case "threshold", [*tau, "empty"]:
                return FixedThreshold.model_validate({**_named(tau, "tau"), "fallback": False})
            case "threshold", _:
                return FixedThreshold.model_validate(_named(values, "tau"))
            case "gap", _:
                return ScoreGap.model_validate(_named(values, "max_k"))
            case "adaptive", _:
                return AdaptiveSoftK.model_validate(_named(values, "tau0", "entropy_weight"))
            case "top_k", _:
                return TopK.model_validate(_named(values, "k"))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{text!r}: {field}: {first['msg']}") from None
    raise ValueError(f"{text!r} is no cut-off; there are {EXAMPLES}")


def cutoff_text(cutoff: Cutoff) -> str:
    """The rule in the words that `parse_cutoff` reads."""
    match cutoff:
        case FixedThreshold():
            return f"threshold={cutoff.tau:g}" + ("" if cutoff.fallback else ",empty")
        case ScoreGap():
            return "gap" if cutoff.max_k is None else f"gap={cutoff.max_k}"
        case AdaptiveSoftK():
            return f"adaptive={cutoff.tau0:g},{cutoff.entropy_weight:g}"
        case TopK():
            return f"top_k={cutoff.k}"


def _named(values: list[str], *names: str) -> dict[str, str]:
    if len(values) > len(names):
        raise ValueError(f"{values[len(names)]!r}: the rule takes at most {', '.join(names)}")
    return dict(zip(names, values, strict=False))
