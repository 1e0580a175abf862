"""What tokens cost, from a file of the user's."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serving.errors import ModelError

_MILLION = 1_000_000


class Price(BaseModel):
    """Price of a million tokens; tokens that the server had cached cost `cached_input` where that is set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(None, ge=0, allow_inf_nan=False)

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Of one or more calls, in the currency of the file."""
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = input_tokens - cached_tokens
        return (fresh * self.input + cached_tokens * cached_price + output_tokens * self.output) / _MILLION


Prices = dict[str, Price]
"""Prices by model, as `provider:name` without an address."""


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: Prices


def load_prices(path: Path) -> Prices:
    """Read a YAML file: `models: {"openai:gpt-x": {input: 1.25, output: 10, cached_input: 0.13}}`.

    Raises:
        ModelError: It cannot be read, or a price is missing or negative.
    """
    try:
        return _PriceFile.model_validate(yaml.safe_load(path.read_text("utf-8"))).models
    except OSError as error:
        raise ModelError(f"price file {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ModelError(f"price file {path}: {place}: {first['msg']}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ModelError(f"price file {path}: {' '.join(str(error).split())}") from None
