"""How hard servers may be pressed, and how long they may take. Nothing here changes a result."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_MAX_RETRIES = 4
DEFAULT_TIMEOUT_S = 600.0
DEFAULT_MAX_OUTAGE_S = 120.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user allows for each endpoint.

    Attributes:
        max_connections: Most requests under way at once; None is the provider's default.
        start_connections: Requests under way at once at the start; the limiter goes on from there.
        rpm: Most requests a minute.
        tpm: Most tokens a minute, each request counted with its prompt and its token limit.
        max_retries: Further attempts of a failed request; 0 means none.
        timeout: Seconds until a request without a complete reply is given up.
        max_outage: Seconds for which requests wait for a server that is away, as while it is restarted;
            without retries they do not wait.
    """

    max_connections: int | None = None
    start_connections: int | None = None
    rpm: int | None = None
    tpm: int | None = None
    max_retries: int = DEFAULT_MAX_RETRIES
    timeout: float = DEFAULT_TIMEOUT_S
    max_outage: float = DEFAULT_MAX_OUTAGE_S
