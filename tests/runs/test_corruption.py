"""Whatever is damaged of a run is named, and a repair ends with the results of the undamaged run."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runs.record.folder import CALLS, CASES, COPY, MANIFEST, RunFolder, pack_line
from runs.record.index import INDEX
from runs.record.manifest import RunError
from runs.record.trace_file import TRACE, pack
from runs.upkeep.check import check, repair_run
from serving.journal.journal import CallCount
from serving.journal.repair import look
from serving.journal.tables import Texts, create
from tests.evigraph import edit_manifest, evigraph
from tools.corruption import Outcome, make_runs, outcome

CORRUPTIONS = 30
"""Of the suite; `python -m tools.corruption 200` makes as many as wanted, and a table."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_runs(tmp_path_factory.mktemp("made"))


@pytest.fixture
def run(made: dict[str, Path], tmp_path: Path) -> Path:
    return copied(made["finished"], tmp_path)


def copied(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "run"))


@pytest.mark.parametrize("seed", range(CORRUPTIONS))
def test_random_damage_is_named_or_harmless(made: dict[str, Path], tmp_path: Path, seed: int) -> None:
    one: Outcome = outcome(made, tmp_path, seed)
    assert one.equal and not one.loops, one
    assert one.asked <= one.lost, one


def test_whole_runs_have_no_faults(made: dict[str, Path]) -> None:
    for path in made.values():
        assert check(RunFolder(path)).faults == []


@pytest.mark.parametrize("length", [0, 30, 5_000, 0xFFFFFFFF])
def test_a_wrong_length_in_the_trace_costs_nothing(run: Path, length: int) -> None:
    content = bytearray((run / TRACE).read_bytes())
    content[16:20] = length.to_bytes(4, "little")
    (run / TRACE).write_bytes(content)
    with pytest.raises(RunError, match=r"trace\.jsonl\.gz: damaged from byte"):
        list(RunFolder(run).passes())
    found = repair_run(run).found
    assert (found.lost_cases, found.lost_calls) == ([], 0)
    assert check(RunFolder(run)).faults == []


def test_of_many_lost_passes_five_are_named(run: Path) -> None:
    ids = [*RunFolder(run).statuses()]
    (run / TRACE).unlink()
    words = f"{', '.join(map(repr, ids[:5]))} and {len(ids) - 5} more is missing"
    assert any(one.endswith(f"the last pass of cases {words}") for one in check(RunFolder(run)).faults)


def test_a_pass_whose_line_a_kill_has_prevented_is_no_damage(run: Path, tmp_path: Path) -> None:
    (case_id, lines), *_ = RunFolder(run).passes()
    whole = (run / TRACE).read_bytes()
    lines[-1] |= {"status": "failed", "error": {"class": "timeout", "message": "late"}}
    (run / TRACE).write_bytes(whole + pack(lines))
    faults = check(RunFolder(run)).faults
    assert any(one.endswith(f"the last pass of case '{case_id}' is missing") for one in faults)
    edit_manifest(run, status="running")
    assert check(RunFolder(run)).faults == []
    assert evigraph("resume", run, folder=tmp_path).code == 0
    assert (run / TRACE).read_bytes() == whole


def test_a_log_that_was_deleted_is_named_and_nothing_is_folded_in(
    made: dict[str, Path], tmp_path: Path
) -> None:
    run = copied(made["killed"], tmp_path)
    (run / f"{CALLS}-wal").unlink()
    stored = CallCount(run / CALLS).read()
    faults = check(RunFolder(run)).faults
    assert stored > 20 and any(f"{stored} of {stored} stored replies are missing" in one for one in faults)
    refused = evigraph("resume", run, folder=tmp_path)
    assert refused.code == 2 and "evigraph check" in refused.line


def test_damage_in_the_middle_of_a_log_loses_what_comes_after_it(
    made: dict[str, Path], tmp_path: Path
) -> None:
    run = copied(made["killed"], tmp_path)
    log = run / f"{CALLS}-wal"
    content = bytearray(log.read_bytes())
    place = len(content) // 2
    content[place : place + 4] = b"\xff\xff\xff\xff"
    log.write_bytes(content)
    stored = CallCount(run / CALLS).read()
    found = check(RunFolder(run))
    assert any(f"of {stored} stored replies are missing" in one for one in found.faults)
    repair_run(run)
    assert 0 < CallCount(run / CALLS).read() == stored - found.lost_calls < stored
    assert check(RunFolder(run)).faults == []


def test_a_reply_that_was_changed_on_disk_is_not_replayed(run: Path) -> None:
    with sqlite3.connect(run / CALLS) as database:
        database.execute("UPDATE calls SET output_tokens = output_tokens + 1 WHERE sample = 1")
        changed = database.execute("SELECT case_id FROM calls WHERE sample = 1").fetchall()
    database.close()
    found = check(RunFolder(run))
    assert found.lost_calls == len(changed)
    damage, _, named = found.faults[0].partition(", of cases ")
    assert damage.endswith(f"{len(changed)} replies are damaged")
    cases = {case_id for (case_id,) in changed}
    first = set(named.removesuffix(", ...").split(", "))
    assert (len(first), named.endswith(", ...")) == (min(len(cases), 5), len(cases) > 5) and first <= cases


def test_a_prompt_that_was_changed_on_disk_is_named(run: Path) -> None:
    with closing(sqlite3.connect(run / CALLS)) as database, database:
        (prompt,) = database.execute("SELECT prompt FROM calls LIMIT 1").fetchone()
        database.execute("UPDATE texts SET body='another' WHERE id=?", (prompt.split()[1],))
    found = check(RunFolder(run))
    assert found.lost_calls == 0 and "1 texts are damaged" in found.faults[0]


def test_a_first_page_that_is_lost_costs_the_replies_and_no_result(run: Path, tmp_path: Path) -> None:
    content = (run / CALLS).read_bytes()
    (run / CALLS).write_bytes(bytes(4096) + content[4096:])
    before = CallCount(run / CALLS).read()
    assert "file is not a database" in " ".join(check(RunFolder(run)).faults)
    cases = (run / CASES).read_bytes()
    assert repair_run(run).found.lost_calls == before
    assert evigraph("resume", run, folder=tmp_path).code == 0
    assert (run / CASES).read_bytes() == cases
    assert check(RunFolder(run)).faults == []


@pytest.mark.parametrize("empty", [False, True])
def test_a_count_that_was_deleted_is_named_and_made_anew(run: Path, *, empty: bool) -> None:
    count = CallCount(run / CALLS)
    before = count.read()
    count.path.write_bytes(b"") if empty else count.path.unlink()
    found = check(RunFolder(run))
    assert (found.faults, found.lost_calls) == ([f"{count.path.resolve()}: the file is missing"], 0)
    repair_run(run)
    assert (count.read(), check(RunFolder(run)).faults) == (before, [])


def test_a_look_at_a_journal_does_not_hold_its_texts_in_memory(tmp_path: Path) -> None:
    draw = random.Random(1)
    with closing(sqlite3.connect(tmp_path / CALLS)) as database:
        create(database)
        texts = Texts(database)
        for _ in range(400):
            texts.number(draw.randbytes(25_000).hex())
        database.commit()
    tracemalloc.start()
    try:
        look(tmp_path / CALLS)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5_000_000 < (tmp_path / CALLS).stat().st_size


def test_a_manifest_is_taken_from_its_copy(run: Path) -> None:
    good = (run / MANIFEST).read_bytes()
    (run / MANIFEST).write_bytes(b"[" * 100_000)
    with pytest.raises(RunError, match=r"run\.json: it is not JSON.*evigraph check"):
        RunFolder(run)
    assert "it is not JSON" in repair_run(run).found.faults[0]
    assert (run / MANIFEST).read_bytes() == good


def test_a_manifest_without_a_whole_copy_is_left_alone(run: Path) -> None:
    (run / MANIFEST).write_bytes(b"\xff")
    (run / COPY).unlink()
    with pytest.raises(RunError, match=r"copy \S+ is not whole either"):
        repair_run(run)
    assert (run / MANIFEST).read_bytes() == b"\xff"


@pytest.mark.parametrize("line", ["", "[1, 2]", "nonsense", '{"case_id": 3}', "[" * 5000])
def test_a_foreign_line_is_named_with_its_number(run: Path, line: str, tmp_path: Path) -> None:
    lines = (run / CASES).read_text().splitlines()
    (run / CASES).write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
    shown = evigraph("show", run, folder=tmp_path)
    assert shown.code == 2 and "cases.jsonl: line 3: it" in shown.line


def test_a_cut_line_and_missing_files_of_a_finished_run_are_named_and_repaired(run: Path) -> None:
    content = (run / CASES).read_bytes()
    (run / CASES).write_bytes(content[:-1])
    assert f"{run / CASES}: line 12 is cut off" in check(RunFolder(run)).faults
    (run / CASES).unlink()
    (run / TRACE).unlink()
    (run / MANIFEST).unlink()
    repaired = repair_run(run)
    assert repaired.found.faults == [
        f"{run}: no run here (run.json is missing)",
        f"{run / CASES}: 12 of 12 ended cases are missing",
    ]
    assert repaired.resumable and RunFolder(run).manifest.counts.total == 0
    assert ((run / CASES).read_bytes(), (run / TRACE).read_bytes()) == (b"", b"")
    with pytest.raises(RunError, match=r"no run here \(run\.json is missing\)"):
        repair_run(run / "forks")


def test_the_command_names_repairs_and_ends_whole(run: Path, made: dict[str, Path], tmp_path: Path) -> None:
    assert evigraph("check", run, folder=tmp_path).out == "whole: 12 ended cases, 96 stored calls\n"
    text = (run / CASES).read_text()
    (run / CASES).write_text(text.replace("essential", "essentiaL", 1))
    damaged = evigraph("check", run, "--json", folder=tmp_path)
    assert damaged.code == 1
    assert damaged.summary["faults"][0].endswith("cases.jsonl: line 1: its checksum does not match")
    repaired = evigraph("check", run, "--repair", "--json", folder=tmp_path)
    assert repaired.code == 0 and len(repaired.summary["lost_cases"]) == 1
    assert repaired.summary["next"] == [f"evigraph resume {run}"]
    assert (Path(repaired.summary["damaged_files"]) / CASES).read_text() != text
    resumed = evigraph("resume", run, "--json", folder=tmp_path)
    session = resumed.summary["last_session"]
    assert (resumed.code, session["calls"], session["replayed_calls"]) == (0, 0, 8)
    assert (run / CASES).read_text() == text
    assert evigraph("check", run, folder=tmp_path).code == 0


def checked(path: Path, *options: str) -> str:
    ended = evigraph("check", path, *options, folder=path.parent)
    return " ".join(ended.out.split()) if ended.out else ended.line


def test_damage_is_printed_with_what_is_lost_and_the_next_command(run: Path) -> None:
    text = (run / CASES).read_text()
    (run / CASES).write_text(text.replace("essential", "essentiaL", 1))
    (run / MANIFEST).write_text("{")
    printed = checked(run)
    assert "run.json: it is not JSON" in printed and "keep the intact" not in printed
    assert printed.endswith(
        f"whole 0 ended cases, 0 stored calls lost 0 cases, 0 stored calls next evigraph check {run} --repair"
    )
    repaired = checked(run, "--repair")
    assert "cases.jsonl: line 1: its checksum does not match" in repaired
    assert f"lost 1 case, 0 stored calls aside {run}/damaged" in repaired
    assert repaired.endswith(f"next evigraph resume {run}")
    (run / MANIFEST).unlink()
    assert "no run here (run.json is missing)" in checked(run)


def test_a_journal_is_checked_and_repaired_by_itself(run: Path, tmp_path: Path) -> None:
    journal = Path(shutil.copy(run / CALLS, tmp_path / "pool.sqlite"))
    with sqlite3.connect(journal) as database:
        database.execute("UPDATE calls SET crc = crc + 1 WHERE key = (SELECT MIN(key) FROM calls)")
    database.close()
    damaged = checked(journal)
    assert "lost 0 cases, 1 stored call" in damaged
    assert damaged.endswith(f"next evigraph check {journal} --repair")
    assert f"aside {journal}.damaged" in checked(journal, "--repair")
    assert checked(journal) == "whole: 0 ended cases, 95 stored calls"


def test_a_run_without_checksums_goes_on(run: Path, tmp_path: Path) -> None:
    """A folder as earlier versions wrote it."""
    for name in (CASES, MANIFEST):
        text = (run / name).read_text().replace('"sealed": true', '"sealed": false')
        (run / name).write_text(re.sub(r',\s*"crc32": "\w+"', "", text))
    (run / COPY).unlink()
    with sqlite3.connect(run / CALLS) as database:
        database.execute("UPDATE calls SET crc = NULL")
    database.close()
    assert check(RunFolder(run)).faults == []
    lines = (run / CASES).read_text().splitlines(keepends=True)
    (run / CASES).write_text("".join(lines[:6]))
    with pytest.raises(RunError, match="6 of 12 ended cases are missing"):
        RunFolder(run).statuses()
    repair_run(run)
    resumed = evigraph("resume", run, "--json", folder=tmp_path)
    assert (resumed.summary["done"], resumed.summary["last_session"]["calls"]) == (12, 0)


def with_fields(run: Path, number: int, fields: dict[str, Any]) -> str:
    """Give a line of the cases other values and a checksum that fits; its case."""
    lines = (run / CASES).read_bytes().splitlines(keepends=True)
    line = RunFolder(run).parse(lines[number - 1])
    lines[number - 1] = pack_line(line | fields)
    (run / CASES).write_bytes(b"".join(lines))
    (run / INDEX).unlink(missing_ok=True)
    return str(line["case_id"])


READERS = (
    "show RUN",
    "show RUN CASE",
    "show RUN --json",
    "score RUN",
    "score RUN --json",
    "export RUN --out tables",
    "compare RUN WHOLE",
    "compare WHOLE RUN",
    "view RUN --bundle pages",
    "analyse RUN",
    "card RUN",
    "resume RUN",
    "retry RUN",
    "rerun RUN CASE",
    "status RUN",
    "runs --root .",
)


@pytest.mark.parametrize("command", READERS)
def test_a_field_of_another_type_is_one_line_in_every_reader(
    run: Path, made: dict[str, Path], tmp_path: Path, command: str
) -> None:
    case_id = with_fields(run, 3, {"flags": 3})
    places = {"RUN": str(run), "CASE": case_id, "WHOLE": str(made["finished"])}
    ended = evigraph(*(places.get(word, word) for word in command.split()), folder=tmp_path)
    said = ended.out + ended.err
    assert "internal error" not in said and "Traceback" not in said
    if command.startswith("runs"):
        # A list of many runs continues with the others.
        assert ended.code == 0 and "unreadable" in ended.out
    else:
        assert ended.code == 2
        assert f"cases.jsonl: line 3: case {case_id!r}: flags: " in ended.line


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"labels": []}, "labels: "),
        ({"labels": {"1": 2}}, "labels.1: "),
        ({"usage": {"calls": "many", "input_tokens": 0, "output_tokens": 0}}, "usage.calls: "),
        ({"usage": {}}, "usage.calls: "),
        ({"error": "late"}, "error: "),
        ({"error": {"class": "timeout"}}, "error.message: "),
        ({"status": None}, "status: "),
        ({"vote_counts": [1, 2]}, "vote_counts: "),
        ({"vote_counts": {"1": "two"}}, "vote_counts.1: "),
        ({"usable_votes": True}, "usable_votes: "),
        ({"intent": "treatment"}, "intent: "),
        ({"evidence": {"threshold": 3}}, "evidence.threshold: "),
        ({"answer": ["yes"]}, "answer: "),
    ],
)
def test_the_check_names_the_field_and_a_repair_runs_the_case_again(
    run: Path, made: dict[str, Path], fields: dict[str, Any], named: str
) -> None:
    case_id = with_fields(run, 2, fields)
    (fault,) = [one for one in check(RunFolder(run)).faults if ": line " in one]
    assert fault.startswith(f"{run / CASES}: line 2: case {case_id!r}: {named}")
    assert repair_run(run).found.lost_cases == [case_id]
    assert check(RunFolder(run)).faults == []


def test_results_of_a_system_that_is_not_here_are_taken_as_they_are(run: Path) -> None:
    edit_manifest(run, system="gone")
    with_fields(run, 2, {"vote_counts": 3})
    assert [line["vote_counts"] for line in RunFolder(run).cases()][1] == 3
