"""Anthropic's messages and message batches, after its API reference.

A batch keeps no metadata, and its requests cannot be read. What is wrong with the list of requests is said at
once; what is wrong with a request is said when the batch has ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

from tests.serving.batches.emulators.bookkeeping import Batch, Emulator, Limits, Row, RowFault, html_page
from tests.serving.batches.emulators.replies import digest, said, text_of, words
from tests.serving.batches.emulators.strict import Strict
from tests.serving.batches.emulators.thinking import MOST_TOKENS, thought, within

_BODY = Strict(MessageCreateParamsNonStreaming)
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_FAILURES: dict[RowFault, tuple[str, str]] = {
    "invalid": ("invalid_request_error", "a parameter is invalid"),
    "overloaded": ("overloaded_error", "Overloaded"),
    "too_long": ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
}
"""Type and message of rows that fail; `refused` and `blocked` are replies."""

_NAMES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


_OLDER = ("temperature", "top_p", "top_k")
"""Fields that the service takes and its client's types no longer have."""


@dataclass(frozen=True)
class Thinker:
    """What a model takes that can think.

    Attributes:
        kinds: Values of `thinking.type`.
        thinks: Whether it does unless it is asked not to.
        efforts: Values of `output_config.effort`.
        max_output: The largest limit.
        samples: Whether it takes parameters of sampling.
        forces: Whether it takes forced tools.
    """

    kinds: tuple[str, ...]
    thinks: bool
    efforts: tuple[str, ...]
    max_output: int = 128_000
    samples: bool = False
    forces: bool = True


_EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKERS = {
    "claude-opus-4-5": Thinker(("enabled", "disabled"), False, _EFFORTS[:3], 64_000, samples=True),
    "claude-sonnet-5": Thinker(("adaptive", "disabled"), True, _EFFORTS),
    "claude-opus-5-5": Thinker(("adaptive",), True, _EFFORTS, forces=False),
}


def thinks(body: Any) -> bool:
    """Whether a reply to a request begins with thinking."""
    thinker = THINKERS.get(body["model"])
    kind = (body.get("thinking") or {}).get("type")
    return thinker is not None and (thinker.thinks if kind is None else kind != "disabled")


def _refusal(body: Any) -> str | None:
    thinker = THINKERS.get(body["model"])
    if thinker is None:
        return None
    thinking = body.get("thinking") or {}
    kind, forced = thinking.get("type"), (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    if body["max_tokens"] > thinker.max_output:
        return (
            f"max_tokens: {body['max_tokens']} > {thinker.max_output}, which is the maximum allowed number of"
            f" output tokens for {body['model']}"
        )
    if kind is not None and kind not in thinker.kinds:
        instead = ' Use "thinking.type.adaptive" and "output_config.effort".' if kind == "enabled" else ""
        return f'"thinking.type.{kind}" is not supported for this model.{instead}'
    if kind == "enabled" and not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`, which must be at least 1024."
    effort = (body.get("output_config") or {}).get("effort")
    if effort is not None and effort not in thinker.efforts:
        return f"output_config.effort: {effort!r} is not supported for this model."
    if forced and kind in ("enabled", "adaptive"):
        return "Thinking may not be enabled when tool_choice forces tool use."
    if forced and not thinker.forces:
        return "tool_choice: forcing tool use is not supported for this model."
    for name in _OLDER:
        if name in body and not thinker.samples:
            return f"`{name}` is deprecated for this model."
        if thinks(body) and body.get(name, 1) != 1:
            return f"`{name}` may only be set to 1 when thinking is enabled."
    return None


def body_fault(body: Any) -> str | None:
    if not isinstance(body, dict):
        return "params: an object is required"
    if not all(isinstance(body.get(name, 0), int | float) for name in _OLDER):
        return "temperature: Input should be a valid number"
    fault = _BODY.fault({name: value for name, value in body.items() if name not in _OLDER})
    return fault or _refusal(body)


class AnthropicEmulator(Emulator):
    """See `Emulator`."""

    def __init__(self, ledger: Path | None = None, *, step: float = 0.0, work_s: float = 600.0) -> None:
        super().__init__(ledger, step=step, work_s=work_s)
        self.limits = Limits(100_000, 256_000_000)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models/{model}", self._model),
            web.post("/v1/messages", self._message),
            web.post("/v1/messages/batches", self._create),
            web.get("/v1/messages/batches", self._list),
            web.get("/v1/messages/batches/{id}", self._look),
            web.get("/v1/messages/batches/{id}/results", self._results),
            web.delete("/v1/messages/batches/{id}", self._delete),
        ]

    def error(self, status: int, message: str) -> Any:
        return {"type": "error", "error": {"type": _NAMES.get(status, "api_error"), "message": message}}

    def key(self, request: web.Request) -> str:
        """A bearer token or the API key header; the version is required, too."""
        if "anthropic-version" not in request.headers:
            raise self.refuse(400, "anthropic-version: header is required")
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        return request.headers.get("x-api-key", bearer)

    async def _model(self, request: web.Request) -> web.Response:
        self.account(request)
        name = request.match_info["model"]
        if (thinker := THINKERS.get(name)) is None:
            raise self.refuse(404, f"model: {name}")
        return web.json_response(described(name, thinker))

    async def _message(self, request: web.Request) -> web.Response:
        self.account(request)
        body = await request.json()
        if fault := body_fault(body):
            raise self.refuse(400, fault)
        self.billed_online(body)
        return web.json_response(message(body))

    async def _create(self, request: web.Request) -> web.Response:
        account = self.account(request)
        self.planned(self.faults.before)
        content = await request.read()
        if len(content) > self.limits.bytes:
            raise self.refuse(413, "Request exceeds the maximum allowed number of bytes.")
        body = json.loads(content)
        if unknown := body.keys() - {"requests"}:
            raise self.refuse(400, f"{sorted(unknown)[0]}: Extra inputs are not permitted")
        requests = body.get("requests")
        if not isinstance(requests, list) or not 1 <= len(requests) <= self.limits.requests:
            raise self.refuse(400, f"requests: a list of 1 to {self.limits.requests} is required")
        rows = [self._row(index, one) for index, one in enumerate(requests)]
        if len({row.custom_id for row in rows}) < len(rows):
            raise self.refuse(400, "requests: custom_id must be unique within a batch")
        batch = self.create(account, self.new_id("msgbatch_"), rows, {})
        faults = ((index, body_fault(row.body)) for index, row in enumerate(rows))
        batch.wrong = {index: fault for index, fault in faults if fault is not None}
        self.accept(batch)
        self.planned(self.faults.after)
        return web.json_response(self._shown(batch))

    def _row(self, index: int, value: Any) -> Row:
        if not isinstance(value, dict) or value.keys() != {"custom_id", "params"}:
            raise self.refuse(400, f"requests.{index}: custom_id and params are required, and nothing else")
        if not isinstance(value["custom_id"], str) or not _CUSTOM_ID.fullmatch(value["custom_id"]):
            raise self.refuse(400, f"requests.{index}.custom_id: must match {_CUSTOM_ID.pattern}")
        return Row(value["custom_id"], value["params"])

    async def _list(self, request: web.Request) -> web.Response:
        if unknown := set(request.query) - {"after_id", "before_id", "limit"}:
            raise self.refuse(400, f"{sorted(unknown)[0]}: Extra inputs are not permitted")
        limit = int(request.query.get("limit", 20))
        if not 1 <= limit <= 1000:
            raise self.refuse(400, "limit: must be between 1 and 1000")
        batches, more = self.page(self.of_account(request), limit, request.query.get("after_id"))
        return web.json_response(
            {
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

    async def _delete(self, request: web.Request) -> web.Response:
        batch = self.find(request, request.match_info["id"])
        if self.now < batch.ends:
            raise self.refuse(400, "Batch is still processing; cancel it first")
        batch.deleted = True
        self.ledger.write({"event": "deleted", "batch": batch.id})
        return web.json_response({"id": batch.id, "type": "message_batch_deleted"})

    def _shown(self, batch: Batch) -> dict[str, Any]:
        self.settle(batch)
        ended = self.now >= batch.ends
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        for index in range(len(batch.rows)):
            counts[self._kind(batch, index) if ended else "processing"] += 1
        results = f"{self.url}/v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "canceling" if batch.cancelled else "in_progress",
            "request_counts": counts,
            "created_at": self._time(batch.created),
            "expires_at": self._time(batch.expires),
            "ended_at": self._time(batch.ends) if ended else None,
            "archived_at": None,
            "cancel_initiated_at": self._time(batch.cancelled) if batch.cancelled else None,
            "results_url": results if ended else None,
        }

    def _time(self, moment: float) -> str:
        return datetime.fromtimestamp(self.shown_time(moment), UTC).isoformat().replace("+00:00", "Z")

    def _kind(self, batch: Batch, index: int) -> str:
        if index >= batch.done(batch.ends):
            return "expired" if batch.end == "expired" else "canceled"
        return "succeeded" if self.is_billed(batch, index) else "errored"

    async def _results(self, request: web.Request) -> web.StreamResponse:
        batch = self.find(request, request.match_info["id"])
        if self.now < batch.ends:
            raise self.refuse(404, "Results are not ready")
        return await self.stream(request, self._lines(batch), "application/x-jsonl")

    def _lines(self, batch: Batch) -> Iterator[dict[str, Any]]:
        indices = self.result_indices(batch)
        seen: set[int] = set()
        for index in indices:
            yield self._line(batch, index)
            if index in self.faults.contradicted and index not in seen:
                line = self._line(batch, index)
                if line["result"]["type"] == "succeeded":
                    line["result"]["message"]["content"][0]["text"] = '{"word": "another"}'
                yield line
            seen.add(index)
        for number in range(self.faults.foreign):
            yield {**self._line(batch, indices[0]), "custom_id": f"nobody-asked-{number}"}

    def _line(self, batch: Batch, index: int) -> dict[str, Any]:
        row, kind = batch.rows[index], self._kind(batch, index)
        fault = self.faults.of_row(index)
        result: dict[str, Any] = {"type": kind}
        if kind == "errored":
            wrong = batch.wrong.get(index)
            name, words_ = ("invalid_request_error", wrong) if wrong else _FAILURES[fault or "invalid"]
            result["error"] = {"type": "error", "error": {"type": name, "message": words_}}
        if kind == "succeeded":
            result["message"] = message(row.body)
            if fault in ("refused", "blocked"):
                result["message"] |= {"content": [], "stop_reason": "refusal"}
        return {"custom_id": row.custom_id, "result": result}


def _thought(body: dict[str, Any]) -> int:
    if not thinks(body):
        return 0
    budget: int = body.get("thinking", {}).get("budget_tokens", MOST_TOKENS)
    return min(thought(body, 0), budget)


def described(name: str, thinker: Thinker) -> dict[str, Any]:
    kinds = ("adaptive", "between_tools", "disabled", "enabled")
    efforts = ("low", "medium", "high", "xhigh", "max")
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": thinker.max_output,
        "capabilities": {
            "thinking": {
                "supported": True,
                "types": {one: {"supported": one in thinker.kinds} for one in kinds},
            },
            "effort": {
                "supported": bool(thinker.efforts),
                **{one: {"supported": one in thinker.efforts} for one in efforts},
            },
        },
    }


def message(body: dict[str, Any]) -> dict[str, Any]:
    """A response to a request, online or in a batch."""
    system = body.get("system") or ""
    prompt = [("system", text_of(system))] if system else []
    prompt += [(one["role"], text_of(one["content"])) for one in body["messages"]]
    schema = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    tools = body.get("tools") or []
    text = said(prompt, 0, tools[0]["input_schema"] if tools else schema)
    block: dict[str, Any] = {"type": "text", "text": text}
    if tools:
        block = {
            "type": "tool_use",
            "id": f"toolu_{digest(body)[:20]}",
            "name": tools[0]["name"],
            "input": json.loads(text),
        }
    read = words(*(text for _, text in prompt))
    limit = body["max_tokens"] if body["model"] in THINKERS else None
    reply = within(limit, text, _thought(body))
    blocks = [block]
    if reply.cut:
        blocks = [{"type": "text", "text": reply.text}] if reply.text and not tools else []
    if reply.thinking:
        # Newer models return no text of their thinking.
        blocks.insert(0, {"type": "thinking", "thinking": "", "signature": digest(body)})
    return {
        "id": f"msg_{digest(body)[:24]}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": "max_tokens" if reply.cut else "tool_use" if tools else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": read - read // 2,
            "cache_read_input_tokens": read // 2,
            "cache_creation_input_tokens": 0,
            "output_tokens": reply.tokens,
            "output_tokens_details": {"thinking_tokens": reply.thinking},
        },
    }
