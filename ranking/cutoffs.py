"""From scores to a selection (TAMU 2026, section 4.1.2)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Rule(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FixedThreshold(_Rule):
    """All with a probability of at least `tau`; the best one where there is none and `fallback` is set."""

    rule: Literal["threshold"] = "threshold"
    tau: float = Field(0.4, ge=0, le=1)
    fallback: bool = True


class ScoreGap(_Rule):
    """Everything before the widest gap between neighbours of the ranking; at most `max_k`."""

    rule: Literal["gap"] = "gap"
    max_k: int | None = Field(None, ge=1)


class AdaptiveSoftK(_Rule):
    """As many as reach a share of the softmax that grows with its entropy."""

    rule: Literal["adaptive"] = "adaptive"
    tau0: float = Field(0.5, ge=0, le=1)
    entropy_weight: float = 0.3


class TopK(_Rule):
    """The best `k`."""

    rule: Literal["top_k"] = "top_k"
    k: int = Field(3, ge=1)


Cutoff = Annotated[FixedThreshold | ScoreGap | AdaptiveSoftK | TopK, Field(discriminator="rule")]
