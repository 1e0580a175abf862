"""Files of requests for `vllm run-batch`, and its files of results, for a model that runs somewhere else.

Nothing is sent. What is submitted stays in the journal until a file of it is written and answered, so every
batch is there as soon as it is meant, and runs until the last result has been read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path

from cases.private import replacing
from serving.backends.backend import CallParameters, Constraint
from serving.backends.hosted_providers import OPENAI_FACTS
from serving.backends.openai_protocol import answers, request_body
from serving.batches.provider import Asked, BatchLimits, BatchModel, BatchRow, RemoteBatch, RowResult
from serving.batches.providers.json_lines import chunks, parsed
from serving.batches.providers.openai_rows import request_line, row_result
from serving.errors import ModelError
from serving.messages import Answer, Message
from serving.model_name import ModelName

CONSTRAINTS: tuple[Constraint, ...] = ("grammar", "json_schema", "json_object", "none")
"""How vLLM constrains a reply, the best first."""


def connect_files(name: ModelName) -> BatchModel:
    """A model that vLLM runs elsewhere; what its version can do is not known here."""
    return BatchModel(
        RunBatchFiles(name), max_samples=OPENAI_FACTS.max_samples, logprobs=True, constraints=CONSTRAINTS
    )


class RunBatchFiles:
    """A `BatchProvider` of files.

    The format is vLLM's (`vllm/entrypoints/openai/run_batch.py`): OpenAI's lines, with an error beside the
    response, as an object or a text.
    """

    endpoint = "vllm run-batch"
    limits = BatchLimits(requests=1_000_000, bytes=2**40, hours=0.0, price_share=1.0)
    retention = "calls wait in the run's journal, and are written to a file by `evigraph batch export`"

    def __init__(self, name: ModelName) -> None:
        """Takes the name under which vLLM serves the model there."""
        self._name = name.name

    def row(self, custom_id: str, messages: Sequence[Message], call: CallParameters) -> BatchRow:
        """The request as a row; its body is the one that a vLLM server would get."""
        return BatchRow(custom_id, request_body(self._name, messages, call))

    def encoded(self, row: BatchRow) -> bytes:
        """A line of the file."""
        return request_line(row)

    async def mark(self) -> Mapping[str, str]:
        """Nothing: there is no one else's batch."""
        return {}

    async def submit(self, rows: Iterable[BatchRow], metadata: Mapping[str, str]) -> RemoteBatch:
        """Nothing is left to do: the journal has the rows."""
        return _waiting(f"files_{metadata['nonce']}")

    async def found(self, metadata: Mapping[str, str]) -> AsyncIterator[RemoteBatch]:
        """The batch of an intent, which is all of it."""
        yield _waiting(f"files_{metadata['nonce']}")

    async def look(self, batch_id: str) -> RemoteBatch:
        """It runs for as long as the journal knows it."""
        return _waiting(batch_id)

    async def results(self, batch: RemoteBatch, asked: Asked) -> AsyncIterator[RowResult]:
        """None: they come by `read`."""
        none: tuple[RowResult, ...] = ()
        for result in none:
            yield result

    async def cancel(self, batch_id: str) -> None:
        """Nothing runs here."""

    async def delete(self, batch: RemoteBatch) -> None:
        """Files are the user's."""

    async def aclose(self) -> None:
        """Nothing is open."""

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
        count = 0
        with replacing(path) as file:
            for row in rows:
                file.write(self.encoded(row))
                count += 1
        return count

    async def read(self, path: Path, asked: Asked) -> AsyncIterator[RowResult]:
        """Each row of a file of results, in its order.

        Raises:
            CallError: At the end, if a line was no result; all others have been given.
            ModelError: It is a file of requests.
            OSError: It cannot be read.
        """
        with path.open("rb") as file:
            async for line in parsed(chunks(file), str(path)):
                if "method" in line and "response" not in line:
                    raise ModelError(f"{path} holds requests; give the file that `vllm run-batch -o` wrote")
                yield row_result(line, asked, self._answers, path.name)

    def _answers(self, body: object, asked: int) -> list[Answer]:
        return answers(body, self._name, asked)


def _waiting(batch_id: str) -> RemoteBatch:
    return RemoteBatch(batch_id, "running", {})
