"""Cut-off rules in one word, as the command line has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from ranking.cutoffs import Autocut, Cutoff, FixedThreshold

EXAMPLES = (
    "threshold=0.4, threshold=0.4,empty, gap, gap=5, adaptive, adaptive=0.5,0.3, top_k=3, autocut, autocut=2,"
    " autocut_star, elbow, surprise, surprise=min:3, surprise_clean=0.05,min:3"
)

_MINIMUM = "min:"
_EMPTY = "empty"
_CUTOFF: TypeAdapter[Cutoff] = TypeAdapter(Cutoff)


class _Form(NamedTuple):
    """What may follow the name of a rule: these fields in this order, then a word."""

    fields: tuple[str, ...] = ()
    takes_empty: bool = False
    takes_minimum: bool = False


_FORMS: Mapping[str, _Form] = {
    "threshold": _Form(("tau",), takes_empty=True),
    "gap": _Form(("max_k",)),
    "adaptive": _Form(("tau0", "entropy_weight")),
    "top_k": _Form(("k",)),
    "autocut": _Form(("jumps",), takes_minimum=True),
    "autocut_star": _Form(takes_minimum=True),
    "elbow": _Form(takes_minimum=True),
    "surprise": _Form(takes_minimum=True),
    "surprise_clean": _Form(("alpha",), takes_minimum=True),
}


def parse_cutoff(text: str) -> Cutoff:
    """Read a rule.

    Args:
        text: The name of a rule, and after `=` its parameters in the order of the rule's fields, parted by
            commas. `empty` after a threshold lets it select nothing; `min:3` makes a truncation take at least
            three.

    Raises:
        ValueError: There is no such rule, or a parameter is wrong.
    """
    name, _, rest = text.strip().partition("=")
    form = _FORMS.get(name)
    if form is None:
        raise ValueError(f"{text!r} is no cut-off; there are {EXAMPLES}")
    values = [value.strip() for value in rest.split(",")] if rest else []
    word = _last_word(form, values)
    if len(values) > len(form.fields):
        takes = ", ".join(form.fields) or "no number"
        raise ValueError(f"{values[len(form.fields)]!r}: the rule takes at most {takes}")
    try:
        return _CUTOFF.validate_python({"rule": name, **dict(zip(form.fields, values, strict=False)), **word})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:])
        raise ValueError(f"{text!r}: {field}: {first['msg']}") from None


def cutoff_text(cutoff: Cutoff) -> str:
    """The rule in the words that `parse_cutoff` reads."""
    form = _FORMS[cutoff.rule]
    fields = cutoff.model_dump()
    values = [_shown(fields[field]) for field in form.fields if fields[field] is not None]
    if isinstance(cutoff, Autocut) and cutoff.jumps == 1:
        values = []
    if isinstance(cutoff, FixedThreshold) and not cutoff.fallback:
        values.append(_EMPTY)
    if fields.get("minimum", 1) > 1:
        values.append(f"{_MINIMUM}{fields['minimum']}")
    return f"{cutoff.rule}={','.join(values)}" if values else cutoff.rule


def _last_word(form: _Form, values: list[str]) -> dict[str, Any]:
    """Take the word off the values."""
    last = values[-1] if values else ""
    if form.takes_empty and last == _EMPTY:
        values.pop()
        return {"fallback": False}
    if form.takes_minimum and last.startswith(_MINIMUM):
        values.pop()
        return {"minimum": last.removeprefix(_MINIMUM)}
    return {}


def _shown(value: float) -> str:
    return f"{value:g}"
