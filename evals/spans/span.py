"""A span as it is made here, before it is encoded for anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Value = str | bool | int | float | list[str]
Attributes = Mapping[str, Value]

SCOPE = "evigraph"
"""Who made the spans, as OTLP's instrumentation scope."""


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work with its begin and its end.

    Attributes:
        trace_id: 16 bytes.
        span_id: 8 bytes.
        parent_id: None for the root of its trace.
        kind: `client` for what was asked of a server, `internal` for the rest.
        start_ns: Nanoseconds since 1970.
        end_ns: Nanoseconds since 1970, not before `start_ns`.
        failed: Whether its status is an error.
        message: Of the error; empty where it could quote a case.
    """

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    kind: Literal["internal", "client"]
    start_ns: int
    end_ns: int
    attributes: Attributes
    failed: bool = False
    message: str = ""


def whole_text(text: str) -> str:
    """A lone surrogate, which UTF-8 cannot hold, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
