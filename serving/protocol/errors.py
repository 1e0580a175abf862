"""Failures of model calls, in the classes that a failed case is reported with."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal, get_args

from cases.texts import one_line, printable
from serving.protocol.addresses import redacted, redirect_fault

ErrorClass = Literal[
    "rate_limit",
    "timeout",
    "context_length",
    "refusal",
    "auth",
    "invalid_output",
    "connection",
    "invalid_input",
    "internal",
]
ERROR_CLASSES: tuple[ErrorClass, ...] = get_args(ErrorClass)

RETRYABLE: frozenset[ErrorClass] = frozenset({"rate_limit", "timeout", "connection"})
"""Classes for which a later attempt may succeed. The others fail the same way again."""

_LOST = ("Connect", "Disconnect", "NetworkError", "TransportError", "ClientPayloadError", "ClientOSError")
"""Parts of the names of exceptions that mean a lost connection."""

_OVERLOADED = 529
"""Anthropic's status for a service that is overloaded for everyone."""

_EMPTY_WORDS = "Connection error."
"""OpenAI's client only reports this for a lost connection; its first cause has the reason."""

_CONTEXT_LENGTH_WORDS = (
    *("context length", "context_length", "maximum context", "too long", "max_model_len"),
    *("context limit", "maximum number of tokens allowed", "context size"),  # Anthropic; Google; llama.cpp
)

_REFUSAL_WORDS = (
    *("content_filter", "content management policy", "usage policy"),  # OpenAI, on Azure and off it
    *("content filtering policy", "content exists risk"),  # Anthropic; DeepSeek
)
"""Parts of messages that reject a request for its content."""

_AUTH_WORDS = ("api key not valid", "api_key_invalid", "incorrect api key")
"""Parts of the messages with which Google and xAI answer 400 to a wrong key."""


class ModelError(Exception):
    """A model that cannot be used as named: one line with the remedy.

    Quotes of servers are safe for a terminal, a log and a page.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(printable(message)))


class CallError(Exception):
    """A failed model call.

    Attributes:
        error_class: One of `ERROR_CLASSES`.
        retry_after: Seconds that the server asked to wait, where it did.
        retryable: Whether another attempt may succeed.
        status: HTTP status of the response, where the failure is one.
    """

    def __init__(
        self,
        error_class: ErrorClass,
        message: str,
        retry_after: float | None = None,
        *,
        retryable: bool | None = None,
        status: int | None = None,
    ) -> None:
        """By default the class decides whether another attempt may succeed."""
        self.error_class: ErrorClass = error_class
        self.retry_after = retry_after
        self.retryable = error_class in RETRYABLE if retryable is None else retryable
        self.status = status
        # It may quote a server, and goes to terminals, logs, traces and pages.
        super().__init__(one_line(printable(message)))

    def at(self, place: str, key: str = "") -> CallError:
        """Put the place of the failure before the message."""
        remedy = f"access denied, check {key}: " if self.error_class == "auth" and key else ""
        message = f"{place}: {remedy}{self}"
        return CallError(
            self.error_class, message, self.retry_after, retryable=self.retryable, status=self.status
        )

    def of_request(self) -> CallError:
        """Copy of a failure of access that is caused by the request, such as a parameter, not by the key."""
        return CallError("internal", str(self), self.retry_after, status=self.status)


class InvalidReply(Exception):
    """A reply that breaks its format. The message is quoted to the model in the correction turn."""


def classify(error: BaseException) -> CallError:
    """Map any exception of any provider's client to a `CallError`.

    Providers share no exception types, but nearly all carry an HTTP status (`status_code`, or `code` at
    Google), if not on the exception then on its cause, and name their classes alike, so both are read
    without importing a provider.
    """
    if (ours := _own(error)) is not None:
        return ours
    redirect = _redirect(error)
    if redirect is not None:
        return redirect
    message = _first_line(error)
    status, holder = _status(error)
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    if "Certificate" in names or isinstance(error, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in message:
        return CallError("connection", message, retryable=False)
    if "ClientPayloadError" in names:
        # An incomplete body, for which aiohttp sets status 400.
        return CallError("connection", message)
    if "Timeout" in names or status in (408, 504):
        return CallError("timeout", message, status=status)
    if status == 429 or "RateLimit" in names:
        wait = retry_after(_headers(holder))
        pause = _retry_delay(holder) if wait is None else wait
        return CallError("rate_limit", message, pause, status=status)
    if "ContextOverflow" in names:
        return CallError("context_length", message, status=status)
    if status is not None:
        code = getattr(holder, "code", None)
        code = code if isinstance(code, str) else ""
        return of_status(status, message, _headers(holder), code, _url(holder) if status == 404 else "")
    if isinstance(error, ConnectionError) or any(name in names for name in _LOST):
        return CallError("connection", message)
    if any(words in message.lower() for words in _CONTEXT_LENGTH_WORDS):
        return CallError("context_length", message)
    return CallError("internal", f"{type(error).__name__}: {message}")


def redirected(status: int, url: str, location: str | None) -> CallError:
    """The failure of a request that a server sends on: nothing of it goes to a host that was not named."""
    return CallError("connection", redirect_fault(status, url, location), retryable=False)


def of_status(
    status: int, message: str, headers: Mapping[str, str], code: str = "", url: str = ""
) -> CallError:
    """Map an HTTP status to a failure.

    A 403 counts as a failure of access. Callers that sent an optional parameter use `of_request`.
    """
    if status == 404 and url:
        message = f"{message} (tried {redacted(url)})"
    error_class = _class_of_status(status, f"{code} {message}".lower())
    pause = None if error_class == "timeout" else retry_after(headers)
    return CallError(error_class, message, pause, status=status)


def _class_of_status(status: int, words: str) -> ErrorClass:
    if status in (408, 504):
        return "timeout"
    if status in (429, _OVERLOADED):
        return "rate_limit"
    if status >= 500:
        # A dead engine behind a live server answers 500 to everything, so it counts as unreachable.
        return "connection"
    if status in (400, 413, 422) and any(part in words for part in _CONTEXT_LENGTH_WORDS):
        return "context_length"
    if status in (400, 403) and any(part in words for part in _REFUSAL_WORDS):
        return "refusal"
    if status in (401, 403) or (status == 400 and any(part in words for part in _AUTH_WORDS)):
        return "auth"
    return "internal"


def _status(error: BaseException) -> tuple[int | None, BaseException]:
    """The HTTP status and the exception that has it: Google's class wraps it."""
    holder: BaseException | None = error
    while holder is not None:
        for name in ("status_code", "code"):
            status = getattr(holder, name, None)
            if isinstance(status, int) and 400 <= status < 600:
                return status, holder
        holder = holder.__cause__
    return None, error


def _own(error: BaseException) -> CallError | None:
    """Our own failure, which a client may have wrapped, or grouped with other attempts to connect."""
    holder: BaseException | None = error
    while holder is not None:
        if isinstance(holder, CallError):
            return holder
        if isinstance(holder, ModelError):
            return CallError("internal", str(holder))
        holder = holder.exceptions[0] if isinstance(holder, BaseExceptionGroup) else holder.__cause__
    return None


def _redirect(error: BaseException) -> CallError | None:
    """The failure behind an exception, if it is a redirect that a client refused to follow."""
    holder: BaseException | None = error
    while holder is not None:
        response: Any = getattr(holder, "response", None)
        # httpx and aiohttp name it differently.
        status = getattr(response, "status_code", getattr(response, "status", None))
        if isinstance(status, int) and 300 <= status < 400:
            return redirected(status, str(response.url), _headers(holder).get("location"))
        holder = holder.__cause__
    return None


def _url(error: BaseException) -> str:
    """The address of the request that a response answers; empty if the client's exception has none."""
    response: Any = getattr(error, "response", None)
    try:
        return str(response.url)
    except (AttributeError, RuntimeError):
        # httpx raises the latter for a response without its request.
        return ""


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    if text == _EMPTY_WORDS:
        root = error
        while (cause := root.__cause__ or root.__context__) is not None:
            root = cause
        if str(root).strip() not in ("", _EMPTY_WORDS):
            text = str(root).strip()
    return text.splitlines()[0][:500]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait: a number, or a date as HTTP allows (RFC 9110, 10.2.3)."""
    text = headers.get("retry-after") or headers.get("Retry-After") or ""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _retry_delay(error: BaseException) -> float | None:
    """Google puts the time to wait into the body (`google.rpc.RetryInfo`)."""
    body: Any = getattr(error, "details", None)
    try:
        details = body["error"]["details"]
        delays = [detail["retryDelay"] for detail in details if "retryDelay" in detail]
        return retry_after({"retry-after": delays[0].removesuffix("s")})
    except (AttributeError, LookupError, TypeError):
        return None


def _headers(error: BaseException) -> Mapping[str, str]:
    return getattr(getattr(error, "response", None), "headers", None) or {}
