"""`evigraph verify`, as a user runs it. All texts are invented."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.data.verify import _print
from evals.verification import Report
from ranking.verify import Verification, VerifiedLine
from tests.evigraph import Ended, evigraph, said

SOURCE = """\
Sputum culture grew Streptococcus pneumoniae.
Metformin was held because creatinine rose.
She was started on ceftriaxone.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "note.txt").write_text(
        "Metformin was held because creatinine rose.\n\nKnee surgery went well.\n"
    )
    (tmp_path / "source.txt").write_text(SOURCE)
    return tmp_path


def verify(folder: Path, *arguments: str, ranker: str = "bm25") -> Ended:
    return evigraph("verify", *arguments, "--ranker", ranker, folder=folder)


def test_by_default_support_is_told_from_its_lack_and_the_reading_of_the_source_is_kept(folder: Path) -> None:
    ended = evigraph(
        *("verify", "note.txt", "source.txt", "--json", "--html", "page.html"),
        folder=folder,
        environment={"EVIGRAPH_CACHE": str(folder / "cache")},
    )
    found = ended.summary
    line = found["lines"][0]
    assert (line["supported"], line["evidence"][0]["sentence"]) == (True, "2")
    assert [one["support"] for one in found["lines"]] == ["supported", "not_stated"]
    assert (found["source_encoded"], found["html"]) == (True, "page.html")
    assert "Knee surgery went well." in (folder / "page.html").read_text()
    assert len(list((folder / "cache" / "sources").iterdir())) == 1


def test_each_line_is_shown_and_strict_reports_what_is_not_stated(folder: Path) -> None:
    ended = verify(folder, "note.txt", "source.txt", "--strict")
    assert ended.code == 1
    assert "1  Metformin was held because creatinine rose. [not stated]" in ended.out
    assert "2  Knee surgery went well. [not stated]" in ended.out
    assert "2 lines: 0 supported, 2 not stated" in ended.out


def test_what_is_left_out_and_cut_off_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / "source.txt").write_text(f"{SOURCE}Metformin was held because creatinine rose.\n")
    command = ("verify", "note.txt", "source.txt", "--ranker", "bm25", "--html", "page.html")
    printed = said(*command, "--rows", "1")
    assert "... and 1 more: --rows 2" in printed and printed.endswith(" page.html")
    assert "more: --rows" not in said(*command, "--rows", "2")
    line = VerifiedLine("A.", supported=False, evidence=(), cut=True)
    found = Verification((line,), ("A.", "B."), threshold=0.5, cut_sentences=(0, 1))
    report = Report("note", "source", ("1", "2"), "bm25", found, source_encoded=None)
    _print(report, 1, None)
    printed = " ".join(capsys.readouterr().out.split())
    assert "over the ranker's limit of length, the end not read: 2 sentences and 1 line" in printed
    assert ", from probability 0.5 on)" in printed


def test_control_codes_do_not_reach_the_terminal(folder: Path) -> None:
    (folder / "note.txt").write_text("Creatinine \x1b[31m[bold]rose\x1b]0;x\x07\u202e.\n")
    ended = verify(folder, "note.txt", "source.txt")
    assert ended.code == 0
    assert "[bold]rose" in ended.out
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.out)


def test_a_checkpoint_of_another_kind_is_one_line(folder: Path) -> None:
    (folder / "ranker.json").write_text('{"kind": "oracle"}')
    ended = verify(folder, "note.txt", "source.txt", ranker=".")
    assert (ended.code, ended.out) == (2, "")
    assert "unknown kind 'oracle'" in ended.line
