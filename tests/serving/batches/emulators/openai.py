"""OpenAI's files, batches and chat completions, after its API reference.

Rows are checked as the online endpoint checks a request. What is wrong with the file fails the batch while it
is validated, with line numbers; what is wrong with a body fails its row.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, web
from openai.types.batch_create_params import BatchCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

from tests.serving.batches.emulators.bookkeeping import (
    DAY_S,
    FINISHING_S,
    PREPARING_S,
    Batch,
    Emulator,
    Limits,
    Refused,
    Row,
    RowFault,
    html_page,
)
from tests.serving.batches.emulators.replies import digest, said, text_of, words
from tests.serving.batches.emulators.strict import Strict
from tests.serving.batches.emulators.thinking import thought, within
from tests.serving.fake_server import first_sentence

_CHAT = "/v1/chat/completions"
_BATCH = Strict(BatchCreateParams)
BODY = Strict(CompletionCreateParamsNonStreaming)
_MAX_ERRORS = 100
_KEEP_S = 30 * DAY_S

_FAILURES: dict[RowFault, tuple[int, str, str]] = {
    "invalid": (400, "invalid_value", "Invalid value for a parameter"),
    "overloaded": (503, "overloaded", "The server is overloaded"),
    "too_long": (400, "context_length_exceeded", "This model's maximum context length is 4096 tokens"),
}
"""Status, code and message of rows that fail; `refused` and `blocked` are replies."""


@dataclass(frozen=True)
class Thinker:
    """A model that thinks unless its effort is `none`."""

    efforts: tuple[str, ...]
    effort: str
    """Its own default."""


THINKERS = {
    "gpt-5-mini": Thinker(("minimal", "low", "medium", "high"), "medium"),
    "gpt-5.1": Thinker(("none", "low", "medium", "high"), "none"),
    "o4-mini": Thinker(("low", "medium", "high"), "medium"),
}
_MAX_OUTPUT = 128_000
_FIXED = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}
"""Parameters of sampling with the only value that a model takes while it thinks."""


def refused(status: int, message: str, param: str | None = None, code: str | None = None) -> Refused:
    """To be raised: an error with the parameter that is at fault."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return Refused(status, {"error": error})


def demand_taken(body: dict[str, Any]) -> None:
    """What the models that think refuse.

    Raises:
        Refused: It is in the request.
    """
    name = body["model"]
    thinker = THINKERS.get(name)
    if thinker is None:
        return
    if "max_tokens" in body:
        message = (
            "Unsupported parameter: 'max_tokens' is not supported with this model."
            " Use 'max_completion_tokens' instead."
        )
        raise refused(400, message, "max_tokens", "unsupported_parameter")
    effort = body.get("reasoning_effort") or thinker.effort
    if effort not in thinker.efforts:
        *others, last = (repr(one) for one in thinker.efforts)
        message = (
            f"Unsupported value: {effort!r} is not supported with the {name!r} model."
            f" Supported values are: {', '.join(others)}, and {last}."
        )
        raise refused(400, message, "reasoning_effort", "unsupported_value")
    if (limit := body.get("max_completion_tokens") or 0) > _MAX_OUTPUT:
        message = (
            f"max_tokens is too large: {limit}. This model supports at most {_MAX_OUTPUT} completion tokens,"
            f" whereas you provided {limit}."
        )
        raise refused(400, message, "max_tokens", "invalid_value")
    if effort == "none":
        return
    for parameter, value in _FIXED.items():
        if (given := body.get(parameter)) not in (None, value):
            message = (
                f"Unsupported value: {parameter!r} does not support {given:g} with this model."
                f" Only the default ({value}) value is supported."
            )
            raise refused(400, message, parameter, "unsupported_value")
    if body.get("logprobs"):
        raise refused(403, "You are not allowed to request logprobs from this model")
    if limit == 1:
        message = (
            "Could not finish the message because max_tokens or model output limit was reached."
            " Please try again with higher max_tokens."
        )
        raise refused(400, message)


def _refusal(body: Any) -> str | None:
    if fault := BODY.fault(body):
        return fault
    try:
        demand_taken(body)
    except Refused as error:
        return str(error.body["error"]["message"])
    return None


@dataclass
class File:
    """An uploaded file, or one of results, which is made while it is read."""

    id: str
    account: str
    name: str
    created: float
    expires: float
    content: bytes = b""
    batch: Batch | None = None
    deleted: bool = False


class OpenAIEmulator(Emulator):
    """See `Emulator`."""

    def __init__(self, ledger: Path | None = None, *, step: float = 0.0, work_s: float = 600.0) -> None:
        super().__init__(ledger, step=step, work_s=work_s)
        self.limits = Limits(50_000, 200_000_000)
        self.files: dict[str, File] = {}

    names: tuple[str, ...] = ("gpt-4.1", "tiny", *THINKERS)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self._models),
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/files", self._upload),
            web.get("/v1/files/{id}/content", self._content),
            web.delete("/v1/files/{id}", self._delete),
            web.post("/v1/batches", self._create),
            web.get("/v1/batches", self._list),
            web.get("/v1/batches/{id}", self._look),
        ]

    def error(self, status: int, message: str) -> Any:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def key(self, request: web.Request) -> str:
        return request.headers.get("Authorization", "").removeprefix("Bearer ").strip()

    async def _models(self, request: web.Request) -> web.Response:
        self.account(request)
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.names]})

    async def _chat(self, request: web.Request) -> web.Response:
        self.account(request)
        body = await request.json()
        if fault := BODY.fault(body):
            raise self.refuse(400, fault)
        demand_taken(body)
        self.billed_online(body)
        return web.json_response(completion(body))

    async def _upload(self, request: web.Request) -> web.Response:
        account = self.account(request)
        self.planned(self.faults.upload)
        parts: dict[str, Any] = {}
        name = ""
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            content = bytes(await part.read())
            if part.name == "file":
                name, parts["file"] = part.filename or "", content
            else:
                parts[str(part.name)] = content.decode()
        known = {"file", "purpose", "expires_after[anchor]", "expires_after[seconds]"}
        if unknown := parts.keys() - known:
            raise self.refuse(400, f"Unknown parameter: {sorted(unknown)[0]!r}.")
        if parts.get("purpose") != "batch" or "file" not in parts:
            raise self.refuse(400, "Missing or wrong parameter: 'purpose' or 'file'.")
        if not name.endswith(".jsonl"):
            raise self.refuse(400, f"Invalid file format for Batch API: {name}. Must be .jsonl")
        if len(parts["file"]) > self.limits.bytes:
            raise self.refuse(400, "File is too large.")
        keep = _KEEP_S
        if "expires_after[seconds]" in parts:
            if parts.get("expires_after[anchor]") != "created_at":
                raise self.refuse(400, "Invalid value: 'expires_after[anchor]'.")
            keep = self._seconds(parts["expires_after[seconds]"])
        file = File(self.new_id("file-"), account, name, self.now, self.now + keep, parts["file"])
        self.files[file.id] = file
        self.ledger.write({"event": "uploaded", "file": file.id, "bytes": len(file.content)})
        return web.json_response(
            {
                "id": file.id,
                "object": "file",
                "bytes": len(file.content),
                "created_at": int(self.shown_time(file.created)),
                "expires_at": int(self.shown_time(file.expires)),
                "filename": name,
                "purpose": "batch",
                "status": "processed",
            }
        )

    def _seconds(self, text: Any) -> int:
        if not 3600 <= int(text) <= 2_592_000:
            raise self.refuse(400, "Invalid 'seconds': must be between 3600 and 2592000.")
        return int(text)

    def _file(self, request: web.Request) -> File:
        file = self.files.get(request.match_info["id"])
        if file is None or file.account != self.account(request) or file.deleted or file.expires <= self.now:
            raise self.refuse(404, f"No such File object: {request.match_info['id']}")
        return file

    async def _delete(self, request: web.Request) -> web.Response:
        file = self._file(request)
        file.deleted = True
        file.content = b""
        self.ledger.write({"event": "deleted", "file": file.id})
        return web.json_response({"id": file.id, "object": "file", "deleted": True})

    async def _content(self, request: web.Request) -> web.StreamResponse:
        file = self._file(request)
        if file.batch is None:
            return web.Response(body=file.content)
        wanted = file.id.startswith("file-output")
        return await self.stream(
            request, self._results(file.batch, replies=wanted), "application/octet-stream"
        )

    async def _create(self, request: web.Request) -> web.Response:
        account = self.account(request)
        self.planned(self.faults.before)
        body = await request.json()
        if fault := _BATCH.fault(body):
            raise self.refuse(400, fault)
        if body["endpoint"] != _CHAT:
            raise self.refuse(400, "This emulator has chat completions only.")
        metadata = body.get("metadata") or {}
        if len(metadata) > 16 or any(len(k) > 64 or len(v) > 512 for k, v in metadata.items()):
            raise self.refuse(400, "Invalid 'metadata': 16 pairs of 64 and 512 characters at most.")
        keep = _KEEP_S
        if "output_expires_after" in body:
            keep = self._seconds(body["output_expires_after"]["seconds"])
        file = self.files.get(body["input_file_id"])
        if file is None or file.account != account or file.deleted or file.batch is not None:
            raise self.refuse(400, f"Invalid 'input_file_id': no such file {body['input_file_id']}")
        rows, errors = self._validated(file.content)
        batch = self.create(
            account,
            self.new_id("batch_"),
            rows,
            {"metadata": metadata, "input": file.id, "keep": keep, "file_bytes": len(file.content)},
        )
        if self.faults.fail_batch:
            errors = [_error(self.faults.fail_batch, "Enqueued token limit reached for this model", None)]
        batch.errors = errors
        faults = ((index, _refusal(row.body)) for index, row in enumerate(rows))
        batch.wrong = {index: fault for index, fault in faults if fault is not None}
        if not errors:
            self.accept(batch)
        self.planned(self.faults.after)
        return web.json_response(self._shown(batch))

    def _validated(self, content: bytes) -> tuple[list[Row], list[dict[str, Any]]]:
        """The rows of a file, or what is wrong with it, line by line."""
        rows: list[Row] = []
        errors: list[dict[str, Any]] = []
        seen: set[str] = set()
        models: set[str] = set()
        for number, line in enumerate(filter(None, content.split(b"\n")), start=1):
            try:
                value = json.loads(line)
            except ValueError:
                errors.append(
                    _error("invalid_json_line", "This line is not parseable as valid JSON.", number)
                )
                continue
            for name, kind in (("custom_id", str), ("method", str), ("url", str), ("body", dict)):
                if not isinstance(value.get(name), kind):
                    message = f"Missing required parameter: '{name}'."
                    errors.append(_error("missing_required_parameter", message, number))
            if unknown := value.keys() - {"custom_id", "method", "url", "body"}:
                message = f"Unknown parameter: {sorted(unknown)[0]!r}."
                errors.append(_error("unknown_parameter", message, number))
            if (value.get("method"), value.get("url")) != ("POST", _CHAT):
                errors.append(_error("invalid_url", "The URL does not match the batch's endpoint.", number))
            custom_id = value.get("custom_id")
            if custom_id in seen:
                message = f"The custom_id '{custom_id}' is used by another row."
                errors.append(_error("duplicate_custom_id", message, number))
            if not errors:
                seen.add(custom_id)
                models.add(value["body"].get("model"))
                rows.append(Row(custom_id, value["body"]))
        if not rows and not errors:
            errors.append(_error("empty_file", "The input file is empty.", None))
        if len(models) > 1:
            errors.append(_error("mismatched_model", "A batch has requests for one model only.", None))
        if len(rows) > self.limits.requests:
            errors.append(_error("too_many_requests", "The file has too many requests.", None))
        return rows, errors[:_MAX_ERRORS]

    async def _list(self, request: web.Request) -> web.Response:
        if unknown := set(request.query) - {"after", "limit"}:
            raise self.refuse(400, f"Unknown parameter: {sorted(unknown)[0]!r}.")
        limit = int(request.query.get("limit", 20))
        if not 1 <= limit <= 100:
            raise self.refuse(400, "Invalid 'limit': must be between 1 and 100.")
        batches, more = self.page(self.of_account(request), limit, request.query.get("after"))
        return web.json_response(
            {
                "object": "list",
                "data": [self._shown(batch) for batch in batches],
                "first_id": batches[0].id if batches else None,
                "last_id": batches[-1].id if batches else None,
                "has_more": more,
            }
        )

    async def _look(self, request: web.Request) -> web.Response:
        self.planned(self.faults.look)
        if self.faults.html:
            self.faults.html -= 1
            return html_page()
        batch = self.find(request, request.match_info["id"])
        self.looked()
        return web.json_response(self._shown(batch))

    def _status(self, batch: Batch) -> str:
        if self.now < batch.created + PREPARING_S and batch.cancelled is None:
            return "validating"
        if batch.errors:
            return "failed"
        if self.now >= batch.ends:
            return batch.end
        if batch.end == "cancelled":
            return "cancelling"
        return "finalizing" if self.now >= batch.ends - FINISHING_S else "in_progress"

    def _shown(self, batch: Batch) -> dict[str, Any]:
        self.settle(batch)
        status = self._status(batch)
        final = status in ("completed", "expired", "cancelled")
        failed = sum(not self._is_reply(batch, index) for index in range(batch.done(self.now)))
        shown: dict[str, Any] = {
            "id": batch.id,
            "object": "batch",
            "endpoint": _CHAT,
            "errors": {"object": "list", "data": batch.errors} if status == "failed" else None,
            "input_file_id": batch.info["input"],
            "completion_window": "24h",
            "status": status,
            "created_at": int(self.shown_time(batch.created)),
            "expires_at": int(self.shown_time(batch.expires)),
            "request_counts": {
                "total": 0 if status in ("validating", "failed") else len(batch.rows),
                "completed": batch.done(self.now) - failed if not batch.errors else 0,
                "failed": failed if not batch.errors else 0,
            },
            "metadata": batch.info["metadata"] or None,
            "output_file_id": None,
            "error_file_id": None,
        }
        if final:
            kinds = {self._is_reply(batch, index) for index in range(len(batch.rows))}
            if True in kinds:
                shown["output_file_id"] = self._result_file(batch, "output")
            if False in kinds:
                shown["error_file_id"] = self._result_file(batch, "error")
        return shown

    def _result_file(self, batch: Batch, kind: str) -> str:
        file_id = f"file-{kind}-{batch.id}"
        if file_id not in self.files:
            expires = batch.ends + batch.info["keep"]
            name = f"{batch.id}_{kind}.jsonl"
            self.files[file_id] = File(file_id, batch.account, name, batch.ends, expires, batch=batch)
        return file_id

    def _is_reply(self, batch: Batch, index: int) -> bool:
        """Whether a row's result is a reply, as far as it is known how the batch ends."""
        return index < batch.done(max(self.now, batch.ends)) and self.is_billed(batch, index)

    def _results(self, batch: Batch, *, replies: bool) -> Iterator[dict[str, Any]]:
        indices = [one for one in self.result_indices(batch) if self._is_reply(batch, one) == replies]
        seen: set[int] = set()
        for index in indices:
            yield self._result(batch, index)
            if index in self.faults.contradicted and index not in seen:
                line = self._result(batch, index)
                if replies:
                    line["response"]["body"]["choices"][0]["message"]["content"] = '{"word": "another"}'
                yield line
            seen.add(index)
        if replies:
            for number in range(self.faults.foreign):
                yield {**self._result(batch, indices[0]), "custom_id": f"nobody-asked-{number}"}

    def _result(self, batch: Batch, index: int) -> dict[str, Any]:
        row = batch.rows[index]
        line: dict[str, Any] = {
            "id": f"batch_req_{digest([batch.id, index])[:24]}",
            "custom_id": row.custom_id,
            "response": None,
            "error": None,
        }
        fault = self.faults.of_row(index)
        if index >= batch.done(batch.ends):
            code = "batch_expired" if batch.end == "expired" else "batch_cancelled"
            return {**line, "error": {"code": code, "message": "This request could not be executed."}}
        wrong = batch.wrong.get(index)
        failure = (400, "invalid_value", wrong) if wrong else _FAILURES.get(fault) if fault else None
        if failure is not None:
            status, code, message = failure
            error = {"error": {"message": message, "type": "error", "param": None, "code": code}}
            return {
                **line,
                "response": {"status_code": status, "request_id": digest(row.body), "body": error},
            }
        body = completion(row.body)
        if fault == "refused":
            for choice in body["choices"]:
                choice["message"] |= {"content": None, "refusal": "I cannot help with that."}
        if fault == "blocked":
            for choice in body["choices"]:
                choice["finish_reason"] = "content_filter"
        return {**line, "response": {"status_code": 200, "request_id": digest(row.body), "body": body}}


def _thought(body: dict[str, Any], sample: int) -> int:
    thinker = THINKERS.get(body["model"])
    thinks = thinker is not None and (body.get("reasoning_effort") or thinker.effort) != "none"
    return thought(body, sample) if thinks else 0


def completion(body: dict[str, Any], thinking: Callable[[int], int] | None = None) -> dict[str, Any]:
    """A response to a request, online or in a batch.

    Args:
        body: Of the request.
        thinking: Tokens of thinking by sample; the choices then tell of them, and the limit counts.
    """
    prompt = [(message["role"], text_of(message["content"])) for message in body["messages"]]
    samples = range(body.get("n") or 1)
    whole = [_text(body, prompt, sample) for sample in samples]
    thinks = thinking is not None or body["model"] in THINKERS
    limit = (body.get("max_completion_tokens") or body.get("max_tokens")) if thinks else None
    thoughts = [thinking(one) if thinking else _thought(body, one) for one in samples]
    replies = [within(limit, text, tokens) for text, tokens in zip(whole, thoughts, strict=True)]
    texts = [one.text for one in replies]
    read, written = words(*(text for _, text in prompt)), sum(one.tokens for one in replies)
    details = {"completion_tokens_details": {"reasoning_tokens": sum(one.thinking for one in replies)}}
    return {
        "id": f"chatcmpl-{digest(body)[:24]}",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": "length" if replies[index].cut else "stop",
                **({"thinking": replies[index].thinking} if thinking else {}),
                "logprobs": _logprobs(text, body.get("top_logprobs", 0)) if body.get("logprobs") else None,
            }
            for index, text in enumerate(texts)
        ],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": read // 2},
            **(details if thinks else {}),
        },
    }


def _text(body: dict[str, Any], prompt: list[tuple[str, str]], sample: int) -> str:
    form = body.get("response_format") or {}
    schema = form.get("json_schema", {}).get("schema")
    tools = body.get("tools")
    if tools and schema is None:
        schema = tools[0]["function"]["parameters"]
    if grammar := body.get("structured_outputs", {}).get("grammar"):
        # A prompt that was noted has a schema, and its grammar allows no other layout.
        found = said(prompt, sample, None)
        return found if found.startswith(("{", "[", '"')) else first_sentence(grammar)
    text = said(prompt, sample, schema)
    return '{"word": "banana"}' if form.get("type") == "json_object" and text[0] not in '{["' else text


def _logprobs(text: str, top: int) -> dict[str, Any]:
    """Words are tokens here; the later one is, the less sure the model was."""
    content = []
    for index, word in enumerate(text.split()):
        likely = [{"token": word, "logprob": -0.25 * index, "bytes": None}]
        others = ({"token": f"?{n}", "logprob": -9.5 - n, "bytes": None} for n in itertools.count())
        content.append({**likely[0], "top_logprobs": [*likely, *itertools.islice(others, max(0, top - 1))]})
    return {"content": content, "refusal": None}


def _error(code: str, message: str, line: int | None) -> dict[str, Any]:
    return {"code": code, "message": message, "param": None, "line": line}
