"""The cut-offs of heiDS's table 1, with and without a floor."""

from __future__ import annotations

from collections.abc import Mapping

from ranking.cutoffs import Autocut, AutocutStar, Cutoff, Elbow, Surprise, SurpriseClean, TopK

FLOOR = 3
FLOORS = (1, 2, 3, 5, 8, 10, 15, 20)
"""What the curve of precision and recall goes through."""

_FIXED = (3, 10, 15, 20, 54)

TRUNCATIONS: Mapping[str, Autocut | AutocutStar | Elbow | Surprise | SurpriseClean] = {
    "autocut": Autocut(),
    "autocut*": AutocutStar(),
    "elbow": Elbow(),
    "surprise": Surprise(),
    "surprise clean": SurpriseClean(),
}


def strategies() -> dict[str, Cutoff]:
    """All rows of the table by name: fixed sizes, truncations, truncations with a floor."""
    rows: dict[str, Cutoff] = {f"fixed k = {size}": TopK(k=size) for size in _FIXED}
    rows.update(TRUNCATIONS)
    rows.update({f"{name}, min {FLOOR}": with_floor(name, FLOOR) for name in TRUNCATIONS})
    return rows


def with_floor(name: str, floor: int) -> Cutoff:
    """A truncation that keeps at least so many."""
    return TRUNCATIONS[name].model_copy(update={"minimum": floor})
