"""What one request asks for, whatever way it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from serving.protocol.reply import JsonSchema
from serving.protocol.thinking import Effort

Constraint = Literal["grammar", "json_schema", "tool", "object_schema", "json_object", "none"]
"""How a reply is constrained to its schema, the strongest first; `none` leaves it to prompt and parser.

`object_schema` is JSON mode with the schema inside, which llama-cpp-python takes instead of `json_schema`.
"""

LimitField = Literal["max_tokens", "max_completion_tokens"]
"""OpenAI's two names for the limit of a reply; each is refused by some servers."""


@dataclass(frozen=True, slots=True)
class CallParameters:
    """One request: `samples` holds the index of each sample that is asked for.

    With `choices` the log-probabilities of these words at the first token are wanted, and nothing else.

    Attributes:
        temperature: None for a model with a fixed one.
        max_tokens: Limit of one reply, thinking included.
        effort: How much the model is to think; None leaves that to the provider.
        effort_word: The provider's word for `effort`.
        limit_field: Field of the limit in OpenAI's protocol.
    """

    role: str
    case_id: str
    samples: tuple[int, ...]
    temperature: float | None
    max_tokens: int
    schema: JsonSchema | None
    schema_name: str
    seed: int | None = None
    constraint: Constraint = "none"
    logprobs: bool = False
    choices: tuple[str, ...] = ()
    effort: Effort | None = None
    effort_word: str = ""
    limit_field: LimitField = "max_tokens"

    @property
    def max_reply_tokens(self) -> int:
        """Limit of all samples together."""
        return self.max_tokens * len(self.samples)

    @property
    def is_plain(self) -> bool:
        """Whether the request has no parameter that some models do not offer."""
        constrained = self.schema is not None and self.constraint != "none"
        several = len(self.samples) > 1
        return not (constrained or several or self.logprobs or self.choices or self.seed is not None)
