"""Ids of traces and spans, derived from what they are of: a second export makes the same spans."""

from __future__ import annotations

import hashlib
import json

from runs.manifest import Manifest

_TRACE_BYTES, _SPAN_BYTES = 16, 8


def run_id(manifest: Manifest) -> str:
    """What tells a run from others wherever its folder lies: 32 hexadecimal digits."""
    return _digest(
        manifest.system,
        manifest.recipe_sha256,
        manifest.inputs.sha256,
        {role: model.name for role, model in manifest.models.items()},
        manifest.sessions[0].started if manifest.sessions else "",
    ).hex()[:32]


def trace_id(run: str, case_id: str, number: int, started_at: float | None) -> bytes:
    """Of one pass of a case.

    Args:
        run: The run's id.
        case_id: The case.
        number: Of the pass among those of its case, from 0.
        started_at: Seconds since 1970, which part runs that began within the same second.
    """
    return _digest(run, case_id, number, started_at)[:_TRACE_BYTES]


def span_id(trace: bytes, *place: int | str) -> bytes:
    """Of a span at a place within its trace, such as a step and the number of a call."""
    return _digest(trace.hex(), *place)[:_SPAN_BYTES]


def _digest(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
