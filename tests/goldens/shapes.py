"""What is kept of an object that a command prints with `--json`: its keys and types, or its figures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

RESULTS = "results"
"""The folder of goldens whose numbers are compared as numbers."""

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
TOLERANCE = 1e-9

_TYPES = {str: "text", bool: "true or false", int: "integer", float: "number", type(None): "null"}
_IS_A_KEY = re.compile(r"[A-Za-z_][\w-]*")
_NAMES = ("name", "task", "part", "metric", "table", "classes", "case_id")
"""Keys by which an element of a list is known, the first that it has."""
_NO_RESULTS = {"judged_by", "intervals", "html"}


def shape_text(printed: str) -> str:
    """A line for each key of the object: its path and the types that its values have.

    Elements of a list are taken together, and so are values of keys that are ids rather than names. Text
    that is not one object in one line, as `--json` promises, is returned as it is.
    """
    try:
        value = json.loads(printed)
    except ValueError:
        return printed
    if printed != json.dumps(value, ensure_ascii=False) + "\n":
        return printed
    types: dict[str, set[str]] = {}
    for path, name in _leaves(value, ""):
        types.setdefault(path, set()).add(name)
    return "".join(f"{path}: {', '.join(sorted(names))}\n" for path, names in types.items())


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            name = key if _IS_A_KEY.fullmatch(key) else "ID"
            yield from _leaves(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for one in value:
            yield from _leaves(one, f"{path}[]")
    elif isinstance(value, dict | list):
        yield path, "empty"
    else:
        yield path, _TYPES[type(value)]


def results_text(command: str, printed: str) -> str:
    """A line for each figure of the object: its path, its value and, where it has one, its interval."""
    lines = [f"{path}: {json.dumps(figures)}" for path, figures in _figures(json.loads(printed), "")]
    return "\n".join((command, *lines))


def _figures(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All numbers by their path; a value with an interval is one list, whatever keys the two have."""
    if isinstance(value, dict):
        low, high = value.get("interval") or (value.get("low"), value.get("high"))
        if "value" in value and low is not None:
            yield path, [value["value"], low, high]
            rest = {key: one for key, one in value.items() if key not in ("value", "interval", "low", "high")}
            yield from _figures(rest, path)
        elif len(value) > 1 and all(_is_figure(one) for one in value.values()):
            yield path, value
        else:
            intervals = value.get("intervals") or {}
            for key, one in value.items():
                if key in _NO_RESULTS:
                    continue
                yield from _figures(_with_intervals(one, intervals), f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if value and all(_is_figure(one) for one in value):
            yield path, value
        else:
            for number, one in enumerate(value):
                names = [str(one[key]) for key in _NAMES if key in one] if isinstance(one, dict) else []
                yield from _figures(one, f"{path}[{names[0] if names else number}]")
    elif _is_figure(value):
        yield path, value


def _with_intervals(values: Any, intervals: dict[str, Any]) -> Any:
    """Scores of a dictionary with their intervals."""
    if not isinstance(values, dict) or not intervals.keys() & values.keys():
        return values
    return {key: {"value": one, "interval": intervals.get(key)} for key, one in values.items()}


def _is_figure(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def same_results(one: str, other: str) -> bool:
    """Whether two texts have equal words, and numbers that differ by no more than 1e-9."""
    texts = zip_longest(NUMBER.split(one), NUMBER.split(other))
    numbers = zip_longest(NUMBER.findall(one), NUMBER.findall(other), fillvalue="nan")
    return all(first == second for first, second in texts) and all(
        math.isclose(float(first), float(second), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for first, second in numbers
    )
