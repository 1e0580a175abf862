"""OpenAI's batches, and those of servers with its protocol.

Requests go as a file of JSON lines, and results come as one file for replies and one for failures. Metadata
are kept with a batch, so every batch can be found by them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from cases.texts import one_line, printable
from serving.backends.limited_httpx import client_settings, take_any_size
from serving.backends.openai_compatible import connect_server as reach_server
from serving.backends.openai_protocol import answers, effort_fields, request_body
from serving.backends.providers.openai import FACTS
from serving.batches.providers.json_lines import (
    demand_samples,
    file_of,
    line_of,
    listed,
    parsed,
    refusing_others,
    row_result,
)
from serving.protocol.batch_provider import (
    Asked,
    BatchLimits,
    BatchModel,
    BatchRow,
    BatchState,
    NoSuchBatch,
    RemoteBatch,
    RowResult,
)
from serving.protocol.errors import CallError, ErrorClass, ModelError, of_status
from serving.protocol.keys import api_key
from serving.protocol.messages import Answer
from serving.protocol.model_name import ModelName, key_variable
from serving.protocol.request import AnyRequest

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI
    from openai import AsyncOpenAI
    from openai.types import Batch

LIMITS = BatchLimits(requests=50_000, bytes=200_000_000)

_DAY_S = 86_400
INPUT_DAYS = 3
"""A batch ends within one; the days more are for batches that are cancelled or finalised late."""
OUTPUT_DAYS = 14
"""Long enough for a run that is resumed after a holiday: results that are gone would be paid for again."""

HOSTED_RETENTION = (
    f"OpenAI stores the requests as a file for {INPUT_DAYS} days and the results for {OUTPUT_DAYS}, unless"
    " they are deleted before; the batch itself, with its metadata and no texts, stays"
)
SERVER_RETENTION = (
    "the server stores the requests and the results as files until they are deleted, or as its operator says"
)

_PAGE = 100
_REQUEST_S = 600.0
"""Time limit of one read or write; an upload of 200 MB takes many."""
_MAX_REASONS = 3

_STATES: dict[str, BatchState] = {
    "validating": "preparing",
    "completed": "ended",
    "expired": "expired",
    "cancelled": "cancelled",
    "failed": "failed",
}
"""All others are states of a running batch: `in_progress`, `finalizing`, `cancelling`, and future ones."""

_LATER = ("token_limit_exceeded", "rate_limit", "quota")
"""Parts of the error codes of batches rejected for now, because the account's queue is full."""

_NEVER_MADE = (400, 401, 403, 404, 413, 422)
"""Statuses after which no batch exists, so that its file is needed no more."""

CHAT: Literal["/v1/chat/completions"] = "/v1/chat/completions"

_ROW_ERRORS: dict[str, ErrorClass] = {
    "batch_expired": "timeout",
    "request_timeout": "timeout",
    "batch_cancelled": "connection",
}
"""Rows that no model has seen, or whose model gave no answer in time: they may be asked again."""

Read = Callable[[Any, int], list[Answer]]
"""The answers of a response's body, of which so many were asked for."""

Write = Callable[[AnyRequest], dict[str, Any]]
"""The body of a request."""


def openai_batches(endpoint: str, _name: str, model: ChatOpenAI) -> OpenAIBatches:
    """Those of OpenAI's own service."""
    from openai.types.chat import ChatCompletion

    from serving.backends.langchain_model import answers_of_chat, chat_messages

    def write(request: AnyRequest) -> dict[str, Any]:
        payload = model._get_request_payload(chat_messages(request.messages), **FACTS.arguments(request))
        extra_body: dict[str, Any] = payload.pop("extra_body", {})
        return payload | extra_body

    def read(body: Any, asked: int) -> list[Answer]:
        # Build it as the client does, without validation. From a mapping, the class reads all but refusals,
        # in a fraction of the time.
        plain = isinstance(body, dict) and not any(map(_refusal, body["choices"]))
        response = body if plain else ChatCompletion.construct(**body)
        return answers_of_chat(model._create_chat_result(response), asked)

    client = model.root_async_client.with_options(timeout=_REQUEST_S)
    take_any_size(model.http_async_client)
    return OpenAIBatches(endpoint, client, write, read, hosted=True)


def connect_server(name: ModelName) -> BatchModel:
    """A model behind an address that has OpenAI's routes for files and batches.

    Raises:
        ModelError: The server cannot be reached or serves other models, or a package is missing.
    """
    try:
        from httpx2 import AsyncClient, AsyncHTTPTransport
        from openai import AsyncOpenAI
    except ImportError:
        raise ModelError(f"model {str(name)!r} needs a package: pip install langchain-openai") from None
    variable = key_variable(name.provider)
    backend = reach_server(name, variable)
    (url,) = name.base_urls

    def write(request: AnyRequest) -> dict[str, Any]:
        return request_body(name.name, request) | effort_fields(request)

    def read(body: Any, asked: int) -> list[Answer]:
        return answers(body, name.name, asked)

    http_client = AsyncClient(**client_settings(AsyncHTTPTransport))
    take_any_size(http_client)
    client = AsyncOpenAI(
        base_url=url.rstrip("/"),
        api_key=api_key(variable) or "EMPTY",
        max_retries=0,
        timeout=_REQUEST_S,
        http_client=http_client,
    )
    return BatchModel(
        OpenAIBatches(url.rstrip("/"), client, write, read, hosted=False),
        max_samples=FACTS.max_samples if backend.many_samples else 1,
        logprobs=backend.logprobs,
        constraints=backend.constraints,
        abilities=backend.abilities,
    )


class OpenAIBatches:
    """A `BatchProvider`."""

    limits = LIMITS

    def __init__(self, endpoint: str, client: AsyncOpenAI, write: Write, read: Read, *, hosted: bool) -> None:
        self.endpoint = endpoint
        self.retention = HOSTED_RETENTION if hosted else SERVER_RETENTION
        self._client = client
        self._write = write
        self._read = read
        self._hosted = hosted

    def row(self, custom_id: str, request: AnyRequest) -> BatchRow:
        demand_samples(request, FACTS.max_samples)
        return BatchRow(custom_id, self._write(request))

    def encoded(self, row: BatchRow) -> bytes:
        return line_of({"custom_id": row.custom_id, "method": "POST", "url": CHAT, "body": row.body})

    async def mark(self) -> Mapping[str, str]:
        """Nothing: metadata are kept."""
        return {}

    async def submit(self, rows: Iterable[BatchRow], metadata: Mapping[str, str]) -> RemoteBatch:
        with file_of(map(self.encoded, rows), self.limits) as content:
            name = f"evigraph-{metadata['nonce']}.jsonl"
            uploaded = await self._client.files.create(
                file=(name, content, "application/jsonl"),
                purpose="batch",
                **(_expiry("expires_after", INPUT_DAYS) if self._hosted else {}),
            )
        file_id = _text(getattr(uploaded, "id", None), "an uploaded file")
        try:
            batch = await self._client.batches.create(
                completion_window="24h",
                endpoint=CHAT,
                input_file_id=file_id,
                metadata=dict(metadata),
                **(_expiry("output_expires_after", OUTPUT_DAYS) if self._hosted else {}),
            )
        except Exception as error:
            if getattr(error, "status_code", None) in _NEVER_MADE:
                # It expires by itself; the caller needs the rejection.
                await self._delete(file_id)
            raise
        return _remote(batch)

    async def found(self, metadata: Mapping[str, str]) -> AsyncIterator[RemoteBatch]:
        async for one in listed(self._client.batches.list(limit=_PAGE), _remote, self.endpoint):
            if metadata.items() <= one.metadata.items():
                yield one

    async def look(self, batch_id: str) -> RemoteBatch:
        return _remote(await self._retrieve(batch_id))

    async def results(self, batch: RemoteBatch, asked: Asked) -> AsyncIterator[RowResult]:
        """Yield rows of the file of replies, then of the file of failures."""
        now = await self._retrieve(batch.id)
        failure: CallError | None = None
        for file_id in (now.output_file_id, now.error_file_id):
            if not file_id:
                continue
            try:
                async with self._client.files.with_streaming_response.content(file_id) as response:
                    async for line in parsed(response.iter_bytes(), f"file {file_id} of {self.endpoint}"):
                        custom_id = str(line.get("custom_id") or "")
                        read = partial(_row_answers, line, asked(custom_id), self._read)
                        yield row_result(custom_id, self.endpoint, read)
            except CallError as error:
                # The other file is read all the same.
                failure = failure or error
        if failure is not None:
            raise failure

    async def delete(self, batch: RemoteBatch) -> None:
        """Delete all of its files; a batch itself cannot be deleted."""
        failures = [
            failure for file_id in batch.files if (failure := await self._delete(file_id)) is not None
        ]
        if failures:
            raise failures[0]

    async def aclose(self) -> None:
        await self._client.close()

    async def _retrieve(self, batch_id: str) -> Batch:
        from openai import NotFoundError

        try:
            batch = await self._client.batches.retrieve(batch_id)
        except NotFoundError as error:
            raise NoSuchBatch(batch_id, self.endpoint) from error
        if _remote(batch).id != batch_id:
            raise CallError("connection", f"{self.endpoint} answers for another batch than {batch_id!r}")
        return batch

    async def _delete(self, file_id: str) -> Exception | None:
        """Delete a file; a missing one is not a failure."""
        from openai import NotFoundError

        try:
            await self._client.files.delete(file_id)
        except NotFoundError:
            return None
        except Exception as error:
            return error
        return None


@refusing_others
def _remote(batch: Batch) -> RemoteBatch:
    state = _STATES.get(batch.status, "running")
    counts = batch.request_counts
    files = (batch.input_file_id, batch.output_file_id, batch.error_file_id)
    errors = (batch.errors.data if batch.errors else None) or []
    later = any(part in (error.code or "") for error in errors for part in _LATER)
    return RemoteBatch(
        id=_text(batch.id, "a batch"),
        state=state,
        metadata={str(key): str(value) for key, value in (batch.metadata or {}).items()},
        requests=(counts.total or None) if counts else None,
        done=counts.completed + counts.failed if counts else None,
        created=_moment(batch.created_at),
        expires=_moment(batch.expires_at),
        files=tuple(str(file) for file in files if file),
        reason=_reason(errors),
        error_class="rate_limit" if later else "internal",
    )


def _refusal(choice: Any) -> object:
    return choice["message"].get("refusal")


def _reason(errors: Sequence[Any]) -> str:
    parts = [
        (f"line {error.line}: " if error.line is not None else "") + str(error.message or error.code or "")
        for error in errors[:_MAX_REASONS]
    ]
    more = f"; and {len(errors) - _MAX_REASONS:,} more" if len(errors) > _MAX_REASONS else ""
    return one_line(printable("; ".join(parts)))[:1000] + more


def _moment(seconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise CallError("connection", f"the server gives {what} no identifier")
    return value


def _expiry(field: str, days: int) -> dict[str, Any]:
    return {field: {"anchor": "created_at", "seconds": days * _DAY_S}}


def _row_answers(line: Mapping[str, Any], asked: int, read: Read) -> list[Answer]:
    error, response = line.get("error"), line.get("response")
    status = response.get("status_code") if isinstance(response, dict) else None
    body = response.get("body") if isinstance(response, dict) else None
    if error is None and status == 200:
        return read(body, asked)
    # OpenAI puts a model's error into the body, vLLM next to the response, as an object or a text.
    code, message = _row_reason(error if error is not None else body)
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


def _row_reason(error: Any) -> tuple[str, str]:
    if isinstance(error, dict):
        detail = error.get("error", error)
        if isinstance(detail, dict):
            return str(detail.get("code") or ""), str(detail.get("message") or "no reason")
        error = detail
    return "", str(error or "no reason")
