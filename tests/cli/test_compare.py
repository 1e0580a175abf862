from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.measuring.print_comparison import _counts
from runs.record.folder import RunFolder
from tests.evigraph import LEXICAL_RECIPE, Ended, edit_manifest, evigraph, said, write_cases

# Calls even sentences essential; with the name `more`, sentence 1 as well.
SCRIPT = """\
import json

def few(call, also=()):
    if call.role not in ("label", "reflect"):
        from serving.backends.scripted import made_up_reply
        return made_up_reply(call)
    ids = call.schema_["properties"]
    return json.dumps(
        {id_: "essential" if int(id_) % 2 == 0 or id_ in also else "not-essential" for id_ in ids}
    )

def more(call):
    return few(call, also=("1",))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs `few` and `more` on three cases, and a key by which `more` is right."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "script.py").write_text(SCRIPT)
    (folder / "lexical.yaml").write_text(LEXICAL_RECIPE)
    write_cases(folder / "cases.jsonl", 3)
    for name in ("few", "more"):
        ended = evigraph(
            *("run", "tamu", "cases.jsonl", "--recipe", "lexical.yaml", "--out", name),
            *("--model", f"scripted:script.py:{name}"),
            folder=folder,
        )
        assert ended.code == 0, ended.err
    labels = [("1", "essential"), ("2", "essential"), ("3", "not-relevant"), ("4", "supplementary")]
    key = [
        {
            "case_id": f"k{number}",
            "answers": [{"sentence_id": id_, "relevance": relevance} for id_, relevance in labels],
        }
        for number in range(3)
    ]
    (folder / "key.json").write_text(json.dumps(key))
    return folder


def compare(folder: Path, *arguments: str) -> Ended:
    ended = evigraph("compare", "few", "more", *arguments, folder=folder)
    assert ended.code == 0, ended.err
    return ended


def test_without_a_key_changes_are_shown_and_what_a_key_adds(folder: Path) -> None:
    said = compare(folder).out
    assert "15 of 18 sentences alike, kappa 0.667; essential 9 in A, 12 in B" in said
    assert "model of label" in said
    assert "with --key KEY come scores" in said


def test_a_page_is_written(folder: Path) -> None:
    said = compare(folder, "--key", "key.json", "--html", "page.html")
    page = (folder / "page.html").read_text("utf-8")
    assert "page  page.html" in said.out
    assert "strict_micro_f1" in page and page.count("<svg") == 2


def test_rows_are_limited_and_say_how_to_see_more(folder: Path) -> None:
    said = compare(folder, "--key", "key.json", "--rows", "2").out
    assert "... and 1 more: --rows 3 shows all" in said


def test_case_files_may_stand_in_for_those_of_the_run(folder: Path) -> None:
    shutil.copytree(folder / "few", folder / "moved")
    inputs = RunFolder(folder / "moved").manifest.inputs.model_dump()
    paths = [path.replace("cases.jsonl", "gone.jsonl") for path in inputs["paths"]]
    edit_manifest(folder / "moved", inputs={**inputs, "paths": paths})
    ended = evigraph("compare", "moved", "more", folder=folder)
    assert ended.code == 0
    assert "no key: " in ended.err and "gone.jsonl" in ended.err
    ended = evigraph("compare", "moved", "more", "--key", "key.json", folder=folder)
    assert "strict_micro_f1" in ended.out
    ended = evigraph("compare", "moved", "more", "--cases", "cases.jsonl", "--key", "key.json", folder=folder)
    assert "strict_micro_f1" in ended.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["few", "nowhere"], "nowhere: no run here"),
        (["few", "more", "--key", "gone.json"], "gone.json"),
        (["few", "more", "--key", "other.json"], "wrong key file: none of its 1 case ids"),
        (["few", "more", "--html", "no/folder/page.html"], "no/folder/page.html: cannot be written"),
    ],
)
def test_bad_input_is_one_line(folder: Path, arguments: list[str], words: str) -> None:
    other = [{"case_id": "z", "answers": [{"sentence_id": "1", "relevance": "essential"}]}]
    (folder / "other.json").write_text(json.dumps(other))
    ended = evigraph("compare", *arguments, folder=folder)
    assert ended.code == 2
    assert words in ended.line


def test_three_runs_are_a_matrix_in_the_order_given(folder: Path) -> None:
    if not (folder / "again").exists():
        shutil.copytree(folder / "few", folder / "again")
    arguments = ("compare", "more", "few", "again", "--key", "key.json", "--html", "three.html")
    ended = evigraph(*arguments, "--json", folder=folder)
    assert ended.code == 0, ended.err
    found = ended.summary
    assert list(found["runs"].values()) == ["more", "few", "again"]
    assert found["scores"]["A"] > found["scores"]["B"] == found["scores"]["C"]
    assert [case["case_id"] for case in found["cases"]] == ["k0", "k1", "k2"]
    assert found["cases"][0]["A"]["score"] == pytest.approx(found["scores"]["A"])
    assert found["cases"][0]["A"]["seconds"] > 0 and found["cases"][0]["A"]["cost"] is None
    assert found["differences"]["B"][0].startswith("the model (scripted:script.py:more")
    page = (folder / "three.html").read_text("utf-8")
    assert "3 runs, 3 cases" in page and page.count('class="n up"') == 3


def test_more_runs_than_two_stand_side_by_side(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    copies = [shutil.copytree(folder / "few", tmp_path / str(number)) for number in range(7)]
    page = tmp_path / "page.html"
    shown = said("compare", "few", "more", copies[0], "--key", "key.json", "--rows", "1", "--html", page)
    assert "over cases scored in all runs" in shown
    assert "B differs from A in the model (scripted:script.py:few " in shown
    assert "C differs from A in no recorded setting" in shown
    assert shown.endswith(f"... and 2 more: --rows 3 shows all page {page}") and page.exists()
    ended = CliRunner().invoke(app, ["compare", "few", "more", *map(str, copies)])
    assert ended.exit_code == 2 and "at most 8 runs fit side by side, not 9" in " ".join(ended.output.split())


def test_routes_of_the_same_steps_are_told_from_others(capsys: pytest.CaptureFixture[str]) -> None:
    _counts("routes", {("", ""): 2, ("a, b", ""): 1}, 4, rows=2)
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        printed
        == "routes: 3 of 4 cases changed 2 the same steps, in another order or number 1 A: a, b | B: -"
    )
