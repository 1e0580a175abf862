"""What looks like an identifier is named by its place."""

from __future__ import annotations

import builtins
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cases.records import Case, InvalidCase, Sentence
from cli.main import app
from evals.identifiers import scan
from storage.errors import InputError


def test_kinds_and_places(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("looked for a host")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    narrative = "Dr. Anna Weber-Lang saw her on 12/03/2019; write to anna.weber@example.org."
    sentences = (
        Sentence("1", "Potassium was 4.1 and 80 mg of furosemide were given twice on day 3."),
        Sentence("2", "MRN: 00482913, call (212) 555-1234, SSN 536-90-4399."),
    )
    case = Case("c1", narrative, "Why was it done?", sentences)
    found = scan([case, InvalidCase("c2", "broken")])
    assert (found.cases, found.unreadable) == (2, ["c2"])
    texts = {"narrative": narrative, "sentence 2": sentences[1].text}
    assert [(one.kind, texts[one.field][one.start : one.end]) for one in found.findings] == [
        ("NAME", "Dr. Anna Weber-Lang"),
        ("DATE_TIME", "12/03/2019"),
        ("EMAIL_ADDRESS", "anna.weber@example.org"),
        ("ID", "MRN: 00482913"),
        ("PHONE_NUMBER", "(212) 555-1234"),
        ("SSN", "536-90-4399"),
    ]


def test_the_command_counts_kinds_and_prints_no_text(tmp_path: Path) -> None:
    case = {
        "case_id": "k1",
        "narrative": "Mrs. Quill came.",
        "question": "Why?",
        "sentences": ["On 1/2/2020."],
    }
    (tmp_path / "cases.jsonl").write_text(json.dumps(case) + "\n")
    ended = CliRunner().invoke(app, ["scan", str(tmp_path / "cases.jsonl")])
    assert ended.exit_code == 0 and "Quill" not in ended.output
    assert "NAME           case k1, narrative, characters 0 to 10" in ended.output
    ended = CliRunner().invoke(app, ["scan", str(tmp_path / "cases.jsonl"), "--json", "--fail"])
    assert ended.exit_code == 1 and json.loads(ended.output)["kinds"] == {"NAME": 1, "DATE_TIME": 1}


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith(("presidio", "tldextract")):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install -e '\.\[scan\]' in the clone"):
        scan([])
