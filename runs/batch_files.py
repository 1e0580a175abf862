"""Calls of a run as files for `vllm run-batch`, and its files of results, read into the journal.

An export changes nothing, and an import stores what it reads as it comes, so both can be broken off, repeated
and done in parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from cases.texts import plural
from runs.audit import record
from runs.folder import CALLS, RunFolder, RunWriter
from runs.manifest import RunError, Session, quoted, utc_now
from serving.ask import Usage
from serving.batches.desk import BatchDesk
from serving.batches.provider import BatchRow, RowResult
from serving.batches.providers import connect_batched
from serving.batches.providers.files import RunBatchFiles
from serving.client import ModelClient
from serving.errors import CallError
from serving.gate import demand
from serving.journal import Journal
from serving.journal_batches import BatchRecord
from serving.model_name import parse_model_name

_ROWS_A_COMMIT = 200
_COMMAND = "import"
"""Of a session that read results; it runs no case."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: the model that is to answer, and how many calls in how many lines."""

    model: str
    calls: int
    requests: int


@dataclass(slots=True)
class Imported:
    """What was read.

    Attributes:
        rows: New rows by what became of them.
        known: Rows that the journal had already.
        left: Calls that no file of results has answered.
        faults: Files that could not be read to their end, and why.
        command: What goes on with the results: `retry` where the last session asked for failed cases.
    """

    rows: Counter[str] = field(default_factory=Counter)
    known: int = 0
    left: int = 0
    faults: list[str] = field(default_factory=list)
    command: str = "resume"


def export_calls(run: RunFolder, out: Path, model: str | None = None) -> Exported:
    """Write the calls that the cases of a run wait for.

    Args:
        run: The run.
        out: The file; one that is there is replaced.
        model: Whose calls, as the run names it; needed where several wait for files.

    Raises:
        RunError: No call waits for a file, or those of several models do.
        PolicyError: Texts of these cases may not be in batches.
        OSError: The file cannot be written.
    """
    demand("batches")
    with closing(_opened(run)) as journal:
        chosen = _model([one for one in _records(journal) if one.away], run.path, model)
        files = RunBatchFiles(parse_model_name(chosen))
        calls = 0

        def rows() -> Iterable[BatchRow]:
            nonlocal calls
            for one in journal.batches.waiting(chosen):
                calls += len(one.call.samples)
                yield files.row(one.custom_id, one.messages, one.call)

        requests = files.write(out, rows())
    record(run.path, "exported", what=["calls"], to=str(out), payloads=True)
    return Exported(parse_model_name(chosen).name, calls, requests)


async def import_results(
    run: Path,
    paths: Sequence[Path],
    report: Callable[[str], None],
    *,
    model: str | None = None,
    final: bool = False,
) -> Imported:
    """Read files of results into the journal of a run.

    Args:
        run: The run.
        paths: Of the files; rows may come in any order, and may have been read before.
        report: Called with lines for the user.
        model: As for an export.
        final: Have the calls fail that no file has answered.

    Raises:
        RunError: Another process writes the run, or a file has nothing of it; what was read before is kept.
        ModelError: A file holds requests.
        OSError: A file cannot be read.
    """
    with RunWriter(run) as folder, closing(Journal(run / CALLS)) as journal:
        usage = Usage()
        begun = utc_now()
        client = ModelClient({}, journal, usage=usage, prices=folder.manifest.budget.prices)
        reader = _Reader(journal, BatchDesk(journal, client, {}, report), run, model)
        try:
            for path in paths:
                await reader.read(path)
            if final:
                reader.give_up()
        finally:
            made = reader.close()
            commands = [one.command for one in folder.manifest.sessions if one.command != _COMMAND]
            if commands and commands[-1] == "retry":
                made.command = "retry"
            if made.rows:
                session = Session(command=_COMMAND, started=begun)
                session.end(usage)
                folder.manifest.sessions.append(session)
                folder.save_manifest()
                record(run, "imported", files=[str(path) for path in paths], rows=dict(made.rows))
    return made


class _Reader:
    """Reads files of results of one model."""

    def __init__(self, journal: Journal, desk: BatchDesk, run: Path, model: str | None) -> None:
        self._batches = journal.batches
        self._desk = desk
        self._run = run
        records = _records(journal)
        self._model = _model([one for one in records if one.away] or records, run, model)
        self._backend = connect_batched(parse_model_name(self._model))
        self._files = RunBatchFiles(parse_model_name(self._model))
        self._records: Mapping[int, BatchRecord] = {
            one.number: one for one in records if one.model == self._model
        }
        self._tallies: dict[int, Counter[str]] = {}
        self._seen: dict[str, int] = {}
        self._made = Imported()

    async def read(self, path: Path) -> None:
        """Store what a file has, in the order of its lines."""
        rows, before = 0, self._made.rows["foreign"]
        chunk: list[RowResult] = []
        try:
            async for result in self._files.read(path, self._asked):
                rows += 1
                chunk.append(result)
                if len(chunk) >= _ROWS_A_COMMIT:
                    self._store(chunk)
                    chunk = []
        except CallError as error:
            self._made.faults.append(str(error))
        self._store(chunk)
        if not rows and not self._made.faults:
            raise RunError(f"{path} holds no results")
        if rows and self._made.rows["foreign"] - before == rows:
            del self._made.rows["foreign"]
            raise RunError(f"{path}: none of its {plural(rows, 'result')} is of {self._run}")

    def give_up(self) -> None:
        """Have what was not answered fail."""
        for number, one in self._records.items():
            error = CallError("internal", "no file of results had this request")
            if missing := self._batches.fail_rest(number, error):
                self._tallies.setdefault(number, Counter(one.counts))["missing"] += missing
                self._made.rows["missing"] += missing

    def close(self) -> Imported:
        """Write down which batches are over."""
        away = {one.number: one.away for one in self._batches.records(("intended", "away"))}
        for number, one in self._records.items():
            if number in away and (number in self._tallies or not away[number]):
                counts = self._tallies.get(number, one.counts)
                self._batches.finish(number, one.state if away[number] else "closed", counts)
        self._made.left = sum(away.get(number, 0) for number in self._records)
        self._made.rows = +self._made.rows
        return self._made

    def _asked(self, custom_id: str) -> int:
        return self._seen.get(custom_id) or self._batches.samples(custom_id)

    def _store(self, results: Sequence[RowResult]) -> None:
        parts: dict[int | None, list[RowResult]] = {}
        for result in results:
            parts.setdefault(self._batches.batch_of(result.custom_id), []).append(result)
        for number, part in parts.items():
            if number is not None and number in self._records:
                one = self._records[number]
                tally = self._tallies.setdefault(number, Counter(one.counts))
            else:
                # It was read before, or was never asked for, and belongs to no batch that is open.
                one, tally = next(iter(self._records.values())), Counter()
            before = Counter(tally)
            self._desk.store(one, self._backend, part, tally, self._seen)
            new = tally - before
            self._made.rows += new
            self._made.known += len(part) - new.total()


def _opened(run: RunFolder) -> Journal:
    if not (run.path / CALLS).exists():
        raise RunError(f"{run.path}: no call was made yet; begin with: evigraph resume {quoted(run.path)}")
    return Journal(run.path / CALLS, read_only=True)


def _records(journal: Journal) -> list[BatchRecord]:
    return [one for one in journal.batches.records() if parse_model_name(one.model).by_files]


def _model(records: Sequence[BatchRecord], run: Path, wanted: str | None) -> str:
    """The model whose calls are meant.

    Raises:
        RunError: There is none, or there are several.
    """
    names = list(dict.fromkeys(one.model for one in records))
    if not names:
        raise RunError(
            f"{run}: no call waits for a file; calls of --model batch:vllm:NAME do, once `evigraph run` or"
            f" `evigraph resume {quoted(run)}` has asked for them"
        )
    if wanted is not None and wanted not in names:
        raise RunError(f"{run}: no call of {wanted!r} waits for a file; those of {', '.join(names)} do")
    if wanted is None and len(names) > 1:
        raise RunError(f"{run}: calls of {', '.join(names)} wait for files; choose one by --model")
    return wanted or names[0]
