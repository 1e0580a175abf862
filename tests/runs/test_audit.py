from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from access.guard import TOKEN, new_token
from cli.main import app
from runs.record.audit import AUDIT, read_audit, record, record_start
from runs.record.folder import CALLS, RunFolder
from runs.record.manifest import RunError
from serving.journal.journal import Journal
from serving.policy import traffic
from serving.policy.traffic import Traffic
from tests.evigraph import write_cases, write_recipe
from tests.serving.fake_server import MODEL, FakeServer, Obey
from viewer.library import Library
from viewer.server import application

COMMENT = "The haemoglobin had fallen twice before the transfusion was given."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two people: one runs, reruns and exports it, the other reads, reviews and resumes it."""
    folder = tmp_path_factory.mktemp("audit")
    write_recipe(folder)
    write_cases(folder / "cases.jsonl", 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_API_KEY", "EMPTY")
        server = FakeServer(models={"data": [{"id": MODEL, "max_model_len": 100_000}]}, default=Obey())
        server.start()
        path, model = folder / "run", f"vllm:{MODEL}@http://127.0.0.1:{server.port}/v1"
        patch.setenv("EVIGRAPH_USER", "R. Chen")
        invoke(
            *("run", "tamu", folder / "cases.jsonl", "--model", model),
            *("--recipe", folder / "lexical.yaml", "--out", path),
        )
        invoke("rerun", path, "k0", "--from", "generate_answer")
        invoke("export", path, "--spans", folder / "spans", "--payloads")
        invoke("view", path, "--bundle", folder / "pages", "--redact")
        patch.setenv("EVIGRAPH_USER", "Ann")
        look(path, "k1")
        invoke("review", path, "k0", "--by", "Ann", "--confirm", "--comment", COMMENT)
        invoke("resume", path)
        server.stop()
    return path


def invoke(*arguments: str | Path) -> str:
    ended = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def look(run: Path, case_id: str) -> None:
    library = Library([run])
    token = new_token()
    with TestClient(application(library, 80, token), base_url="http://127.0.0.1:80") as client:
        assert client.get("/", params={TOKEN: token}).status_code == 200
        library.names()
        name = library.name_of(run)
        assert client.get(f"/runs/{name}/case", params={"id": case_id}).status_code == 200
    library.close()


def lines(run: Path) -> list[dict[str, Any]]:
    found = list(read_audit(run))
    assert not [line for line in found if line.fault]
    return [line.fields for line in found if line.fields is not None]


def test_it_says_who_did_what(run: Path) -> None:
    facts = [(line["event"], line["person"], line.get("command", line.get("case"))) for line in lines(run)]
    assert facts == [
        ("started", "R. Chen", "run"),
        ("ended", "R. Chen", None),
        ("forked", "R. Chen", "k0"),
        ("exported", "R. Chen", None),
        ("bundled", "R. Chen", None),
        ("opened", "Ann", "k1"),
        ("reviewed", "Ann", "k0"),
        ("started", "Ann", "resume"),
        ("ended", "Ann", None),
    ]
    started = lines(run)[0]
    assert started["user"] and started["machine"] and started["versions"].keys() == {"evigraph", "python"}
    assert [line["event"] for line in lines(run / "forks" / "1")] == ["started", "ended", "bundled"]


READS: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "a case": (("show", "{run}", "k0"), {"event": "opened", "case": "k0", "command": "show"}),
    "its calls": (("show", "{run}", "k0", "--calls"), {"event": "opened", "case": "k0", "command": "show"}),
    "it as JSON": (("show", "{run}", "k0", "--json"), {"event": "opened", "case": "k0", "command": "show"}),
    "all as JSON": (("show", "{run}", "--json"), {"event": "opened", "cases": 2, "command": "show"}),
    "a list": (("show", "{run}"), {}),
    "a card": (("card", "{run}"), {}),
    "a review": (("review", "{run}", "k0"), {"event": "opened", "case": "k0", "command": "review"}),
    "a blind review": (("review", "{run}", "k0", "--blind"), {"event": "opened", "case": "k0"}),
    "an answer": (
        ("verify", "{run}", "--case", "k0", "--ranker", "bm25"),
        {"event": "opened", "case": "k0", "command": "verify"},
    ),
    "all answers": (
        ("verify", "{run}", "--ranker", "bm25"),
        {"event": "opened", "cases": 2, "command": "verify"},
    ),
    "reviews": (
        ("review", "{run}", "--export", "{to}.jsonl"),
        {"event": "exported", "what": "reviewed cases", "to": "{to}.jsonl"},
    ),
    "a submission": (
        ("submit", "{run}", "--task", "2026-3", "--out", "{to}.zip"),
        {"event": "exported", "what": "submission 2026-3", "to": "{to}.zip"},
    ),
    "answers that differ": (
        ("compare", "{run}", "{run}/forks/1", "--html", "{to}.html", "--resamples", "99"),
        {"event": "exported", "what": "answers that differ", "to": "{to}.html"},
    ),
    "which labels differ": (
        ("compare", "{run}", "{run}/forks/1", "--html", "{to}.html", "--no-texts", "--resamples", "99"),
        {},
    ),
    "demonstrations": (
        ("demos", "add", "--from-reviews", "{run}", "--to", "{to}", "--embedding", "lexical:64"),
        {"event": "exported", "what": "reviewed cases", "to": "{to}"},
    ),
    "work": (
        ("review", "assign", "{run}", "--to", "ana,ben"),
        {"event": "assigned", "to": ["ana", "ben"], "cases": 2},
    ),
}
"""Commands with the line that they leave: one where they show texts of cases or write them elsewhere."""


@pytest.mark.parametrize("name", READS)
def test_whoever_reads_or_copies_texts_leaves_a_line(run: Path, tmp_path: Path, name: str) -> None:
    words, wanted = READS[name]
    copied = shutil.copytree(run, tmp_path / "run")
    places = {"run": str(copied), "to": str(tmp_path / "made")}
    invoke(*(word.format(**places) for word in words))
    added = lines(copied)[len(lines(run)) :]
    assert len(added) == bool(wanted)
    for line in added:
        assert line["user"] and line["machine"]
        for field, value in wanted.items():
            assert line[field] == (value.format(**places) if isinstance(value, str) else value)


def test_a_run_whose_log_cannot_be_written_can_be_read(run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(run, tmp_path / "run")
    (copied / AUDIT).unlink()
    (copied / AUDIT).mkdir()
    assert "k0" in invoke("show", copied, "k0")


def test_it_says_what_went_to_which_host(run: Path) -> None:
    ((host, counts),) = lines(run)[1]["hosts"].items()
    assert host.startswith("127.0.0.1:")
    journal = Journal(run / CALLS, read_only=True)
    (stored,) = journal.traffic().values()
    journal.close()
    # Probes and requests for lengths are not in the journal.
    assert counts["replies"] >= stored.replies > 0 and counts["received"] >= stored.received > 0
    assert counts["requests"] >= stored.requests and counts["sent"] >= stored.sent > 1000


def test_no_text_of_a_case_is_in_it(run: Path) -> None:
    written = (run / AUDIT).read_text("utf-8") + (run / "forks" / "1" / AUDIT).read_text("utf-8")
    texts = [COMMENT]
    for line in (run.parent / "cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        texts += [case["narrative"], case["question"], *case["sentences"]]
    texts += [line["answer"] for line in RunFolder(run).cases() if line["answer"]]
    pieces = {text[start : start + 12] for text in texts for start in range(len(text) - 11)}
    assert len(pieces) > 250
    assert [piece for piece in pieces if piece in written] == []


CHANGES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int]] = {
    "the last line cut": (lambda all_: [*all_[:-1], all_[-1][:-20]], 9),
    "no line at all": (lambda all_: [all_[0], b"{}\n", *all_[1:]], 2),
    "a flipped bit": (lambda all_: [*all_[:4], bytes([all_[4][0] ^ 1]) + all_[4][1:], *all_[5:]], 5),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_line_that_cannot_be_read_is_named(run: Path, tmp_path: Path, name: str) -> None:
    change, number = CHANGES[name]
    content = (run / AUDIT).read_bytes()
    (tmp_path / AUDIT).write_bytes(b"".join(change(content.splitlines(keepends=True))))
    ended = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert ended.exit_code == 1
    assert f"{AUDIT}: line {number}: " in ended.stdout.replace("\n", " ")


def test_it_goes_on_after_a_line_that_a_power_cut_has_torn(tmp_path: Path) -> None:
    record(tmp_path, "exported", what="tables")
    with (tmp_path / AUDIT).open("ab") as file:
        file.write(b'{"at": "2026')
    record(tmp_path, "exported", what="tables")
    assert [line.number for line in read_audit(tmp_path) if line.fault] == [2]
    assert len(list(read_audit(tmp_path))) == 3


def test_an_account_without_a_name_is_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.record.audit.os.getuid", lambda: 4_000_000_000)
    record(tmp_path, "exported", what="tables")
    assert lines(tmp_path)[0]["user"] == "4000000000"


def test_a_log_that_is_no_file_or_is_missing_is_named(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert isinstance(ended.exception, RunError) and "no audit.jsonl here" in str(ended.exception)
    (tmp_path / AUDIT).mkdir()
    with pytest.raises(RunError, match=r"audit\.jsonl: cannot be read: Is a directory"):
        list(read_audit(tmp_path))


def test_what_a_killed_session_sent_is_taken_from_the_journal(run: Path, tmp_path: Path) -> None:
    manifest = RunFolder(run).manifest
    journal = Journal(run / CALLS, read_only=True)
    record_start(tmp_path, manifest, "run", journal)
    record_start(tmp_path, manifest, "resume", journal)
    record_start(tmp_path, manifest, "resume", journal)
    (stored,) = journal.traffic().values()
    journal.close()
    events = [(line["event"], line.get("status"), line.get("hosts")) for line in lines(tmp_path)]
    (host,) = lines(run)[1]["hosts"]
    assert events == [
        ("started", None, None),
        ("ended", "killed", {host: stored._asdict()}),
        ("started", None, None),
        ("ended", "killed", {}),
        ("started", None, None),
    ]


def test_a_start_names_the_proxies_of_the_models(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://ann:secret@proxy.example.org:8080")
    manifest = RunFolder(run).manifest
    record_start(tmp_path, manifest, "run", None)
    (model, *_) = manifest.models.values()
    model.name = "vllm:m@http://gpu01:8000/v1,http://127.0.0.1:8000/v1"
    record_start(tmp_path, manifest, "run", None)
    begun = [line.get("proxies") for line in lines(tmp_path) if line["event"] == "started"]
    assert begun == [None, ["proxy.example.org:8080"]]


def test_a_case_id_that_no_file_can_hold_does_no_harm(tmp_path: Path) -> None:
    record(tmp_path, "opened", case="\ud800\u2028\n")
    record(tmp_path, "opened", case="next")
    assert [line["case"] for line in lines(tmp_path)] == ["\ud800\u2028\n", "next"]


def test_counts_of_a_host_are_added_up() -> None:
    before = traffic.so_far()
    traffic.count("http://me@gpu01:8000/v1?x=y", Traffic(1, 2, 3, 4))
    traffic.count("http://gpu01:8000/other", Traffic(1, 0, 1, 0))
    assert traffic.since(before, traffic.so_far()) == {"gpu01:8000": Traffic(2, 2, 4, 4)}
