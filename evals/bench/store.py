"""Processor time that a call takes in the journal of a shared run, in PostgreSQL, over that in SQLite.

Both sides look up and store the same invented calls, as many at a time as a run has under way: votes of three
samples on prompts of about 4 kB, whose instructions are shared. The figure counts this process, the client;
that of the server's processes is among the details. PostgreSQL runs on this machine and is started for it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cases.texts import plural
from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import Times, scratch_folder, turns
from evals.bench.postgres_server import PostgresServer, postgres_server
from serving.client import CallJournal
from serving.journal import Journal, Question
from serving.messages import Answer, Message
from serving.postgres.address import demand_driver, parse_store

_SAMPLES = 3
_SHARED_WORDS, _OWN_WORDS, _REPLY_WORDS = 400, 200, 40


@dataclass(frozen=True, slots=True)
class Options:
    """Cases, each with a request of three samples; repeats of both sides; requests at once."""

    cases: int = 2000
    repeats: int = 5
    max_connections: int = 64


TINY = {"cases": 8, "repeats": 2, "max_connections": 4}

Request = tuple[list[Question], list[Answer]]


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn."""
    demand_driver()
    with scratch_folder() as folder, postgres_server() as server:
        return asyncio.run(_measure(options, folder, server, report))


async def _measure(options: Options, folder: Path, server: PostgresServer, report: Report) -> Result:
    from serving.postgres.journal import PostgresJournal
    from serving.postgres.schema import migrate

    files, shared = Times(), Times()
    served: list[float] = []
    report("warming up")
    for repeat, side in turns((files, shared), options.repeats + 1, report):
        requests = list(invented_requests(options.cases))
        # The first one imports what it needs.
        times = Times() if repeat == 0 else side
        if side is files:
            with closing(Journal(folder / f"{repeat}.sqlite")) as journal, times.measured():
                await _use(journal, requests, options.max_connections)
            continue
        database = server.create()
        address = parse_store(server.url(database))
        migrate(address)
        before = server.processor_seconds()
        journal_there = PostgresJournal(address, 0, report)
        with times.measured():
            await _use(journal_there, requests, options.max_connections)
            await journal_there.close()
        ((stored,),) = server.query(database, "SELECT COUNT(*) FROM calls")
        if stored != _SAMPLES * options.cases:
            raise BenchError(f"{stored} of {plural(_SAMPLES * options.cases, 'call')} were stored")
        if repeat:
            served.append(server.processor_seconds() - before)
    calls = _SAMPLES * options.cases
    return Result(
        "store",
        Part("processor time of the journal in PostgreSQL", "us a call", _each(shared.processor, calls)),
        Part("processor time of the journal in SQLite", "us a call", _each(files.processor, calls)),
        details={
            "calls": calls,
            "at_once": options.max_connections,
            "server_us_a_call": round(sum(_each(served, calls)) / len(served), 2),
            "calls_per_second": round(calls * len(shared.wall) / sum(shared.wall), 1),
            "sqlite_calls_per_second": round(calls * len(files.wall) / sum(files.wall), 1),
        },
    )


def _each(seconds: Sequence[float], calls: int) -> tuple[float, ...]:
    return tuple(1_000_000 * one / calls for one in seconds)


async def _use(journal: CallJournal, requests: Sequence[Request], at_once: int) -> None:
    """What a run does with a journal: look a request up, find nothing, store the replies."""
    waiting = iter(requests)

    async def work() -> None:
        for questions, answers in waiting:
            assert not await journal.find_all(questions)
            # As if the server took a moment, so that requests of several cases are under way.
            await asyncio.sleep(0)
            kept = await journal.keep_all(
                list(zip(questions, answers, strict=True)),
                role="label",
                case_id=questions[0].messages[1].text[:8],
            )
            assert len(kept) == len(questions)

    await asyncio.gather(*(work() for _ in range(at_once)))


def invented_requests(number: int) -> Iterator[Request]:
    """Requests of three samples, with texts that compress about as notes do."""
    shared = Message("system", _words("instructions", _SHARED_WORDS))
    for case in range(number):
        messages = (shared, Message("user", f"{case:08} {_words(f'note {case}', _OWN_WORDS)}"))
        questions = [
            Question(
                "vllm:invented", "", messages, {"temperature": 0.7, "max_tokens": 512, "seed": 1}, sample
            )
            for sample in range(_SAMPLES)
        ]
        answers = [
            Answer(
                _words(f"reply {case} {sample}", _REPLY_WORDS), "stop", 900, 60, 300, 1.25, 0, "http://h:8000"
            )
            for sample in range(_SAMPLES)
        ]
        yield questions, answers


def _words(seed: str, number: int) -> str:
    digits = hashlib.shake_128(seed.encode()).hexdigest(number)
    return " ".join(f"word{digits[2 * place : 2 * place + 2]}" for place in range(number))
