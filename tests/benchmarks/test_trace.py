from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.trace import Stored, UntracedWriter, result, stored, untraced, varied_cases
from cases.formats.plain_jsonl import write_jsonl
from evals.bench.workload import ready, run_cases, six_calls
from runs import RunFolder
from runs.record.folder import CALLS
from serving.journal.journal import Journal
from serving.protocol.limits import Limits
from serving.protocol.model_name import parse_model_name


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same two cases with and without a trace."""
    folder = tmp_path_factory.mktemp("trace")
    write_jsonl(folder / "cases.jsonl", varied_cases(2))

    async def both() -> None:
        assembly = await ready(six_calls(), folder / "cases.jsonl", parse_model_name("scripted:auto"))
        await run_cases(assembly, folder / "traced", Limits())
        assembly = await ready(six_calls(), folder / "cases.jsonl", parse_model_name("scripted:auto"))
        bare = replace(assembly, graph=untraced(assembly.graph))
        await run_cases(bare, folder / "untraced", Limits(), writer=UntracedWriter)

    asyncio.run(both())
    return folder / "traced", folder / "untraced"


def test_the_untraced_run_writes_no_trace(runs: tuple[Path, Path]) -> None:
    assert [len(list(RunFolder(run).passes())) for run in runs] == [2, 0]


def test_the_untraced_run_gives_the_same_results(runs: tuple[Path, Path]) -> None:
    # What the line of a case tells of its calls is gathered from the trace.
    traced, bare = (list(RunFolder(run).cases()) for run in runs)
    for line in (*traced, *bare):
        del line["usage"], line["flags"]
    assert traced == bare


def test_both_runs_store_the_same_conversations(runs: tuple[Path, Path]) -> None:
    held = []
    for run in runs:
        journal = Journal(run / CALLS, read_only=True)
        held.append(sorted(map(str, journal.conversations())))
        journal.close()
    assert held[0] == held[1]
    assert len(held[0]) == 16


def test_a_text_counts_once_however_often_it_is_sent(runs: tuple[Path, Path]) -> None:
    journal = Journal(runs[0] / CALLS, read_only=True)
    turns = [turn.text for conversation in journal.conversations() for turn in conversation]
    journal.close()
    size = stored(runs[0], 2)
    assert size.text == sum(len(text.encode()) for text in set(turns)) < sum(map(len, turns)) / 2
    assert size.journal == (runs[0] / CALLS).stat().st_size
    assert size.trace > 100 * stored(runs[1], 2).trace


def test_no_two_notes_share_a_sentence() -> None:
    sentences = [sentence.text for case in varied_cases(95) for sentence in case.sentences]
    assert len(sentences) == len(set(sentences))


def test_the_figures_follow_from_the_sizes_and_times() -> None:
    once, twice = Stored(10, 100, 300, 200), Stored(20, 200, 700, 400)
    given = result([2.0, 3.0, 8.0], [2.0, 2.0, 2.0], once, twice).as_json()
    assert given["tracing_share"] == 1.5
    assert given["stored_over_unique_text"] == 2
    assert given["linear"] == 1.125
