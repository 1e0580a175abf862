"""Google's batches for Gemini.

Requests are uploaded as a file of JSON lines; one file of results comes back. A batch keeps one text of ours,
its display name, which holds the metadata and the name of the uploaded file: its client says neither how many
requests a batch has nor where they came from.

The client cannot write or read single requests, so we use a copy of it that sends nothing: we capture the
request that it would send, and pass it results to read as responses.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from io import BufferedRandom
from typing import IO, TYPE_CHECKING, Any, cast

from cases.texts import one_line, printable
from serving.backends.providers.google_genai import FACTS
from serving.batches.providers.json_lines import (
    chunks,
    demand_samples,
    file_of,
    line_of,
    listed,
    parsed,
    row_result,
)
from serving.protocol.batch_provider import (
    Asked,
    BatchLimits,
    BatchRow,
    BatchState,
    NoSuchBatch,
    RemoteBatch,
    RowResult,
)
from serving.protocol.errors import CallError, of_status, redirected
from serving.protocol.messages import Answer
from serving.protocol.request import AnyRequest

if TYPE_CHECKING:
    from google.genai.types import BatchJob
    from langchain_google_genai import ChatGoogleGenerativeAI

LIMITS = BatchLimits(requests=200_000, bytes=2_000_000_000, hours=48.0)
"""The service does not state a number of requests; this is the limit of Vertex AI."""

RETENTION = (
    "Google stores the requests as a file for 48 hours, and the batch with its results until they are deleted"
    " or expire"
)

_PAGE = 100
_MAX_NAME = 512
"""Characters of a display name."""

_MAX_RESULT_BYTES = 16 * LIMITS.bytes

_STATES: dict[str, BatchState] = {
    "JOB_STATE_QUEUED": "preparing",
    "JOB_STATE_PENDING": "preparing",
    "JOB_STATE_SUCCEEDED": "ended",
    "JOB_STATE_PARTIALLY_SUCCEEDED": "ended",
    "JOB_STATE_FAILED": "failed",
    "JOB_STATE_CANCELLED": "cancelled",
    "JOB_STATE_EXPIRED": "expired",
}

_STATUSES = {
    **{1: 503, 2: 500, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400},
    **{10: 503, 11: 400, 12: 501, 13: 500, 14: 503, 15: 500, 16: 401},
}
"""HTTP statuses by gRPC status, which the rows of a file have."""


class GoogleBatches:
    """A `BatchProvider`."""

    limits = LIMITS
    retention = RETENTION

    def __init__(self, endpoint: str, name: str, model: Any) -> None:
        self.endpoint = endpoint
        self._name = name
        self._model: ChatGoogleGenerativeAI = model
        assert model.client is not None
        self._client = model.client.aio
        self._own = _NoService(model.client._api_client)
        self._http = model.client._api_client._async_httpx_client
        # The limit of a single reply does not apply to a file of results, which has its own.
        self._http.event_hooks = {"response": [_stay]}

    def row(self, custom_id: str, request: AnyRequest) -> BatchRow:
        from serving.backends.langchain_model import chat_messages

        demand_samples(request, FACTS.max_samples)
        prepared = self._model._prepare_request(
            chat_messages(request.messages),
            cached_content=self._model.cached_content,
            **FACTS.arguments(request),
        )
        return BatchRow(custom_id, self._own.written(prepared))

    def encoded(self, row: BatchRow) -> bytes:
        return line_of({"key": row.custom_id, "request": row.body})

    async def mark(self) -> Mapping[str, str]:
        """Nothing: the display name holds the metadata."""
        return {}

    async def submit(self, rows: Iterable[BatchRow], metadata: Mapping[str, str]) -> RemoteBatch:
        with file_of(map(self.encoded, rows), self.limits) as content:
            uploaded = await self._client.files.upload(
                file=cast(BufferedRandom, content),
                config={"mime_type": "jsonl", "display_name": f"evigraph-{metadata['nonce']}"},
            )
        if not uploaded.name:
            raise CallError("connection", "the server gives an uploaded file no name")
        try:
            batch = await self._client.batches.create(
                model=self._name,
                src=uploaded.name,
                config={"display_name": _display_name(metadata, uploaded.name)},
            )
        except Exception as error:
            if getattr(error, "code", None) in (400, 401, 403, 404, 413):
                await self._delete_file(uploaded.name)
            raise
        return _remote(batch)

    async def found(self, metadata: Mapping[str, str]) -> AsyncIterator[RemoteBatch]:
        batches = await self._client.batches.list(config={"page_size": _PAGE})
        async for one in listed(batches, _remote, self.endpoint):
            if metadata.items() <= one.metadata.items():
                yield one

    async def look(self, batch_id: str) -> RemoteBatch:
        return _remote(await self._get(batch_id))

    async def results(self, batch: RemoteBatch, asked: Asked) -> AsyncIterator[RowResult]:
        """Each row of the file of results; a batch that expired or was cancelled may have none."""
        now = await self._get(batch.id)
        if now.dest is None or not now.dest.file_name:
            return
        name = now.dest.file_name
        with tempfile.TemporaryFile() as file:
            # The client either holds all of it or writes it away.
            destination = cast(BufferedRandom, _Bounded(file, name))
            await self._client.files.download(file=name, destination=destination)
            file.seek(0)
            async for line in parsed(chunks(file), f"file {name} of {self.endpoint}"):
                custom_id = str(line.get("key") or "")
                read = partial(self._answers, line, asked(custom_id))
                yield row_result(custom_id, self.endpoint, read)

    async def delete(self, batch: RemoteBatch) -> None:
        for name in batch.files:
            await self._delete_file(name)
        try:
            await self._client.batches.delete(name=batch.id)
        except Exception as error:
            if getattr(error, "code", None) != 404:
                raise

    async def aclose(self) -> None:
        await self._client.aclose()
        await self._http.aclose()

    async def _get(self, batch_id: str) -> BatchJob:
        try:
            batch: BatchJob = await self._client.batches.get(name=batch_id)
        except Exception as error:
            if getattr(error, "code", None) == 404:
                raise NoSuchBatch(batch_id, self.endpoint) from error
            raise
        if _remote(batch).id != batch_id:
            raise CallError("connection", f"{self.endpoint} answers for another batch than {batch_id!r}")
        return batch

    async def _delete_file(self, name: str) -> None:
        try:
            await self._client.files.delete(name=name)
        except Exception as error:
            # It is gone, or was never to be deleted: of files that are not there it says both.
            if getattr(error, "code", None) not in (403, 404):
                raise

    def _answers(self, line: Mapping[str, Any], asked: int) -> list[Answer]:
        from langchain_google_genai.chat_models import _response_to_result

        from serving.backends.langchain_model import answers_of_chat

        error, response = line.get("error"), line.get("response")
        if isinstance(error, dict):
            code = error.get("code")
            status = _STATUSES.get(code, code) if isinstance(code, int) else 400
            message = f"status {status}: {error.get('message') or 'no reason'}"
            raise of_status(status, message, {}, str(error.get("status") or ""))
        if not isinstance(response, dict):
            raise CallError("connection", "the row has neither a reply nor an error")
        return answers_of_chat(_response_to_result(self._own.read(response)), asked)


class _Captured(Exception):
    """Ends a call of the client once its request is known."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        super().__init__()


class _NoService:
    """The client's way to write requests and read responses, with no service behind it."""

    def __init__(self, api_client: Any) -> None:
        from google.genai.models import Models

        self._api = copy.copy(api_client)
        self._models = Models(self._api)

    def written(self, request: Mapping[str, Any]) -> dict[str, Any]:
        def capture(method: str, path: str, body: dict[str, Any], options: Any = None) -> Any:
            raise _Captured(body)

        self._api.request = capture
        try:
            self._models.generate_content(**request)
        except _Captured as captured:
            # Leave out the address of the request.
            return {name: value for name, value in captured.request.items() if not name.startswith("_")}
        raise AssertionError("the client sends each request")

    def read(self, response: Mapping[str, Any]) -> Any:
        from google.genai.types import HttpResponse

        body = json.dumps(response)
        self._api.request = lambda *arguments: HttpResponse(headers={}, body=body)
        return self._models.generate_content(model="any", contents="any")


@dataclass
class _Bounded:
    """A file that takes so much and no more."""

    file: IO[bytes]
    name: str
    written: int = 0

    def write(self, part: bytes) -> int:
        """Write a part.

        Raises:
            CallError: It is too much.
        """
        self.written += len(part)
        if self.written > _MAX_RESULT_BYTES:
            raise CallError("internal", f"file {self.name} is larger than {_MAX_RESULT_BYTES:,} bytes")
        return self.file.write(part)


async def _stay(response: Any) -> None:
    """Refuse a redirect, whose host the user did not name.

    Raises:
        CallError: The service redirects.
    """
    if 300 <= response.status_code < 400:
        raise redirected(response.status_code, str(response.url), response.headers.get("Location"))


def _display_name(metadata: Mapping[str, str], file_name: str) -> str:
    name = json.dumps({**metadata, "file": file_name}, separators=(",", ":"))
    if len(name) > _MAX_NAME:
        raise CallError("internal", f"metadata of {len(name)} characters; Google keeps {_MAX_NAME}")
    return name


def _metadata(display_name: str | None) -> dict[str, str]:
    """Metadata of our batches; empty for others."""
    try:
        value = json.loads(display_name or "")
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {str(key): str(one) for key, one in value.items()}


def _remote(batch: BatchJob) -> RemoteBatch:
    """Read a batch.

    Raises:
        CallError: It is none.
    """
    if not isinstance(batch.name, str) or not batch.name:
        raise CallError("connection", "the server's reply is not a batch")
    metadata = _metadata(batch.display_name)
    result_file = batch.dest.file_name if batch.dest else None
    state = _STATES.get(str(getattr(batch.state, "value", batch.state)), "running")
    if state == "ended" and not result_file:
        # It reports the end before its results are available.
        state = "running"
    files = (metadata.pop("file", None), result_file)
    return RemoteBatch(
        id=batch.name,
        state=state,
        metadata=metadata,
        created=batch.create_time,
        files=tuple(name for name in files if name),
        reason=one_line(printable(str((batch.error and batch.error.message) or "")))[:1000],
    )
