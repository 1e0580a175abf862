"""A span before it is encoded, and its ids: a second export makes the same spans."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from runs.manifest import Manifest

Value = str | bool | int | float | list[str]
Attributes = Mapping[str, Value]

_TRACE_BYTES, _SPAN_BYTES = 16, 8

SCOPE = "evigraph"
"""OTLP's instrumentation scope: who made the spans."""


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work with its beginning and end.

    Attributes:
        trace_id: 16 bytes.
        span_id: 8 bytes.
        parent_id: None for the root of its trace.
        kind: `client` for requests to a server, `internal` for the rest.
        start_ns: Nanoseconds since 1970.
        end_ns: Nanoseconds since 1970, not before `start_ns`.
        failed: Whether its status is an error.
        message: The error; empty where it might quote a case.
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
    """Replace lone surrogates, which UTF-8 cannot encode, by question marks."""
    return text.encode("utf-8", "replace").decode()


def run_id(manifest: Manifest) -> str:
    """Identifies a run wherever its folder is: 32 hexadecimal digits."""
    return _digest(
        manifest.system,
        manifest.recipe_sha256,
        manifest.inputs.sha256,
        {role: model.name for role, model in manifest.models.items()},
        manifest.sessions[0].started if manifest.sessions else "",
    ).hex()[:32]


def trace_id(run: str, case_id: str, number: int, started_at: float | None) -> bytes:
    """The id of one pass of a case.

    Args:
        run: The run's id.
        case_id: The case.
        number: Number of the pass of this case, from 0.
        started_at: Seconds since 1970, which separate runs that began within the same second.
    """
    return _digest(run, case_id, number, started_at)[:_TRACE_BYTES]


def span_id(trace: bytes, *place: int | str) -> bytes:
    """The id of a span by its place in the trace, such as a step and the number of a call."""
    return _digest(trace.hex(), *place)[:_SPAN_BYTES]


def _digest(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
