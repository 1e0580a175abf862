"""In which rounds a run's calls would go into batches, by a rehearsal of its first cases.

The rehearsal is a run in batches like any other, of an account in this process that answers at once with
made-up replies. So a round is what the graph makes it, and no table says which node comes when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace

from cases.records import Case
from runs.assemble import Assembly
from runs.case_run import successors
from runs.rehearsal import rehearse, writer
from serving.backends.backend import CallParameters
from serving.batches.desk import BatchDesk
from serving.batches.pending import CallPending
from serving.batches.pool import Pool
from serving.batches.provider import Asked, BatchLimits, BatchModel, BatchRow, RemoteBatch, RowResult
from serving.client import ModelClient
from serving.dry_run import Tallies, Tally, Write, without_model
from serving.journal import Journal
from serving.limits import Limits
from serving.messages import Answer, Message

REHEARSED = 8
"""Cases: enough to meet the routes that made-up replies lead to."""

Round = Counter[tuple[str, str]]
"""Calls by role and name of the reply's format, as tallies have them."""


class _Account:
    """A provider of batches that answers at once; what it is asked in one batch is a round."""

    endpoint = "rehearsal"
    limits = BatchLimits(requests=1_000_000, bytes=1_000_000_000)
    retention = ""

    def __init__(self, write: Write, rounds: list[Round]) -> None:
        self._write = write
        self._rounds = rounds
        self._rows: dict[str, list[BatchRow]] = {}
        self.round = 0

    def row(self, custom_id: str, messages: Sequence[Message], call: CallParameters) -> BatchRow:
        return BatchRow(custom_id, {"messages": messages, "call": call})

    def encoded(self, row: BatchRow) -> bytes:
        return b""

    async def mark(self) -> Mapping[str, str]:
        return {}

    async def submit(self, rows: Iterable[BatchRow], metadata: Mapping[str, str]) -> RemoteBatch:
        name = metadata["nonce"]
        self._rows[name] = list(rows)
        while len(self._rounds) <= self.round:
            self._rounds.append(Counter())
        for row in self._rows[name]:
            call = row.body["call"]
            self._rounds[self.round][call.role, call.schema_name] += len(call.samples)
        return RemoteBatch(name, "ended", dict(metadata))

    async def found(self, metadata: Mapping[str, str]) -> AsyncIterator[RemoteBatch]:
        for name in self._rows:
            if name == metadata["nonce"]:
                yield RemoteBatch(name, "ended", dict(metadata))

    async def look(self, batch_id: str) -> RemoteBatch:
        return RemoteBatch(batch_id, "ended", {})

    async def results(self, batch: RemoteBatch, asked: Asked) -> AsyncIterator[RowResult]:
        for row in self._rows.pop(batch.id):
            call, messages = row.body["call"], row.body["messages"]
            texts = [self._write(call, sample, messages) for sample in call.samples]
            yield RowResult(row.custom_id, tuple(Answer(text, "stop", 1, 1) for text in texts))

    async def cancel(self, batch_id: str) -> None:
        return None

    async def delete(self, batch: RemoteBatch) -> None:
        return None

    async def aclose(self) -> None:
        return None


async def rehearse_rounds(assembly: Assembly, cases: Sequence[Case]) -> list[Round]:
    """Rehearse cases round by round.

    Args:
        assembly: Of the run, with a recipe that does not wait for people; left alone.
        cases: The first ones.

    Returns:
        What is asked in batches in each round; calls of models that answer at once are in none.
    """
    foreseen: dict[str, dict[str, str]] = {}
    write = writer(assembly.system, assembly.recipe, foreseen)
    rounds: list[Round] = []
    account = _Account(write, rounds)
    backends = {}
    for role, one in assembly.backends.items():
        if one.batches is None:
            backends[role] = without_model(replace(one, count_tokens=None), write, {})
        else:
            model = BatchModel(account, one.batches.max_samples, constraints=one.batches.constraints)
            backends[role] = replace(one, batches=model)
    journal = Journal(None)
    client = ModelClient(backends, journal, Limits(max_retries=0))
    batched = {str(one.name): one for one in backends.values() if one.batches is not None}
    desk = BatchDesk(journal, client, batched, lambda _: None)
    client.pool = pool = Pool(journal, client.budget, desk, lambda _: None, 0)
    rehearsed = replace(assembly, backends=backends, graph=assembly.system.build(checkpointer=None))
    following = successors(rehearsed.graph)
    left = list(cases)
    try:
        while left:
            open_ = []
            for case in left:
                try:
                    await rehearse(rehearsed, client, case, following, foreseen)
                except CallPending:
                    open_.append(case)
            await pool.flush()
            account.round += 1
            left = open_
            # Replies are made up while they are harvested, with what is foreseen of their case.
            for case in left:
                foreseen[case.id] = {}
            await desk.look()
    finally:
        await client.dispatcher.close()
        journal.close()
    return rounds


def sizes(rounds: Sequence[Round], tallies: Tallies) -> list[Tally]:
    """Each round for all cases of a dry run: its calls and tokens in proportion to those rehearsed."""
    whole: Round = Counter()
    for one in rounds:
        whole.update(one)
    found = []
    for one in rounds:
        total = Tally()
        for key, calls in one.items():
            share, of_all = calls / whole[key], tallies.get(key, Tally())
            total.calls += round(of_all.calls * share)
            total.requests += round(of_all.requests * share)
            total.input_tokens += round(of_all.input_tokens * share)
            total.output_tokens += round(of_all.output_tokens * share)
            total.thinking_tokens += round(of_all.thinking_tokens * share)
        found.append(total)
    return found
