"""Runs whose calls go to another machine as files, and that machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from runs.batch_files import Imported, export_calls, import_results
from runs.folder import RunFolder
from serving.made_up_replies import made_up_text
from tests.runs.batched.conftest import Runs

MODEL = "batch:vllm:tiny"
_ROLES = {"user": "human", "assistant": "ai"}

Line = dict[str, Any]


class Elsewhere(Runs):
    """Runs by files, and a machine that answers them as the scripted model would."""

    def export(self, out: str = "run", model: str | None = None) -> list[Line]:
        path = self.folder / "requests.jsonl"
        export_calls(RunFolder(self.folder / out), path, model)
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    def answers(self, requests: list[Line], out: str = "run", model: str = MODEL) -> list[Line]:
        journal = self.journal(out)
        calls = {one.custom_id: one.call for one in journal.batches.waiting(model)}
        journal.close()
        found = []
        for request in requests:
            call, body = calls[request["custom_id"]], request["body"]
            prompt = [(_ROLES.get(one["role"], one["role"]), one["content"]) for one in body["messages"]]
            texts = [
                made_up_text(prompt, n, call.schema_name, dict(call.schema or {}) or None, call.choices)
                for n in call.samples
            ]
            assert body.get("n", 1) == len(texts)
            choices = [
                {"index": n, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                for n, text in enumerate(texts)
            ]
            usage = {"prompt_tokens": 10, "completion_tokens": 5 * len(texts)}
            response = {"model": body["model"], "choices": choices, "usage": usage}
            found.append(
                {
                    "id": "vllm-1",
                    "custom_id": request["custom_id"],
                    "response": {"status_code": 200, "request_id": "r", "body": response},
                    "error": None,
                }
            )
        return found

    def read(self, lines: list[Line], out: str = "run", *, cut: int = 0, **options: Any) -> Imported:
        path = self.folder / "results.jsonl"
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        path.write_text(text[: len(text) - cut], "utf-8")
        return asyncio.run(import_results(self.folder / out, [path], self.watcher.notify, **options))

    def round(self, change: Callable[[list[Line]], list[Line]] = lambda lines: lines) -> Imported:
        return self.read(change(self.answers(self.export())))
