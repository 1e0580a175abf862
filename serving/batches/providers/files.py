"""Files of requests for `vllm run-batch`, and its files of results, for a model that runs somewhere else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from serving.backends.backend import CallParameters, Constraint
from serving.backends.openai_protocol import answers, request_body
from serving.batches.provider import Asked, BatchRow, RowResult
from serving.batches.providers.json_lines import chunks, parsed
from serving.batches.providers.openai_rows import request_line, row_result
from serving.messages import Answer, Message
from serving.model_name import ModelName

CONSTRAINTS: tuple[Constraint, ...] = ("grammar", "json_schema", "json_object", "none")
"""How vLLM constrains a reply, the best first."""


class RunBatchFiles:
    """The requests of one model as files; nothing is sent.

    The format is vLLM's (`vllm/entrypoints/openai/run_batch.py`): OpenAI's lines, with an error beside the
    response, as an object or a text.
    """

    def __init__(self, name: ModelName) -> None:
        """Takes the name under which vLLM serves the model there."""
        self._name = name.name

    def row(self, custom_id: str, messages: Sequence[Message], call: CallParameters) -> BatchRow:
        """The request as a row; its body is the one that a vLLM server would get."""
        return BatchRow(custom_id, request_body(self._name, messages, call))

    def write(self, path: Path, rows: Iterable[BatchRow]) -> int:
        """Write a file that is there whole or not at all.

        Args:
            path: Of the file; one that is there is replaced.
            rows: Read once, and not kept.

        Returns:
            How many there are.

        Raises:
            OSError: It cannot be written.
        """
        part = path.with_name(f"{path.name}.part")
        count = 0
        try:
            with part.open("wb") as file:
                for row in rows:
                    file.write(request_line(row))
                    count += 1
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return count

    async def results(self, path: Path, asked: Asked) -> AsyncIterator[RowResult]:
        """Each row of a file of results, in its order.

        Raises:
            CallError: At the end, if a line was no result; all others have been given.
            OSError: It cannot be read.
        """
        with path.open("rb") as file:
            async for line in parsed(chunks(file), str(path)):
                yield row_result(line, asked, self._read, path.name)

    def _read(self, body: object, asked: int) -> list[Answer]:
        return answers(body, self._name, asked)
