"""Google's files, batches and `generateContent`, after its API reference.

A batch has a display name and no metadata. What is wrong with its file fails the batch; what is wrong with a
request fails its row. A batch that expired or was cancelled has no results.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web
from google.genai import types
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from tests.serving.batches.emulators.bookkeeping import (
    DAY_S,
    PREPARING_S,
    Batch,
    Emulator,
    Limits,
    Row,
    RowFault,
    html_page,
)
from tests.serving.batches.emulators.replies import digest, said, words
from tests.serving.batches.emulators.thinking import MOST_TOKENS, thought, within

_MAX_OUTPUT = 65_536

_FAILURES: dict[RowFault, tuple[int, str]] = {
    "invalid": (3, "Request contains an invalid argument."),
    "overloaded": (14, "The model is overloaded. Please try again later."),
    "too_long": (3, "The input token count exceeds the maximum number of tokens allowed 1048576."),
}
"""gRPC's code and the message of rows that fail; `refused` and `blocked` are replies."""

_NAMES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


class Request(BaseModel):
    """A `GenerateContentRequest`, of the client's own types."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    contents: list[types.Content]
    system_instruction: types.Content | None = None
    generation_config: types.GenerationConfig | None = None
    safety_settings: list[types.SafetySetting] | None = None
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None


THINKERS: dict[str, tuple[str, ...]] = {
    "gemini-2.5-pro": (),
    "gemini-3.5-flash": ("minimal", "low", "medium", "high"),
}
"""Models that always think, with their levels; one without levels takes budgets."""


def body_fault(body: Any, model: str = "") -> str | None:
    try:
        Request.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return _refusal(body.get("generationConfig") or {}, model) if model in THINKERS else None


def _refusal(config: dict[str, Any], model: str) -> str | None:
    levels = THINKERS[model]
    thinking = config.get("thinkingConfig") or {}
    budget, level = thinking.get("thinkingBudget"), thinking.get("thinkingLevel")
    if config.get("responseLogprobs"):
        return "Logprobs is not enabled for this model"
    if (config.get("maxOutputTokens") or 1) > _MAX_OUTPUT:
        return (
            "Unable to submit request because it has a maxOutputTokens value out of range. The supported"
            f" range is from 1 (inclusive) to {_MAX_OUTPUT + 1} (exclusive)."
        )
    if levels and (config.get("candidateCount") or 1) > 1:
        return "Multiple candidates is not enabled for this model"
    if budget is not None and level is not None:
        return "You can only set one of thinking budget and thinking level."
    if level is not None and str(level).lower() not in levels:
        return f"Thinking level {level} is not supported for this model."
    if not levels and budget == 0:
        return "Budget 0 is invalid. This model only works in thinking mode."
    if not levels and budget not in (None, -1) and not 128 <= budget <= 32_768:
        return f"The thinking budget {budget} is invalid. Please choose a value between 128 and 32768."
    return None


@dataclass
class File:
    """An uploaded file, or one of results, which is made while it is read."""

    name: str
    account: str
    display_name: str
    expires: float
    content: bytes = b""
    batch: Batch | None = None
    deleted: bool = False


class GoogleEmulator(Emulator):
    """See `Emulator`."""

    def __init__(self, ledger: Path | None = None, *, step: float = 0.0, work_s: float = 600.0) -> None:
        super().__init__(ledger, step=step, work_s=work_s)
        self.limits = Limits(200_000, 2_000_000_000)
        self.files: dict[str, File] = {}
        self._uploads: dict[str, File] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1beta/models/{model}", self._model),
            web.post("/v1beta/models/{model}:generateContent", self._generate),
            web.post("/upload/v1beta/files", self._upload),
            web.get("/v1beta/files/{id}:download", self._download),
            web.delete("/v1beta/files/{id}", self._delete_file),
            web.post("/v1beta/models/{model}:batchGenerateContent", self._create),
            web.get("/v1beta/batches", self._list),
            web.get("/v1beta/batches/{id}", self._look),
            web.delete("/v1beta/batches/{id}", self._delete),
        ]

    def error(self, status: int, message: str) -> Any:
        return {"error": {"code": status, "message": message, "status": _NAMES.get(status, "UNAVAILABLE")}}

    def key(self, request: web.Request) -> str:
        return request.headers.get("x-goog-api-key", "")

    async def _model(self, request: web.Request) -> web.Response:
        self.account(request)
        name = request.match_info["model"]
        return web.json_response(
            {
                "name": f"models/{name}",
                "inputTokenLimit": 1_048_576,
                "outputTokenLimit": _MAX_OUTPUT,
                "thinking": name in THINKERS,
            }
        )

    async def _generate(self, request: web.Request) -> web.Response:
        self.account(request)
        body = await request.json()
        model = request.match_info["model"]
        if fault := body_fault(body, model):
            raise self.refuse(400, fault)
        self.billed_online(body)
        return web.json_response(response(body, model))

    async def _upload(self, request: web.Request) -> web.Response:
        """A resumable upload: its start, and its parts."""
        command = request.headers.get("X-Goog-Upload-Command", "")
        if command == "start":
            account = self.account(request)
            self.planned(self.faults.upload)
            if int(request.headers["X-Goog-Upload-Header-Content-Length"]) > self.limits.bytes:
                raise self.refuse(400, "File is too large.")
            asked = (await request.json()).get("file", {})
            name = self.new_id("files/")
            upload = File(name, account, asked.get("displayName", ""), self.now + 2 * DAY_S)
            self._uploads[name] = upload
            url = f"{self.url}/upload/v1beta/files?upload_id={name}"
            headers = {"X-Goog-Upload-URL": url, "X-Goog-Upload-Status": "active"}
            return web.json_response({}, headers=headers)
        file = self._uploads[request.query["upload_id"]]
        if int(request.headers["X-Goog-Upload-Offset"]) != len(file.content):
            raise self.refuse(400, "Offset does not fit.")
        file.content += await request.read()
        if "finalize" not in command:
            return web.json_response({}, headers={"X-Goog-Upload-Status": "active"})
        self.files[file.name] = file
        self.ledger.write({"event": "uploaded", "file": file.name, "bytes": len(file.content)})
        shown = {"file": {"name": file.name, "displayName": file.display_name, "state": "ACTIVE"}}
        return web.json_response(shown, headers={"X-Goog-Upload-Status": "final"})

    def _file(self, request: web.Request) -> File:
        account = self.account(request)
        file = self.files.get(f"files/{request.match_info['id']}")
        if file is None or file.account != account or file.deleted or file.expires <= self.now:
            raise self.refuse(404, "File not found.")
        return file

    async def _delete_file(self, request: web.Request) -> web.Response:
        file = self._file(request)
        file.deleted, file.content = True, b""
        self.ledger.write({"event": "deleted", "file": file.name})
        return web.json_response({})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        file = self._file(request)
        if file.batch is None:
            raise self.refuse(400, "Only generated files can be downloaded.")
        return await self.stream(request, self._lines(file.batch), "application/octet-stream")

    async def _create(self, request: web.Request) -> web.Response:
        account = self.account(request)
        self.planned(self.faults.before)
        body = await request.json()
        batch = body.get("batch") or {}
        config = batch.get("inputConfig") or {}
        if body.keys() != {"batch"} or batch.keys() - {"displayName", "inputConfig"}:
            raise self.refuse(400, "Unknown name in the request.")
        if config.keys() != {"fileName"} or not batch.get("displayName"):
            raise self.refuse(400, "displayName and inputConfig.fileName are required.")
        file = self.files.get(config["fileName"])
        if file is None or file.account != account or file.deleted:
            raise self.refuse(404, "File not found.")
        rows, errors = self._validated(file.content)
        info = {"name": batch["displayName"], "model": request.match_info["model"]}
        made = self.create(account, f"batches/{self.new_id('b')}", rows, info)
        faults = ((index, body_fault(row.body, info["model"])) for index, row in enumerate(rows))
        made.wrong = {index: fault for index, fault in faults if fault is not None}
        made.errors = [{"message": self.faults.fail_batch}] if self.faults.fail_batch else errors
        if not made.errors:
            self.accept(made)
        self.planned(self.faults.after)
        return web.json_response(self._shown(made))

    def _validated(self, content: bytes) -> tuple[list[Row], list[dict[str, Any]]]:
        rows = []
        for number, line in enumerate(filter(None, content.split(b"\n")), start=1):
            try:
                value = json.loads(line)
            except ValueError:
                return [], [{"message": f"line {number} is not JSON"}]
            if value.keys() != {"key", "request"}:
                return [], [{"message": f"line {number}: key and request are required"}]
            rows.append(Row(value["key"], value["request"]))
        if len({row.custom_id for row in rows}) < len(rows):
            return [], [{"message": "a key is used twice"}]
        return rows, [] if rows else [{"message": "the file is empty"}]

    async def _list(self, request: web.Request) -> web.Response:
        size = int(request.query.get("pageSize", 50))
        batches, more = self.page(self.of_account(request), size, request.query.get("pageToken"))
        shown: dict[str, Any] = {"operations": [self._shown(batch) for batch in batches]}
        if more:
            shown["nextPageToken"] = batches[-1].id
        return web.json_response(shown)

    def _found(self, request: web.Request) -> Batch:
        return self.find(request, f"batches/{request.match_info['id']}")

    async def _look(self, request: web.Request) -> web.Response:
        self.planned(self.faults.look)
        if self.faults.html:
            self.faults.html -= 1
            return html_page()
        batch = self._found(request)
        self.looked()
        return web.json_response(self._shown(batch))

    async def _delete(self, request: web.Request) -> web.Response:
        batch = self._found(request)
        batch.deleted = True
        self.ledger.write({"event": "deleted", "batch": batch.id})
        return web.json_response({})

    def _shown(self, batch: Batch) -> dict[str, Any]:
        self.settle(batch)
        state = "RUNNING"
        if self.now < batch.created + PREPARING_S:
            state = "PENDING"
        elif batch.errors:
            state = "FAILED"
        elif self.now >= batch.ends:
            state = {"completed": "SUCCEEDED", "expired": "EXPIRED", "cancelled": "CANCELLED"}[batch.end]
        metadata: dict[str, Any] = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "model": f"models/{batch.info['model']}",
            "displayName": batch.info["name"],
            "createTime": self._time(batch.created),
            "updateTime": self._time(self.now),
            "state": f"BATCH_STATE_{state}",
            "name": batch.id,
        }
        shown: dict[str, Any] = {"name": batch.id, "metadata": metadata}
        if state == "SUCCEEDED":
            metadata["endTime"] = self._time(batch.ends)
            metadata["output"] = {"responsesFile": self._result_file(batch)}
            shown |= {"done": True, "response": metadata["output"]}
        if state == "FAILED":
            shown |= {"done": True, "error": {"code": 3, **batch.errors[0]}}
        return shown

    def is_billed(self, batch: Batch, index: int) -> bool:
        return batch.end == "completed" and super().is_billed(batch, index)

    def _result_file(self, batch: Batch) -> str:
        name = f"files/batch-{batch.id.partition('/')[2]}"
        if name not in self.files:
            self.files[name] = File(name, batch.account, "", batch.ends + 30 * DAY_S, batch=batch)
        return name

    def _time(self, moment: float) -> str:
        return datetime.fromtimestamp(self.shown_time(moment), UTC).isoformat().replace("+00:00", "Z")

    def _lines(self, batch: Batch) -> Iterator[dict[str, Any]]:
        indices = self.result_indices(batch)
        seen: set[int] = set()
        for index in indices:
            yield self._line(batch, index)
            if index in self.faults.contradicted and index not in seen:
                line = self._line(batch, index)
                line["response"]["candidates"][0]["content"]["parts"][0]["text"] = '{"word": "another"}'
                yield line
            seen.add(index)
        for number in range(self.faults.foreign):
            yield {**self._line(batch, indices[0]), "key": f"nobody-asked-{number}"}

    def _line(self, batch: Batch, index: int) -> dict[str, Any]:
        row, fault = batch.rows[index], self.faults.of_row(index)
        wrong = batch.wrong.get(index)
        failure = (3, wrong) if wrong else _FAILURES.get(fault) if fault else None
        if failure is not None:
            return {"key": row.custom_id, "error": {"code": failure[0], "message": failure[1]}}
        given = response(row.body, batch.info["model"])
        if fault == "refused":
            given["candidates"] = [
                {"index": one["index"], "finishReason": "SAFETY"} for one in given["candidates"]
            ]
        if fault == "blocked":
            # Once for all candidates.
            given = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": given["usageMetadata"]}
        return {"key": row.custom_id, "response": given}


def response(body: dict[str, Any], model: str = "gemini-2.5-flash") -> dict[str, Any]:
    """A response to a request, online or in a batch."""
    system = body.get("systemInstruction")
    prompt = [("system", _text(system))] if system else []
    prompt += [(one.get("role") or "user", _text(one)) for one in body["contents"]]
    config = body.get("generationConfig") or {}
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    thinks = model in THINKERS
    limit = config.get("maxOutputTokens") if thinks else None
    replies = [
        within(limit, said(prompt, sample, schema), _thought(body, sample) if thinks else 0)
        for sample in range(config.get("candidateCount") or 1)
    ]
    read = words(*(text for _, text in prompt))
    written, thoughts = words(*(one.text for one in replies)), sum(one.thinking for one in replies)
    # Some replies that were cut have no candidates at all.
    lost = not any(one.text for one in replies) and int(digest(body)[:2], 16) % 4 == 0
    return {
        "candidates": [
            {
                "index": index,
                "content": {"role": "model", **({"parts": [{"text": one.text}]} if one.text else {})},
                "finishReason": "MAX_TOKENS" if one.cut else "STOP",
            }
            for index, one in enumerate(replies)
            if not lost
        ],
        "usageMetadata": {
            "promptTokenCount": read,
            "candidatesTokenCount": written,
            "totalTokenCount": read + written + thoughts,
            **({"thoughtsTokenCount": thoughts} if thoughts else {}),
            "cachedContentTokenCount": read // 2,
        },
        "modelVersion": model,
        "responseId": digest(body)[:22],
    }


def _thought(body: dict[str, Any], sample: int) -> int:
    thinking = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    budget: int = thinking.get("thinkingBudget", MOST_TOKENS)
    return min(thought(body, sample), budget)


def _text(content: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in content.get("parts") or ())
