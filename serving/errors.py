"""Failures of model calls, in the few classes that a case can end with."""

from __future__ import annotations

from typing import Literal, get_args

ErrorClass = Literal[
    "rate_limit",
    "timeout",
    "context_length",
    "refusal",
    "invalid_output",
    "connection",
    "invalid_input",
    "internal",
]
ERROR_CLASSES: tuple[ErrorClass, ...] = get_args(ErrorClass)

RETRYABLE: frozenset[ErrorClass] = frozenset({"rate_limit", "timeout", "connection"})
"""What a later attempt may cure. The rest fails the same way again."""

_EMPTY_WORDS = "Connection error."
"""All that OpenAI's client says of a lost connection; its first cause holds the reason."""

_CONTEXT_LENGTH_WORDS = ("context length", "context_length", "maximum context", "too long", "max_model_len")


class ModelError(Exception):
    """A model that cannot be used as named: one line with the remedy."""


class CallError(Exception):
    """A model call that failed for good.

    Attributes:
        error_class: One of `ERROR_CLASSES`.
        retry_after: Seconds that the server asked to wait, where it did.
    """

    def __init__(self, error_class: ErrorClass, message: str, retry_after: float | None = None) -> None:
        """Keep the class beside the message."""
        self.error_class: ErrorClass = error_class
        self.retry_after = retry_after
        super().__init__(message)


class InvalidReply(Exception):
    """A reply that breaks its format. The message is quoted to the model in the correction turn."""


def classify(error: BaseException) -> CallError:
    """Map any exception of any provider's client to a `CallError`.

    Providers share no exception types, but nearly all carry an HTTP status (`status_code`, or `code` at
    Google) and name their classes alike, so both are read without importing a provider.
    """
    if isinstance(error, CallError):
        return error
    message = _first_line(error)
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if "Timeout" in names or status in (408, 504):
        return CallError("timeout", message)
    if status == 429 or "RateLimit" in names:
        return CallError("rate_limit", message, _retry_after(error))
    if isinstance(status, int):
        return CallError(_class_of_status(status, message), message, _retry_after(error))
    if isinstance(error, ConnectionError) or "Connect" in names or "NetworkError" in names:
        return CallError("connection", message)
    if any(words in message.lower() for words in _CONTEXT_LENGTH_WORDS):
        return CallError("context_length", message)
    return CallError("internal", f"{type(error).__name__}: {message}")


def _class_of_status(status: int, message: str) -> ErrorClass:
    if status >= 500:
        # A dead engine behind a live server answers 500 to everything: for the case, it is gone.
        return "connection"
    if status in (400, 413, 422) and any(words in message.lower() for words in _CONTEXT_LENGTH_WORDS):
        return "context_length"
    return "internal"


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    if text == _EMPTY_WORDS:
        root = error
        while (cause := root.__cause__ or root.__context__) is not None:
            root = cause
        if str(root).strip() not in ("", _EMPTY_WORDS):
            text = str(root).strip()
    return text.splitlines()[0][:500]


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return float(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
