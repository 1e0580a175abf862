"""What one request asks for, whatever way it goes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

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

    @property
    def form(self) -> str:
        """All that shapes the request beside its conversation, as JSON, with the schema in its own order."""
        fields = asdict(self)
        for name in ("role", "case_id", "samples"):
            del fields[name]
        return json.dumps(fields)

    @classmethod
    def of_form(cls, form: str, role: str, case_id: str, samples: tuple[int, ...]) -> CallParameters:
        """The request of a `form`."""
        fields: dict[str, Any] = json.loads(form)
        return cls(role, case_id, samples, **{**fields, "choices": tuple(fields["choices"])})
