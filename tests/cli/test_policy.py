"""What a data policy forbids is refused by every command, before any byte leaves."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cases.load import find_cases
from cases.scans import digests
from cli.main import app
from evals import identifiers
from evals.identifiers import Scan, keep
from runs.record.folder import RunFolder
from serving.policy import gate
from serving.policy.policy import PolicyError
from tests.evigraph import write_cases, write_recipe
from tests.goldens.outputs import leaves

URL = "http://gpu.example.org:8000/v1"
MODEL = f"vllm:m@{URL}"
EMBEDDING = ("--embedding", f"openai:m@{URL}")
SAMPLES = Path(__file__).parents[2] / "cases" / "samples"

_events: list[list[tuple[str, str]]] = []


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if _events and event in ("socket.getaddrinfo", "socket.connect", "socket.sendto", "socket.gethostbyname"):
        place = arguments[0] if event.startswith("socket.get") else arguments[1]
        if isinstance(place, str | bytes | tuple):
            _events[-1].append((event, str(place)))


sys.addaudithook(_listen)


@pytest.fixture
def outgoing() -> Iterator[list[tuple[str, str]]]:
    """Every lookup and every connection that this process begins."""
    _events.append([])
    yield _events[-1]
    _events.pop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cases with a policy next to them, a run of them, and inputs of other commands that send texts."""
    folder = tmp_path_factory.mktemp("policy")
    write_cases(folder / "cases.jsonl", 2)
    write_recipe(folder)
    (folder / "note.txt").write_text("A drain was placed.\n")
    (folder / "policy.yaml").write_text("name: ours\nhosts: [loopback]\n")
    (folder / "server.yaml").write_text(f"system: tamu\nembedding: openai:m@{URL}\n")
    (folder / "grid.yaml").write_text(
        f"cases: cases.jsonl\nrecipe: lexical.yaml\nmodel: '{MODEL}'\ncells: {{one: {{}}}}\n"
    )
    made = invoke(
        *("run", "tamu", folder / "cases.jsonl", "--model", "scripted:auto", "--recipe"),
        *(folder / "lexical.yaml", "--out", folder / "run"),
    )
    assert made == ""
    assert invoke("review", folder / "run", "k0", "--by", "Ann", "--confirm") == ""
    assert invoke("users", "add", "ana", "--role", "view", "--users", folder / "people" / "users.json") == ""
    corpus = ("corpus", "build", SAMPLES / "health" / "literature.jsonl", "--out", folder / "corpus")
    assert invoke(*corpus) == ""
    gate.release()
    return folder


def invoke(*arguments: str | Path) -> str:
    """Run a command in this process; what it was refused with, if it was."""
    ended = CliRunner().invoke(app, [*map(str, arguments)])
    if ended.exception is None or isinstance(ended.exception, SystemExit):
        assert ended.exit_code == 0, ended.output
        return ""
    return f"{type(ended.exception).__name__}: {ended.exception}"


def sending(folder: Path) -> dict[tuple[str, ...], list[tuple[str | Path, ...]]]:
    """For each command that can send texts, every way to name a host."""
    cases, run = folder / "cases.jsonl", folder / "run"
    corpus, recipe = folder / "corpus", folder / "lexical.yaml"
    pool = ("--demos", folder)
    return {
        ("run",): [
            ("tamu", cases, "--model", MODEL),
            ("tamu", cases, "--model", "openai:gpt-5"),
            ("tamu", cases, "--model", "scripted:auto", "--model", "reflect=anthropic:claude"),
            ("tamu", cases, "--model", "scripted:auto", "--recipe", folder / "server.yaml"),
            ("tamu", SAMPLES / "batch.xml", "--model", MODEL, *pool),
            ("tamu", cases, "--model", MODEL, "--dry-run"),
            ("tamu", cases, "--model", f"batch:{MODEL}"),
            ("tamu", cases, "--model", "scripted:auto", "--model", "label=batch:openai:gpt-5"),
        ],
        ("api",): [(folder, "--model", MODEL, "--port", "0")],
        ("ask",): [("Why?", "--note", folder / "note.txt", "--model", MODEL, "--out", folder / "asked")],
        ("resume",): [(run, "--model", MODEL)],
        ("retry",): [(run, "--model", MODEL)],
        ("rerun",): [(run, "k0", "--from", "generate_answer", "--model", MODEL)],
        ("experiment",): [(folder / "grid.yaml", "--out", folder / "grid")],
        ("optimise",): [
            (recipe, "--cases", cases, "--model", MODEL, "--budget", "9", "--out", folder / "optimised")
        ],
        ("demos", "build"): [
            (cases, "--to", folder / "pool", *EMBEDDING),
            (cases, "--to", folder / "pool", "--embedding", "openai:m"),
        ],
        ("demos", "add"): [("--from-reviews", run, "--to", folder / "pool", *EMBEDDING)],
        ("demos", "list"): [(folder, *EMBEDDING)],
        ("demos", "query"): [("a text", folder, *EMBEDDING)],
        ("index", "build"): [
            (corpus, "--out", folder / "index", *EMBEDDING),
            (corpus, "--out", folder / "index", "--embedding", "lexical:8", "--store", f"qdrant@{URL}"),
        ],
        ("export",): [
            (run, "--otlp", URL),
            (run, "--spans", folder / "spans", "--payloads"),
        ],
        ("runs", "push"): [(run, "gs://bucket/run"), (run, "abfs://box@ours.dfs.core.windows.net/run")],
        ("runs", "pull"): [("gs://bucket/run", "--out", folder / "pulled")],
        ("view",): [
            (run, "--host", "0.0.0.0", "--no-browser"),  # noqa: S104
            (run, "--host", "0.0.0.0", "--no-browser", "--users", folder / "people" / "users.json"),  # noqa: S104
            (run, "--bundle", folder / "pages"),
        ],
        ("show",): [(run, "--html", folder / "page.html", "--texts")],
    }


WITHOUT_A_HOST = {
    "init",
    # They read files and print, or write files next to them.
    *("card", "cases import", "merge"),
    "purge",
    *("runs note", "runs tag", "scan", "users add", "users list", "users remove"),
    *("review adjudicate", "review agreement", "review assign", "review case"),
    *("analyse", "audit", "calibrate", "check", "compare", "graph", "recipes", "score"),
    "status",
    *("cases pubmedqa", "cases scifact", "corpus build", "corpus search", "corpus show"),
    *("demos label", "rank", "submit", "train", "validate", "verify"),
    # They take the server that an index was built with, which `index build` was refused.
    *("index recall", "index search", "index show", "pairs", "rankings"),
    # No texts of the user's: invented cases, weights, what a server can do, a server without requests.
    *("models list", "models pull", "models check", "serve"),
    *("prompts copy", "prompts list", "prompts show"),
}
"""Commands that name no host to send texts of cases to; `tests/goldens` shows which of them open a socket."""


def test_every_command_is_among_those_that_send_or_those_that_do_not(folder: Path) -> None:
    sends = {" ".join(words) for words in sending(folder)}
    bench = {one for one in leaves() if one.startswith("bench")}
    assert leaves() - bench == sends | WITHOUT_A_HOST
    assert not sends & WITHOUT_A_HOST


def test_every_way_out_is_refused_before_anything_is_looked_up(
    folder: Path, outgoing: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{variable}_API_KEY", "a-key")
    for words, ways in sending(folder).items():
        for arguments in ways:
            # What an earlier command has opened must not be what refuses this one.
            gate.release()
            # A corpus in a separate folder has no policy next to it, nor has a bucket.
            alone = words == ("index", "build") or str(arguments[0]).startswith("gs://")
            policy = ("--policy", folder / "policy.yaml") if alone else ()
            refused = invoke(*words, *arguments, *policy)
            assert "policy 'ours'" in refused and "rule " in refused, (words, arguments, refused)
            assert "\n" not in refused
    assert outgoing == []
    assert not [
        name
        for name in ("pool", "index", "pages", "page.html", "spans", "asked", "pulled")
        if (folder / name).exists()
    ]


def test_hosted_models_see_scanned_cases_alone(
    tmp_path: Path, outgoing: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    cases, key = tmp_path / "our cases.jsonl", tmp_path / "key.json"
    write_cases(cases, 2)
    key.write_text('[{"case_id": "k0", "clinician_answer": "A drain.", "answers": []}]')
    (tmp_path / "policy.yaml").write_text("name: ours\nhosts: ['*']\nscan_before_hosted: true\n")
    run = ("run", "tamu", cases, "--key", key, "--model", MODEL)
    refused = invoke(*run)
    assert refused.startswith("NotScanned: policy 'ours'") and "rule scan_before_hosted: " in refused
    assert (
        "gpu.example.org may see cases that were scanned as they are now" in refused and "\n" not in refused
    )
    command = refused.rpartition(": ")[2]
    assert shlex.split(command) == ["evigraph", "scan", str(cases), f"--key={key}"]
    assert outgoing == []
    # What the command leaves, without the extra that it needs.
    monkeypatch.setattr(identifiers, "version", lambda _: "2.2.360")
    keep(Scan(2, [], []), digests(find_cases([cases], [key])))
    gate.release()
    allowed = invoke(*run)
    assert allowed.startswith("ModelError: cannot reach"), allowed
    gate.release()
    with cases.open("a") as file:
        file.write("\n")
    assert "rule scan_before_hosted" in invoke(*run)


def test_hosts_of_data_without_a_policy_are_asked_for(
    tmp_path: Path, outgoing: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cases(tmp_path / "cases.jsonl", 1)
    refused = invoke("run", "tamu", tmp_path / "cases.jsonl", "--model", MODEL)
    assert (
        refused.startswith("PolicyError: ") and "gpu.example.org" in refused and "--allow-hosted" in refused
    )
    assert outgoing == []
    allowed = invoke("run", "tamu", tmp_path / "cases.jsonl", "--model", MODEL, "--allow-hosted")
    assert allowed.startswith("ModelError: cannot reach"), allowed
    assert {"gpu.example.org" in place for _, place in outgoing} == {True}


def test_batches_need_a_word_of_their_own(folder: Path, outgoing: list[tuple[str, str]]) -> None:
    (folder / "ours.yaml").write_text("name: ours\nhosts: ['*']\n")
    model = ("--model", "batch:openai:m@http://127.0.0.1:9/v1", "--policy", folder / "ours.yaml")
    assert "rule batches" in invoke("run", "tamu", folder / "cases.jsonl", *model)
    assert outgoing == []


def test_a_run_records_its_policy_and_keeps_it(folder: Path) -> None:
    recorded = json.loads((folder / "run" / "run.json").read_text())["policies"]
    assert [one["rules"]["name"] for one in recorded] == ["ours"]
    assert recorded[0]["origin"] == str(folder / "policy.yaml") and len(recorded[0]["sha256"]) == 64
    text = (folder / "policy.yaml").read_text()
    (folder / "policy.yaml").write_text("name: ours\nhosts: ['*']\nexport_payloads: true\n")
    try:
        assert "rule hosts" in invoke("resume", folder / "run", "--model", MODEL)
        gate.release()
        assert "rule export_payloads" in invoke(
            "export", folder / "run", "--spans", folder / "s", "--payloads"
        )
        gate.release()
        named = invoke("resume", folder / "run", "--policy", folder / "policy.yaml")
        assert "held to policy 'ours'" in named
    finally:
        (folder / "policy.yaml").write_text(text)


def test_a_run_under_a_policy_does_what_that_allows(folder: Path) -> None:
    assert invoke("export", folder / "run", "--spans", folder / "spans.jsonl") == ""
    assert invoke("view", folder / "run", "--bundle", folder / "redacted", "--redact") == ""


def test_a_pool_keeps_the_policy_of_its_cases(folder: Path, tmp_path: Path) -> None:
    write_cases(tmp_path / "cases.jsonl", 1)
    lines = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    labelled = [{**line, "labels": dict.fromkeys("123456", "essential")} for line in lines]
    (folder / "labelled.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in labelled))
    build = ("demos", "build", folder / "labelled.jsonl", "--to", tmp_path / "pool")
    assert invoke(*build, "--embedding", "lexical:256") == ""
    gate.release()
    run = ("run", "tamu", tmp_path / "cases.jsonl", "--model", MODEL, "--demos", tmp_path / "pool")
    assert "policy 'ours'" in invoke(*run)


def test_a_folder_with_runs_that_forbid_it_is_not_shown_to_others(folder: Path) -> None:
    RunFolder(folder / "run")
    with pytest.raises(PolicyError):
        gate.demand_listening("0.0.0.0")  # noqa: S104
