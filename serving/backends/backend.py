"""What the client needs to know of a model behind any provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from serving.journal import Message
from serving.model_name import ModelName
from serving.reply import JsonSchema


@dataclass(frozen=True, slots=True)
class CallParameters:
    """One request: `samples` holds the index of each sample that is asked for."""

    role: str
    case_id: str
    samples: tuple[int, ...]
    temperature: float
    max_tokens: int
    seed: int
    schema: JsonSchema | None
    schema_name: str


@dataclass(frozen=True, slots=True)
class Backend:
    """A chat model with what sets its provider apart.

    Attributes:
        endpoint: Where requests go; all roles and cases that share it share one limit.
        revision: What is known of the weights, for the journal and the run manifest.
        many_samples: Whether one request can bring several samples (`n`).
        takes_seed: Whether the seed shapes the reply, and so belongs to its identity.
        max_connections: Requests under way at once on the endpoint.
        context_length: In tokens, None where the provider does not say.
        arguments: The provider's keyword arguments for a request.
        count_tokens: Exact length of a conversation in tokens, None where nobody can say.
        close: Gives connections back, None where there are none.
    """

    name: ModelName
    chat_model: BaseChatModel
    endpoint: str
    revision: str
    many_samples: bool
    takes_seed: bool
    max_connections: int
    context_length: int | None
    arguments: Callable[[CallParameters], dict[str, Any]]
    count_tokens: Callable[[Sequence[Message]], Awaitable[int]] | None = None
    close: Callable[[], Awaitable[None]] | None = None
