from __future__ import annotations

import json
import socket
from pathlib import Path

from typer.testing import CliRunner

from cli.main import app
from runs.record.folder import RunFolder
from tests.evals.spans.conftest import Receiver
from tests.evigraph import evigraph


def test_a_dead_collector_ends_the_command_with_a_line_and_leaves_the_file(
    run: RunFolder, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    ended = evigraph("export", run.path, "--otlp", url, "--spans", "run.jsonl", folder=tmp_path)
    assert ended.code == 2
    assert ended.line.startswith(f"{url}/v1/traces: nothing takes spans there")
    assert ended.line.endswith("(0 spans were taken)")
    assert (tmp_path / "run.jsonl").stat().st_size > 0


def test_spans_are_written_without_tables(run: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    ended = CliRunner().invoke(app, ["export", str(run.path), "--spans", str(file), "--json"])
    written = json.loads(ended.stdout)["spans"]["written"]
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    spans = [
        span
        for line in lines
        for resource in line["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert len(spans) == written > 0
    assert not (run.path / "frames").exists()


def test_tables_are_written_beside_spans_where_a_folder_is_named(run: RunFolder, tmp_path: Path) -> None:
    named = ["--spans", str(tmp_path / "run.jsonl"), "--out", str(tmp_path / "frames")]
    assert CliRunner().invoke(app, ["export", str(run.path), *named]).exit_code == 0
    assert (tmp_path / "frames" / "cases.parquet").is_file()


def test_refused_spans_are_told_and_end_with_1(run: RunFolder, receiver: Receiver) -> None:
    receiver.refuses = 2
    ended = CliRunner().invoke(app, ["export", str(run.path), "--otlp", receiver.url])
    assert ended.exit_code == 1
    assert "refused 2 spans: too old" in ended.stderr


def test_payloads_are_of_spans(run: RunFolder) -> None:
    ended = CliRunner().invoke(app, ["export", str(run.path), "--payloads"])
    assert ended.exit_code == 2
    assert not (run.path / "frames").exists()
