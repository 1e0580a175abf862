"""A training recipe is one YAML file: an architecture, an objective, and how it is learned."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from cases.definitions import DefinitionKind, Section, values_sha256
from ranking.errors import RankerError
from ranking.models.config import ModelConfig
from ranking.noise import NoiseSettings

Objective = Literal["pointwise", "pairwise", "listwise", "pointwise+pairwise", "pointwise+listwise"]


class ObjectiveSettings(Section):
    """The objective and its constants; the defaults are the paper's where it gives them.

    Attributes:
        alpha: Share of the pointwise part in a hybrid; 0.1 lets the ranking part dominate.
        margin: By how many logits a positive sentence has to lead, of the pairwise part.
        hard_negatives: Number of highest-scored negative sentences that each positive one is compared with.
        pos_weight: Weight of a positive sentence in the pointwise part; see `balanced_pos_weight`.
    """

    objective: Objective = "pointwise"
    alpha: float = Field(0.1, ge=0, le=1)
    margin: float = Field(0.2, ge=0, allow_inf_nan=False)
    hard_negatives: int = Field(5, ge=1)
    pos_weight: float = Field(1.0, gt=0, allow_inf_nan=False)


Precision = Literal["auto", "float32", "bfloat16"]
Metric = Literal["average_precision", "micro_f1"]
CutoffRule = Literal["best", "threshold", "gap", "adaptive", "top_k"]


class SplitSettings(Section):
    """Held-out examples for early stopping, for tuning the cut-off and for the reported figures.

    Attributes:
        held_out: Share of the groups of examples.
        seed: Of the choice of groups.
    """

    held_out: float = Field(0.2, gt=0, lt=1)
    seed: int = 42


class Pretraining(Section):
    """Question answering as sentence classification, before the training proper (Abridge 2025, section 4.3).

    Attributes:
        data: Paths of labelled examples.
        epochs: Over them.
        max_examples: A random choice of as many; None takes all.
        head: `carry` keeps all learned weights, `fresh` only the backbone's.
    """

    data: tuple[str, ...] = ()
    epochs: int = Field(1, ge=1)
    max_examples: int | None = Field(None, ge=1)
    head: Literal["carry", "fresh"] = "carry"


class TrainingRecipe(Section):
    """A recipe.

    Attributes:
        model: The architecture.
        objective: The loss (TAMU 2026, section 4.1.2); takes its `pos_weight` from below.
        pos_weight: Weight of evidence in pointwise classification: `auto` is negatives over positives of
            the training examples, `off` is 1.
        epochs: At most.
        patience: Epochs without a better `metric` before training stops; None never stops early.
        metric: Of the held-out examples; the epoch where it is best is kept.
        encoder_lr: Of the backbone.
        head_lr: Of everything above it.
        weight_decay: Of matrices.
        warmup: Share of all steps in which the rates rise.
        clip: Largest norm of a gradient.
        precision: `auto` takes bfloat16 where the processor has instructions for it.
        noise: In the queries of training examples (Abridge 2025, section 5.2); None adds none.
        max_sentences: Of a longer document, a step takes all evidence and a random choice of the rest.
        max_pairs: Query-sentence pairs of one pass; more are split, their gradients summed.
        split: The held-out examples.
        cutoff: The rule that is tuned; `best` is the one that does best on the held-out examples.
        pretrain: None starts from the encoder alone.
        seed: Of weights, dropout, order and noise.
    """

    model: ModelConfig = ModelConfig()
    objective: ObjectiveSettings = ObjectiveSettings()
    pos_weight: Literal["auto", "off"] | Annotated[float, Field(gt=0)] = "auto"
    epochs: int = Field(10, ge=1)
    patience: int | None = Field(None, ge=1)
    metric: Metric = "average_precision"
    encoder_lr: float = Field(2e-5, gt=0)
    head_lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    warmup: float = Field(0.1, ge=0, lt=1)
    clip: float = Field(1.0, gt=0)
    precision: Precision = "auto"
    noise: NoiseSettings | None = None
    max_sentences: int = Field(256, ge=2)
    max_pairs: int = Field(256, ge=1)
    split: SplitSettings = SplitSettings()
    cutoff: CutoffRule = "best"
    pretrain: Pretraining | None = None
    seed: int = 42

    @field_validator("pos_weight", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: Any) -> Any:
        """YAML reads it as false."""
        return "off" if value is False else value

    @model_validator(mode="after")
    def _one_pos_weight(self) -> TrainingRecipe:
        if self.objective.pos_weight != 1:
            raise ValueError("objective.pos_weight is not read: set pos_weight next to objective")
        return self

    @property
    def sha256(self) -> str:
        """Digest of all values, including defaults; comments and order do not count."""
        return values_sha256(self)


TRAINING_RECIPES = DefinitionKind(
    "training recipe", "recipes", resources.files("ranking").joinpath("recipes"), RankerError
)


def load_training_recipe(name_or_path: str) -> TrainingRecipe:
    """Load a packaged recipe by its name, or a file of the user's.

    Raises:
        RankerError: It does not exist, is not YAML, or has an unknown field or a wrong value.
    """
    return TRAINING_RECIPES.load(TrainingRecipe, name_or_path)


def override(recipe: TrainingRecipe, changes: Mapping[str, Any], origin: str) -> TrainingRecipe:
    """A recipe with some values replaced, by dotted field such as `model.encoder`.

    Raises:
        RankerError: A new value is wrong.
    """
    return TRAINING_RECIPES.override(recipe, changes, origin)
