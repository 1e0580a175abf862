"""Shards that are merged are the run of one machine, whatever became of them on the way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cases.selection import Shard
from runs.move.merge import merge
from runs.record.audit import AUDIT, SHARD_LOGS, record, sent_by
from runs.record.folder import CALLS, CASES, RunFolder
from runs.record.manifest import RunError
from runs.upkeep.check import check
from serving.journal.journal import Journal
from serving.policy.traffic import Traffic
from tests.evigraph import Ended, edit_manifest, evigraph, write_cases, write_recipe

COUNT = 3
CASES_IN_INPUT = 17
RUN = ("run", "tamu", "cases.jsonl", "--model", "scripted:auto", "--recipe", "lexical.yaml")


def made(paths: list[Path], out: Path, *, allow_incomplete: bool = False) -> RunFolder:
    return merge(paths, out, lambda _: None, lambda *_: None, allow_incomplete=allow_incomplete)


def shard(folder: Path, index: int, *more: str, out: str = "", count: int = COUNT) -> Ended:
    name = out or f"shard-{index}"
    return evigraph(*RUN, "--shard", f"{index}/{count}", "--out", name, *more, folder=folder)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run `whole` and three shards of the same, the second case of which cannot be read."""
    folder = tmp_path_factory.mktemp("merge")
    write_recipe(folder)
    path = write_cases(folder / "cases.jsonl", CASES_IN_INPUT)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], '{"case_id": "broken"}', *lines[1:]]) + "\n")
    assert evigraph(*RUN, "--out", "whole", folder=folder).code == 1
    for index in range(COUNT):
        shard(folder, index)
    return folder


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> Path:
    """Copies of the shards; the case files stay where they are."""
    for name in (*(f"shard-{index}" for index in range(COUNT)), "whole"):
        shutil.copytree(source / name, tmp_path / name)
    return tmp_path


def shards(folder: Path) -> list[Path]:
    return [folder / f"shard-{index}" for index in range(COUNT)]


def calls(run: Path) -> dict[str, tuple[Any, ...]]:
    """Each call of a journal with its conversation, its times apart."""
    with closing(Journal(run / CALLS, read_only=True)) as journal:
        keys = [row[0].hex() for row in journal._database.execute("SELECT key FROM calls")]
        return {key: tuple(journal.conversation(key)) for key in keys}


def passes(run: RunFolder) -> dict[str, list[Mapping[str, Any]]]:
    """The trace by case, without what a clock said and where replies came from."""
    times = {"started", "seconds", "started_at"}
    found = {}
    for case_id, lines in run.passes():
        kept: list[Mapping[str, Any]] = []
        for line in lines:
            part = {name: value for name, value in line.items() if name not in times}
            part["calls"] = [
                {name: value for name, value in call.items() if name not in {"seconds", "replayed"}}
                for call in part.get("calls", [])
            ]
            kept.append(part)
        found[case_id] = kept
    return found


def test_shards_in_any_order_are_the_run_of_one_machine(folder: Path) -> None:
    run = made([folder / "shard-2", folder / "shard-0", folder / "shard-1"], folder / "run")
    whole = RunFolder(folder / "whole")
    assert (run.path / CASES).read_bytes() == (whole.path / CASES).read_bytes()
    assert calls(run.path) == calls(whole.path)
    assert passes(run) == passes(whole)
    own, other = run.manifest.model_dump(), whole.manifest.model_dump()
    for manifest in (own, other):
        for name in ("sessions", "resources"):
            manifest.pop(name)
    assert own == other
    assert run.manifest.total_tokens == whole.manifest.total_tokens
    assert check(run).faults == []
    assert not list(folder.glob(".*"))


def test_a_merged_run_is_a_run(folder: Path) -> None:
    run = made(shards(folder), folder / "run").path
    for words in (("check",), ("show",), ("audit",), ("resume",), ("view", "--bundle", str(folder / "b"))):
        ended = evigraph(words[0], str(run), *words[1:], folder=folder)
        # One case cannot be read, so that no session ends with 0.
        assert ended.code == (1 if words == ("resume",) else 0), (words, ended.err)
    retried = evigraph("retry", str(run), "--json", folder=folder)
    assert (retried.summary["done"], retried.summary["failed"]) == (CASES_IN_INPUT, 1)
    assert retried.summary["last_session"]["calls"] == 0
    first = next(iter(RunFolder(run).cases()))["case_id"]
    assert evigraph("rerun", str(run), first, "--from", "generate_answer", folder=folder).code == 0
    assert evigraph("purge", str(run), "--yes", folder=folder).code == 0
    assert (run / CASES).read_bytes() != (folder / "whole" / CASES).read_bytes()


@pytest.mark.parametrize("missing", [0, COUNT - 1])
def test_a_missing_shard_is_refused_by_number(folder: Path, missing: int) -> None:
    paths = shards(folder)
    paths.pop(missing)
    with pytest.raises(RunError, match=f"shard {missing}/{COUNT} is missing"):
        made(paths, folder / "run")
    assert not (folder / "run").exists() and not list(folder.glob(".*"))


def test_a_doubled_shard_is_refused_by_name(folder: Path) -> None:
    shutil.copytree(folder / "shard-1", folder / "again")
    with pytest.raises(RunError, match=r"shard 1/3 is there twice: .*shard-1 and .*again"):
        made([*shards(folder), folder / "again"], folder / "run")


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (("--set", "answer.max_words=60"), "recipe"),
        (("--limit", "9"), "limit"),
        (("--case-ids", "k0,k1,k2"), "case ids"),
        (("--model", "scripted:other.py:reply"), "model of label"),
    ],
)
def test_a_shard_of_another_run_is_refused_by_name(
    source: Path, folder: Path, more: tuple[str, ...], fault: str
) -> None:
    (source / "other.py").write_text("from serving.backends.scripted import made_up_reply as reply\n")
    out = str(folder / "foreign")
    shard(source, 1, *more, out=out)
    with pytest.raises(RunError, match=rf"foreign: is a shard of another run than .*shard-0: .*{fault}"):
        made([folder / "shard-0", Path(out), folder / "shard-2"], folder / "run")


def test_shards_of_other_inputs_and_numbers_are_refused_by_name(source: Path, folder: Path) -> None:
    shard(source, 1, out=str(folder / "of-four"), count=4)
    with pytest.raises(RunError, match=r"of-four: is shard 1/4, and .*shard-0 is shard 0/3"):
        made([folder / "shard-0", folder / "of-four"], folder / "run")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    write_recipe(elsewhere)
    write_cases(elsewhere / "cases.jsonl", 5)
    shard(elsewhere, 1)
    with pytest.raises(RunError, match="differs in case files"):
        made([folder / "shard-0", elsewhere / "shard-1", folder / "shard-2"], folder / "run")
    with pytest.raises(RunError, match="whole: is not a shard"):
        made([folder / "whole"], folder / "run")


def test_changed_case_files_are_refused(source: Path, folder: Path) -> None:
    path = source / "cases.jsonl"
    before = path.read_bytes()
    try:
        path.write_bytes(before + b"\n")
        with pytest.raises(RunError, match="changed since the shards were run"):
            made(shards(folder), folder / "run")
    finally:
        path.write_bytes(before)


def unfinished(path: Path) -> str:
    """What a kill leaves: a status of running, and the last case without its line. Its id."""
    lines = (path / CASES).read_bytes().splitlines(keepends=True)
    (path / CASES).write_bytes(b"".join(reversed(lines[:-1])) + lines[-1][:20])
    manifest = json.loads((path / "run.json").read_text())
    manifest.pop("crc32")
    manifest |= {"status": "running", "counts": {"done": 0, "failed": 0, "waiting": 0, "errors": {}}}
    (path / "run.json").write_text(json.dumps(manifest))
    return str(json.loads(lines[-1])["case_id"])


def test_an_incomplete_shard_is_refused_or_its_cases_are_left_for_a_resume(folder: Path) -> None:
    left = unfinished(folder / "shard-1")
    of_another = next(iter(RunFolder(folder / "shard-2").cases()))["case_id"]
    with pytest.raises(RunError, match=r"shard 1/3 has not ended \(running, .*--allow-incomplete"):
        made(shards(folder), folder / "run")
    run = made([folder / "shard-0", folder / "shard-1"], folder / "run", allow_incomplete=True)
    assert run.manifest.status == "interrupted"
    assert {left, of_another}.isdisjoint(run.statuses())
    assert check(run).faults == []
    evigraph("resume", "run", folder=folder)
    assert (folder / "run" / CASES).read_bytes() == (folder / "whole" / CASES).read_bytes()
    assert check(RunFolder(folder / "run")).faults == []


def test_damage_in_a_shard_is_not_merged(folder: Path) -> None:
    path = folder / "shard-0" / CASES
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"status": "done"', b'"status": "dome"', 1))
    with pytest.raises(RunError, match=r"shard-0/cases\.jsonl: line \d+: "):
        made(shards(folder), folder / "run")
    path.write_bytes(b"".join(content.splitlines(keepends=True)[1:]))
    with pytest.raises(RunError, match=r"shard-0/cases\.jsonl: the line of case '\w+' is missing"):
        made(shards(folder), folder / "run")
    foreign = (folder / "shard-1" / CASES).read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(content + foreign)
    with pytest.raises(RunError, match="which is not of shard 0/3"):
        made(shards(folder), folder / "run")
    assert not (folder / "run").exists() and not list(folder.glob(".*"))


def test_what_a_killed_merge_has_left_is_replaced(folder: Path) -> None:
    left = folder / ".run.merging"
    (left / SHARD_LOGS).mkdir(parents=True)
    (left / CALLS).write_bytes(b"half")
    assert check(made(shards(folder), folder / "run")).faults == []


def test_the_audit_logs_of_shards_are_kept(folder: Path) -> None:
    run = made(shards(folder), folder / "run").path
    for index in range(COUNT):
        kept = run / SHARD_LOGS / f"000{index}.jsonl"
        assert kept.read_bytes() == (folder / f"shard-{index}" / AUDIT).read_bytes()
    assert "in the logs of 3 shards" in evigraph("audit", "run", folder=folder).out
    log = run / SHARD_LOGS / "0001.jsonl"
    log.write_bytes(log.read_bytes()[:-9])
    ended = evigraph("audit", "run", folder=folder)
    assert ended.code == 1 and "it is truncated" in ended.out
    log.unlink()
    assert "it is missing" in evigraph("audit", "run", folder=folder).out


def test_versions_and_traffic_of_shards_are_told_and_a_missing_log_is_none(folder: Path) -> None:
    edit_manifest(folder / "shard-1", versions={"langgraph": "0"})
    for index in (1, 2):
        record(folder / f"shard-{index}", "ended", hosts={"gpu01": Traffic(1, 2, 3, index)._asdict()})
    (folder / "shard-0" / AUDIT).unlink()
    told: list[str] = []
    run = merge(shards(folder), folder / "run", told.append, lambda *_: None)
    assert "the shards were run with 2 different versions of packages" in told
    assert sent_by(run.path) == {"gpu01": Traffic(2, 4, 6, 3)}
    assert len([*(run.path / SHARD_LOGS).iterdir()]) == 2


def test_two_shards_of_one_number_started_at_once_do_not_share_a_folder(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    write_recipe(tmp_path)
    write_cases(tmp_path / "cases.jsonl", 12)
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: shard(tmp_path, 0, out="one", count=2), range(4)))
    assert sorted(one.code for one in ended) == [0, 2, 2, 2]
    assert all("go on with it" in one.line or "another process" in one.line for one in ended if one.code)
    shard(tmp_path, 1, count=2)
    assert check(made([tmp_path / "one", tmp_path / "shard-1"], tmp_path / "run")).faults == []


def test_every_reader_of_a_shard_sees_its_cases_alone(folder: Path, source: Path) -> None:
    from runs.record.manifest import recorded_cases

    part = RunFolder(folder / "shard-0")
    own = {case.id for case in recorded_cases(part.manifest)}
    assert own and all(Shard(0, COUNT).has(id_) for id_ in own)
    assert part.manifest.inputs.cases == len(part.statuses())
    resumed = evigraph("resume", str(folder / "shard-0"), "--json", folder=source)
    assert resumed.summary["cases"] == len(part.statuses()) and resumed.summary["cases_run"] == 0
