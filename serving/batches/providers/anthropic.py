"""Anthropic's message batches.

They keep no metadata, and a running batch cannot be read. So a possibly lost batch is found by three rules:

- Before a submit `mark` notes the newest batch of the account. Only one that is listed before that mark can
  be the one that was submitted. Both times are the service's, so that no other clock matters.
- Of these, it has as many requests as were submitted (`rows` in the metadata).
- One that runs is a candidate (`certain` is False). Once it has ended, its results say which it is: each
  `custom_id` begins with the nonce of its batch.
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from serving.backends.limited_httpx import client_settings, take_any_size
from serving.backends.providers.anthropic import FACTS
from serving.batches.providers.json_lines import (
    demand_samples,
    file_of,
    json_of,
    listed,
    parsed,
    refusing_others,
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
from serving.protocol.errors import CallError, of_status
from serving.protocol.messages import Answer
from serving.protocol.request import AnyRequest

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types.messages import MessageBatch
    from langchain_anthropic import ChatAnthropic

LIMITS = BatchLimits(requests=100_000, bytes=256_000_000)

RETENTION = (
    "Anthropic stores the requests and the results for 29 days, unless the batch is deleted before; batches"
    " are not eligible for zero data retention"
)

_ROUTE = "/v1/messages/batches"
_PAGE = 100
_REQUEST_S = 600.0
_CHUNK = 2**18
_HEAD, _END = b'{"requests":[', b"]}"
"""Around the rows, in the body of a submit."""

_LINES_TO_RECOGNISE = 3
"""Lines of results read to identify a batch; a foreign row may come first."""

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Statuses of the online endpoint; a row's error has only the name."""

_HEX_KEY = re.compile(r"[0-9a-f]{64}")
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NONCE = re.compile(r"[a-zA-Z0-9]{1,16}")
_PACKED = re.compile(r"[a-zA-Z0-9]{1,16}-([a-zA-Z0-9_-]{43})")
_PLAIN = re.compile(r"[a-zA-Z0-9]{1,16}_([a-zA-Z0-9_-]+)")


class AnthropicBatches:
    """A `BatchProvider`."""

    limits = LIMITS
    retention = RETENTION

    def __init__(self, endpoint: str, _name: str, model: Any) -> None:
        from httpx2 import AsyncClient, AsyncHTTPTransport

        self.endpoint = endpoint
        self._model: ChatAnthropic = model
        http_client = AsyncClient(**client_settings(AsyncHTTPTransport))
        take_any_size(http_client)
        self._client: AsyncAnthropic = model._async_client.with_options(
            timeout=_REQUEST_S, http_client=http_client
        )

    def row(self, custom_id: str, request: AnyRequest) -> BatchRow:
        from serving.backends.langchain_model import chat_messages

        demand_samples(request, FACTS.max_samples)
        payload = self._model._get_request_payload(
            chat_messages(request.messages), **FACTS.arguments(request)
        )
        extra_body: dict[str, Any] = payload.pop("extra_body", {})
        return BatchRow(custom_id, payload | extra_body)

    def encoded(self, row: BatchRow) -> bytes:
        """An element of the list of requests, with the longest nonce."""
        return self._encoded(row, "n" * 16)

    def _encoded(self, row: BatchRow, nonce: str) -> bytes:
        return json_of({"custom_id": remote_id(nonce, row.custom_id), "params": row.body}) + b","

    async def mark(self) -> Mapping[str, str]:
        """The newest batch and its time; nothing where there is none."""
        page = await self._client.messages.batches.list(limit=1)
        newest = next(map(_remote, page.data or ()), None)
        if newest is None or newest.created is None:
            return {}
        return {"after": newest.id, "after_time": newest.created.isoformat()}

    async def submit(self, rows: Iterable[BatchRow], metadata: Mapping[str, str]) -> RemoteBatch:
        """Start a batch; its requests are in the body of this one request."""
        from anthropic.types.messages import MessageBatch

        nonce = metadata["nonce"]
        with file_of((self._encoded(row, nonce) for row in rows), self.limits) as content:
            # The last comma is left out.
            length = max(0, content.seek(0, 2) - 1)
            batch = await self._client.post(
                _ROUTE,
                cast_to=MessageBatch,
                content=_body(content, length),
                options={
                    "headers": {
                        "Content-Type": "application/json",
                        "Content-Length": str(len(_HEAD) + length + len(_END)),
                    },
                    "timeout": _REQUEST_S,
                },
            )
        return _remote(batch)

    async def found(self, metadata: Mapping[str, str]) -> AsyncIterator[RemoteBatch]:
        """Batches that have these rows, or may have them."""
        newer_than = _time(metadata.get("after_time"))
        async for one in listed(self._client.messages.batches.list(limit=_PAGE), _remote, self.endpoint):
            is_older = newer_than is not None and one.created is not None and one.created < newer_than
            if one.id == metadata.get("after") or is_older:
                return
            if metadata.get("rows") in (None, str(one.requests)) and await self._may_be(one, metadata):
                yield replace(one, metadata=dict(metadata) if one.final else {}, certain=one.final)

    async def _may_be(self, batch: RemoteBatch, metadata: Mapping[str, str]) -> bool:
        """Whether a batch is running, or has ended with results of this nonce."""
        if not batch.final:
            return True
        begins = (f"{metadata['nonce']}-", f"{metadata['nonce']}_")
        looked_at = 0
        async with aclosing(self._lines(batch.id)) as lines:
            async for line in lines:
                looked_at += 1
                if str(line.get("custom_id")).startswith(begins):
                    return True
                if looked_at == _LINES_TO_RECOGNISE:
                    break
        return False

    async def look(self, batch_id: str) -> RemoteBatch:
        from anthropic import NotFoundError

        try:
            batch = _remote(await self._client.messages.batches.retrieve(batch_id))
        except NotFoundError as error:
            raise NoSuchBatch(batch_id, self.endpoint) from error
        if batch.id != batch_id:
            raise CallError("connection", f"{self.endpoint} answers for another batch than {batch_id!r}")
        return batch

    async def results(self, batch: RemoteBatch, asked: Asked) -> AsyncIterator[RowResult]:
        await self.look(batch.id)
        async with aclosing(self._lines(batch.id)) as lines:
            async for line in lines:
                custom_id = own_id(str(line.get("custom_id") or ""))
                read = partial(self._answers, line.get("result"), asked(custom_id))
                yield row_result(custom_id, self.endpoint, read)

    async def _lines(self, batch_id: str) -> AsyncGenerator[dict[str, Any]]:
        # Not from the address that the batch names for its results: a key goes to no host but the service.
        response: Any = await self._client.get(
            f"{_ROUTE}/{batch_id}/results",
            cast_to=object,
            options={
                "headers": {"Accept": "application/binary", "X-Stainless-Raw-Response": "stream"},
                "timeout": _REQUEST_S,
            },
        )
        try:
            async for line in parsed(response.iter_bytes(), f"the results of {batch_id} of {self.endpoint}"):
                yield line
        finally:
            await response.close()

    async def delete(self, batch: RemoteBatch) -> None:
        from anthropic import NotFoundError

        try:
            await self._client.messages.batches.delete(batch.id)
        except NotFoundError:
            # It is gone.
            return

    async def aclose(self) -> None:
        await self._client.close()

    def _answers(self, result: Any, asked: int) -> list[Answer]:
        from anthropic.types import Message as Reply

        from serving.backends.langchain_model import answers_of_chat

        kind = result.get("type") if isinstance(result, dict) else None
        if kind == "succeeded":
            reply = Reply.construct(**result["message"])
            return answers_of_chat(self._model._format_output(reply), asked)
        if kind == "errored":
            error = result.get("error")
            # An error response holds the error.
            error = error.get("error", error) if isinstance(error, dict) else {}
            name, message = str(error.get("type") or ""), error.get("message") or "no reason"
            raise of_status(_STATUSES.get(name, 400), f"{name}: {message}", {}, name)
        if kind == "expired":
            raise CallError("timeout", "the batch ended before this row was asked")
        if kind == "canceled":
            raise CallError("connection", "the batch was cancelled before this row was asked")
        raise CallError("connection", "the row has no result that is known")


async def _body(rows: IO[bytes], length: int) -> AsyncIterator[bytes]:
    """The request as the client sends it, piece by piece from so many bytes of the file of its rows."""
    yield _HEAD
    rows.seek(0)
    while length > 0:
        part = rows.read(min(_CHUNK, length))
        length -= len(part)
        yield part
    yield _END


def remote_id(nonce: str, custom_id: str) -> str:
    """The identifier of a row at the service: the nonce of its batch, and its own identifier.

    That of a call in the journal has 64 hexadecimal digits and is written with 43 characters, so that both
    fit into the 64 that a row may have.

    Raises:
        CallError: They do not fit.
    """
    if _HEX_KEY.fullmatch(custom_id):
        packed = base64.urlsafe_b64encode(bytes.fromhex(custom_id)).rstrip(b"=").decode()
        whole = f"{nonce}-{packed}"
    else:
        whole = f"{nonce}_{custom_id}"
    if not _NONCE.fullmatch(nonce) or not _CUSTOM_ID.fullmatch(whole):
        raise CallError("internal", f"the row's identifier {custom_id[:100]!r} is none that Anthropic takes")
    return whole


def own_id(whole: str) -> str:
    """The reverse of `remote_id`; a foreign row's id stays unchanged."""
    if (packed := _PACKED.fullmatch(whole)) is not None:
        return base64.urlsafe_b64decode(f"{packed[1]}=").hex()
    plain = _PLAIN.fullmatch(whole)
    return plain[1] if plain is not None else whole


@refusing_others
def _remote(batch: MessageBatch) -> RemoteBatch:
    counts = batch.request_counts
    done = counts.succeeded + counts.errored + counts.canceled + counts.expired
    state: BatchState = "running"
    if batch.processing_status == "ended":
        state = "cancelled" if counts.canceled else "expired" if counts.expired else "ended"
    if not isinstance(batch.id, str) or not batch.id:
        raise ValueError
    return RemoteBatch(
        id=batch.id,
        state=state,
        metadata={},
        requests=done + counts.processing,
        done=done,
        created=_time(batch.created_at),
        expires=_time(batch.expires_at),
    )


def _time(value: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
