"""What one request asks for, whatever way it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from serving.reply import JsonSchema

Constraint = Literal["grammar", "json_schema", "tool", "json_object", "none"]
"""How a reply is constrained to its schema, the strongest first; `none` leaves it to prompt and parser."""


@dataclass(frozen=True, slots=True)
class CallParameters:
    """One request: `samples` holds the index of each sample that is asked for.

    With `choices` the log-probabilities of these words at the first token are wanted, and nothing else.
    """

    role: str
    case_id: str
    samples: tuple[int, ...]
    temperature: float
    max_tokens: int
    schema: JsonSchema | None
    schema_name: str
    seed: int | None = None
    constraint: Constraint = "none"
    logprobs: bool = False
    choices: tuple[str, ...] = ()

    @property
    def max_reply_tokens(self) -> int:
        """Limit of all samples together."""
        return self.max_tokens * len(self.samples)
