"""The recipe that a calibration produces: the rule, and the data used to choose it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from evals.calibration.calibrate import Calibration
from evals.calibration.render import SHARE
from graph.recipe import make_recipe
from graph.system import find_system
from nodes.core.recipe import set_values
from nodes.evidence.calibration import Bound, CalibrationSettings
from runs.execute.calibration import shaped_by
from storage.files import write_atomically


def calibrated_values(made: Calibration, origin: str) -> dict[str, Any]:
    """The fields of the recipe, without those that have their default.

    Raises:
        RecipeError: The base contradicts the rule.
    """
    data, rule = made.data, made.rule
    voters = {(True, True): "both", (True, False): "llm", (False, True): "ranker"}
    values = {"system": data.recipe.system, **set_values(data.recipe)}
    # A voter that the rule does not read is not asked: its calls would be spent for nothing.
    evidence = {**values.get("evidence", {}), "voters": voters[rule.reads_model, rule.reads_ranker]}
    if rule.reads_ranker and data.ranker is not None:
        evidence["ranker"] = data.ranker
    values["evidence"] = {**evidence, "rule": rule.model_dump(mode="json", exclude_none=True)}
    bound = None
    if made.bound is not None:
        wish, proven = made.bound.wish, made.bound.proven
        values["review"] = {**values.get("review", {}), "confidence": proven.threshold}
        bound = Bound(
            risk=wish.risk,
            confidence=wish.confidence,
            loss=wish.loss,
            cases=made.bound.cases,
            answered=proven.answered,
        )
    values.pop("calibration", None)
    recipe = make_recipe(values, origin)
    settings = CalibrationSettings(
        data_sha256=data.sha256,
        cases=len(data.cases),
        fingerprints=tuple(sorted({case.fingerprint for case in data.cases})),
        bound=bound,
        **shaped_by(find_system(recipe.system), recipe, data.manifest, data.resources),
    )
    values["calibration"] = settings.model_dump(mode="json", exclude_none=True)
    return values


def write_recipe(path: Path, made: Calibration) -> None:
    """Write the recipe, with figures in its head.

    Raises:
        RecipeError: The base contradicts the rule.
        InputError: The file cannot be written.
    """
    values = calibrated_values(made, str(path))
    make_recipe(values, str(path))
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    write_atomically(path, ["".join(f"# {line}\n" for line in _head(made)).encode(), text.encode()])


def _head(made: Calibration) -> Iterator[str]:
    f1, cases = made.f1, len(made.data.cases)
    yield f"Written by `evigraph calibrate` from {cases:,} labelled cases."
    yield f"Evidence F1 {SHARE.number(f1.value)} {SHARE.bracket(f1)} on cases that the rule was not chosen on"
    yield f"({made.split}). It holds for the models, prompts and ranker below, on cases like these."
    if made.bound is not None:
        wish = made.bound.wish
        yield (
            f"Bound: mean loss ({wish.loss}) of cases answered without a person at most {wish.risk:g}, with"
            f" probability {wish.confidence:g}."
        )
