"""Rows in OpenAI's form: a line for each request, and a line for each result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from serving.batches.providers.json_lines import line_of
from serving.protocol.batch_provider import Asked, BatchRow, RowResult
from serving.protocol.errors import CallError, ErrorClass, classify, of_status
from serving.protocol.messages import Answer

CHAT: Literal["/v1/chat/completions"] = "/v1/chat/completions"

Read = Callable[[Any, int], list[Answer]]
"""The answers of a response's body, of which so many were asked for."""

_ROW_ERRORS: dict[str, ErrorClass] = {
    "batch_expired": "timeout",
    "request_timeout": "timeout",
    "batch_cancelled": "connection",
}
"""Rows that no model has seen, or whose model gave no answer in time: they may be asked again."""


def request_line(row: BatchRow) -> bytes:
    """The line of a request."""
    return line_of({"custom_id": row.custom_id, "method": "POST", "url": CHAT, "body": row.body})


def row_result(line: Mapping[str, Any], asked: Asked, read: Read, place: str) -> RowResult:
    """Read the line of a result; whatever it holds, it fails alone.

    Args:
        line: As parsed.
        asked: How many samples each row asked for.
        read: Reads a response's body.
        place: Where it comes from, for messages.
    """
    custom_id = str(line.get("custom_id") or "")
    try:
        given = _answers(line, asked(custom_id), read)
    except Exception as error:
        return RowResult(custom_id, failure=classify(error).at(place))
    return RowResult(custom_id, tuple(given))


def _answers(line: Mapping[str, Any], asked: int, read: Read) -> list[Answer]:
    error, response = line.get("error"), line.get("response")
    status = response.get("status_code") if isinstance(response, dict) else None
    body = response.get("body") if isinstance(response, dict) else None
    if error is None and status == 200:
        return read(body, asked)
    # OpenAI puts a model's error into the body, vLLM beside the response, as an object or a text.
    code, message = _reason(error if error is not None else body)
    if code in _ROW_ERRORS:
        raise CallError(_ROW_ERRORS[code], f"{code}: {message}")
    if isinstance(status, int) and 400 <= status < 600:
        raise of_status(status, f"status {status}: {message}", {}, code)
    if error is not None:
        raise CallError("internal", f"{code}: {message}")
    if response is None:
        raise CallError("connection", "the row has neither a reply nor an error")
    # A status of 0 has been seen where the model was never asked.
    raise CallError("connection", f"status {status}: {message}")


def _reason(error: Any) -> tuple[str, str]:
    """Code and message."""
    if isinstance(error, dict):
        detail = error.get("error", error)
        if isinstance(detail, dict):
            return str(detail.get("code") or ""), str(detail.get("message") or "no reason")
        error = detail
    return "", str(error or "no reason")
