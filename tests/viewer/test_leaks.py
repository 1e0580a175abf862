"""No text of a case, a model or a reviewer is in what may leave without texts: a search over all bytes."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runs.record.folder import RunFolder
from runs.record.purged import purged_of
from runs.review.reviews import REVIEWS, Reviews, make_review
from runs.upkeep import purge
from runs.upkeep.check import check
from serving.journal.journal import Journal
from tests.evigraph import evigraph
from tests.runs.waiting import Place

REVIEWER = "Prof. Mabel Quillfeather"

RUN_OF = 12
"""So many characters of a text in a row count as a leak."""

SCRIPT = """\
import json
from serving.backends.scripted import made_up_reply
from serving.protocol.errors import CallError

def reply(call):
    valid = made_up_reply(call)
    if call.role == "label" and call.case_id == "k1" and call.sample == 0:
        # Quoted in the fault of the call, and in the reason of the node.
        return '{"wombat pastures quoted": 1}'
    if call.role == "answer" and call.case_id == "k2":
        raise CallError("refusal", "the server quotes marmoset meadows")
    if call.role == "answer" and call.format == "answer":
        return "ocelot thickets " * 40
    if call.role != "label":
        return valid
    first, second, *_ = call.schema_["required"]
    chosen = first if call.sample else second
    return json.dumps({i: "essential" if i == chosen else "not-essential" for i in call.schema_["required"]})
"""


def words(draw: random.Random, count: int) -> str:
    """Text that nothing else holds by chance."""
    return " ".join("".join(draw.choices("bcdfghjklmnpqrstvwxz", k=7)) for _ in range(count))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Cases with failures that quote and with reviews, one of them by a person that the run waited for."""
    place, draw = Place(tmp_path_factory.mktemp("leaks")), random.Random(7)
    (place.folder / "script.py").write_text(SCRIPT)
    cases = [
        {
            "case_id": f"k{number}",
            "narrative": words(draw, 20),
            "question": words(draw, 8),
            "sentences": [words(draw, 9) for _ in range(6)],
        }
        for number in range(4)
    ]
    (place.folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    place.start()
    reviews = Reviews(place.run)
    for line in RunFolder(place.run).cases():
        reviews.add(make_review(line, reviewer=REVIEWER, labels={}, comment=words(draw, 9)))
    place.resume()
    for line in RunFolder(place.run).cases():
        reviews.add(make_review(line, reviewer=REVIEWER, answer=words(draw, 9), comment=words(draw, 9)))
    return RunFolder(place.run)


def texts_of(run: RunFolder) -> Iterator[str]:
    """All texts: of cases, of models, of reviews."""
    for raw in Path(run.manifest.inputs.paths[0]).read_text().splitlines():
        case = json.loads(raw)
        yield from (case["narrative"], case["question"], *case["sentences"])
    for raw in (run.path / "reviews.jsonl").read_text().splitlines():
        review = json.loads(raw)
        yield from (review["reviewer"], review["comment"], review["answer"] or "")
    yield from ("wombat pastures quoted", "marmoset meadows", "ocelot thickets ocelot thickets")


def leaks(content: Iterable[bytes], run: RunFolder) -> set[str]:
    windows = {text[at : at + RUN_OF] for text in texts_of(run) for at in range(len(text) - RUN_OF + 1)}
    found = set()
    for one in content:
        text = one.decode("utf-8", "replace")
        found |= {text[at : at + RUN_OF] for at in range(len(text) - RUN_OF + 1)} & windows
    return found


def files(folder: Path) -> list[bytes]:
    found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    # Tables are compressed, so their cells are searched too.
    tables = [repr(pq.read_table(path).to_pylist()).encode() for path in folder.rglob("*.parquet")]
    assert found
    return [*found, *tables]


def test_the_search_finds_what_is_there(run: RunFolder, tmp_path: Path) -> None:
    assert evigraph("view", run.path, "--bundle", "pages", folder=tmp_path).code == 0
    found = leaks(files(tmp_path / "pages"), run)
    assert {"Mabel Quillf", "wombat pastu", "ocelot thick"} <= found
    journal = Journal(run.path / "calls.sqlite", read_only=True)
    assert any("wombat pastures" in turns[-1].text for turns in journal.conversations())
    journal.close()


def test_a_redacted_bundle_holds_no_text(run: RunFolder, tmp_path: Path) -> None:
    assert evigraph("view", run.path, "--bundle", "pages", "--redact", folder=tmp_path).code == 0
    assert leaks(files(tmp_path / "pages"), run) == set()


def test_one_page_holds_no_text(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    assert evigraph("show", run.path, "--html", "page/a.html", folder=tmp_path).code == 0
    assert leaks(files(tmp_path / "page"), run) == set()


def test_spans_without_payloads_hold_no_text(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "spans").mkdir()
    assert evigraph("export", run.path, "--spans", "spans/s.jsonl", folder=tmp_path).code == 0
    assert leaks(files(tmp_path / "spans"), run) == set()


def test_tables_and_logs_hold_no_text(run: RunFolder, tmp_path: Path) -> None:
    assert evigraph("export", run.path, "--inspect", "--out", "frames", folder=tmp_path).code == 0
    assert leaks(files(tmp_path / "frames"), run) == set()
    faults = {row["fault"] for row in pq.read_table(tmp_path / "frames" / "calls.parquet").to_pylist()}
    assert faults == {None, "rejected"}


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what they hold where it is a gzip file or a database of SQLite."""
    raw = path.read_bytes()
    yield raw
    if raw.startswith(b"\x1f\x8b"):
        yield from _members(raw)
    elif raw.startswith(b"SQLite format 3\0"):
        yield from _cells(path)


def _members(raw: bytes) -> Iterator[bytes]:
    while raw:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            yield unpacker.decompress(raw)
        except zlib.error:
            return
        raw = unpacker.unused_data


def _cells(path: Path) -> Iterator[bytes]:
    """Every value of every table, deflated ones also as they were."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        database.text_factory = bytes
        tables = [
            row[0].decode() for row in database.execute("SELECT name FROM sqlite_schema WHERE type='table'")
        ]
        for table in tables:
            for row in database.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    if isinstance(value, bytes):
                        yield value
                        yield from _inflated(value)


def _inflated(value: bytes) -> Iterator[bytes]:
    for bits in (-zlib.MAX_WBITS, zlib.MAX_WBITS):
        try:
            yield zlib.decompress(value, bits)
        except zlib.error:
            continue


def unpacked(folder: Path) -> list[bytes]:
    """Every file, including compressed content and tables of databases."""
    return [content for path in folder.rglob("*") if path.is_file() for content in contents(path)]


def purge_leaks(folder: Path, run: RunFolder) -> set[str]:
    """A purge leaves who reviewed."""
    found = leaks(unpacked(folder), run)
    return {one for one in found if one not in REVIEWER}


@pytest.fixture
def copy(run: RunFolder, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(run.path, tmp_path / "copy")))


def test_a_purged_folder_holds_no_text(run: RunFolder, copy: RunFolder, tmp_path: Path) -> None:
    path = copy.path
    assert evigraph("rerun", path, "k3", "--from", "label_evidence", folder=tmp_path).code in (0, 1)
    assert evigraph("export", path, "--inspect", folder=tmp_path).code == 0
    assert evigraph("export", path, "--spans", path / "spans.jsonl", "--payloads", folder=tmp_path).code == 0
    assert evigraph("view", path, "--bundle", path / "early", folder=tmp_path).code == 0
    assert evigraph("show", path, "--html", path / "early.html", "--texts", folder=tmp_path).code == 0
    (path / "letter.txt").write_text("of mine")
    assert len(purge_leaks(path, run)) > 1000
    refused = evigraph("purge", path, folder=tmp_path)
    assert refused.code == 2 and "--yes" in refused.err
    assert evigraph("purge", path, "--dry-run", folder=tmp_path).code == 0
    assert purged_of(path) is None
    done = evigraph("purge", path, "--yes", "--json", folder=tmp_path)
    assert (done.code, done.summary["forks"]) == (0, 1)
    assert {"spans.jsonl", "frames", "early", "early.html"} <= {*done.summary["files"]}
    assert not (path / "early").exists()
    assert done.summary["outside"][0] == f"{path / 'letter.txt'} (not of the run)"
    assert (path / "letter.txt").read_text() == "of mine"
    assert [one for one in done.summary["outside"] if str(path) in one] == done.summary["outside"][:1]
    assert purge_leaks(path, run) == set()
    now = RunFolder(path)
    assert check(now).faults == [] and check(RunFolder(path / "forks" / "1")).faults == []
    kept = [{**line, "answer": None} for line in run.cases()]
    assert [line["labels"] for line in now.cases()] == [line["labels"] for line in kept]
    assert [line["usage"] for line in now.cases()] == [line["usage"] for line in kept]
    shown = evigraph("show", path, folder=tmp_path)
    assert shown.code == 0 and "the texts of all cases were purged at" in shown.out
    for command in (("resume", path), ("retry", path), ("rerun", path, "k3", "--from", "generate_answer")):
        ended = evigraph(*command, folder=tmp_path)
        assert ended.code == 2 and "were purged at" in ended.line
    # What is read of it now brings nothing back.
    assert evigraph("view", path, "--bundle", "pages", folder=tmp_path).code == 0
    assert evigraph("show", path, "--html", "page.html", "--texts", folder=tmp_path).code == 0
    assert leaks([(tmp_path / "page.html").read_bytes()], run) == set()
    assert purge_leaks(path, run) == set()


@pytest.mark.parametrize("step", ["purge_calls", "_rewrite", "_reviews", "_remove_exports"])
def test_a_purge_that_was_broken_off_is_finished_by_the_next(
    run: RunFolder, copy: RunFolder, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    ids = purge.plan(copy, [])
    with monkeypatch.context() as patched:
        patched.setattr(purge, step, stopped)
        with pytest.raises(KeyboardInterrupt):
            purge.purge(copy, ids, {"tasks": [{"values": {"f1": 50.0}}]})
    broken_off = purged_of(copy.path)
    assert broken_off is not None and not broken_off.complete and "run it again" in broken_off.words
    purge.purge(RunFolder(copy.path), ids, {})
    finished = purged_of(copy.path)
    assert finished is not None and finished.complete
    assert finished.scores == {"tasks": [{"values": {"f1": 50.0}}]}
    assert purge_leaks(copy.path, run) == set()


def test_what_quotes_a_server_or_was_torn_goes_and_a_shared_journal_is_named(
    copy: RunFolder, tmp_path: Path
) -> None:
    copy.manifest.inputs.paths = [str(tmp_path / "gone.jsonl")]
    copy.manifest.sessions[0].stopped_by = "the server said: Ann is ill"
    (tmp_path / "calls").symlink_to((copy.path / "calls.sqlite").rename(tmp_path / "shared.sqlite"))
    (tmp_path / "calls").rename(copy.path / "calls.sqlite")
    (copy.path / "table.parquet").write_text("Ann is ill")
    whole = (copy.path / REVIEWS).read_bytes()
    (copy.path / REVIEWS).write_bytes(whole + b'{"case_id": "k1", "comment": "Ann is ill')
    ids = purge.plan(copy, [])
    assert ids == ["k0", "k1", "k2", "k3"]
    made = purge.purge(copy, ids, {})
    assert made.outside[-1] == f"{tmp_path / 'shared.sqlite'} (shared: other runs have lost these calls)"
    assert made.files[-1] == "table.parquet"
    now = RunFolder(copy.path)
    assert now.manifest.sessions[0].stopped_by == "(purged)"
    assert (copy.path / REVIEWS).read_bytes().count(b"\n") == whole.count(b"\n")
    assert not any(b"Ann is ill" in one for one in unpacked(copy.path))


def test_one_case_is_purged_and_the_others_are_as_they_were(run: RunFolder, copy: RunFolder) -> None:
    made = purge.purge(copy, purge.plan(copy, ["k1"]), {})
    assert made.cases == 1
    lines = {line["case_id"]: line for line in RunFolder(copy.path).cases()}
    before = {line["case_id"]: line for line in run.cases()}
    assert {id_ for id_ in lines if lines[id_] == before[id_]} == {"k0", "k2", "k3"}
    assert copy.trace("k3") == run.trace("k3")
    cases = Path(run.manifest.inputs.paths[0]).read_text().splitlines()
    of_k1 = json.loads(cases[1])
    texts = [of_k1["narrative"], of_k1["question"], *of_k1["sentences"]]
    everything = b"".join(unpacked(copy.path))
    assert not any(text.encode() in everything for text in texts)
    assert json.loads(cases[3])["narrative"].encode() in everything
