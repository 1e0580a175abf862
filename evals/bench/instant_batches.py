"""OpenAI's routes for files and batches, for the instant server: a batch has ended as soon as it is made."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

BATCH_REQUEST = re.compile(rb"([A-Z]+) /v1/(files|batches)(?:/([^/ ?]+))?(/content)?[ ?]")
"""Head of a request for one of them: its method, the kind, the id, and whether the content is wanted."""


@dataclass(slots=True)
class InstantBatches:
    """Files and batches, which have ended once they are made. A file is gone when it is deleted."""

    _files: dict[str, bytes] = field(default_factory=dict)
    _batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def to(
        self, request: re.Match[bytes], content: bytes, answer_row: Callable[[bytes], bytes]
    ) -> dict[str, Any] | bytes:
        """The response to a request for a file or a batch: a JSON value, or the content of a file."""
        method, kind, one, text = (part.decode() if part else "" for part in request.groups())
        if kind == "files":
            if method == "POST":
                return {"id": self._keep(_uploaded(content)), "object": "file"}
            if text:
                return self._files[one]
            del self._files[one]
            return {"id": one, "object": "file", "deleted": True}
        if method == "POST":
            return self._run(json.loads(content), answer_row)
        listed = {"object": "list", "data": [*self._batches.values()], "has_more": False}
        return self._batches[one] if one else listed

    def _keep(self, content: bytes) -> str:
        name = f"file-{next(self._ids)}"
        self._files[name] = content
        return name

    def _run(self, wanted: dict[str, Any], answer_row: Callable[[bytes], bytes]) -> dict[str, Any]:
        rows = self._files[wanted["input_file_id"]].splitlines()
        name = f"batch-{next(self._ids)}"
        counts = {"total": len(rows), "completed": len(rows), "failed": 0}
        self._batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": wanted["endpoint"],
            "completion_window": wanted["completion_window"],
            "created_at": 1,
            "status": "completed",
            "input_file_id": wanted["input_file_id"],
            "output_file_id": self._keep(b"".join(map(answer_row, rows))),
            "request_counts": counts,
            "metadata": wanted["metadata"],
        }
        return self._batches[name]


def _uploaded(form: bytes) -> bytes:
    """The file in a form."""
    boundary = form.partition(b"\r\n")[0]
    (part,) = (one for one in form.split(boundary) if b"filename=" in one.partition(b"\r\n\r\n")[0])
    return part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
