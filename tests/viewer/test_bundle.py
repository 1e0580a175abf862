from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import lxml.html
import pytest

import runs
from runs.record.manifest import ForkedFrom, RunError
from tests.viewer.case_runs import voted_run
from tests.viewer.written_run import add, ended, finish, new_run
from viewer.bundle import RedactedRun, write_bundle

TEXTS = (
    *("Why did it hurt?", "Why pain?", "He fell.", "It was cold.", "He drank tea."),
    *("Which are essential?", "reply 0", "reflection 1"),
)


def links(page: Path) -> list[str]:
    elements = lxml.html.fromstring(page.read_bytes()).iter()
    found = [element.get(name, "") for element in elements for name in ("href", "src")]
    return [link for link in found if link and not link.startswith("#")]


def everything(folder: Path) -> str:
    return "".join(path.read_text("utf-8") for path in folder.rglob("*") if path.is_file())


def test_every_link_leads_to_a_file_of_the_bundle(tmp_path: Path) -> None:
    made = write_bundle({"run": voted_run(tmp_path)}, tmp_path / "pages")
    pages = list((tmp_path / "pages").rglob("*.html"))
    for page in pages:
        for link in links(page):
            assert (page.parent / unquote(link.partition("#")[0])).is_file(), (page, link)
    # The list, the run, the case and its four calls.
    assert len(pages) == 7
    files = [path for path in (tmp_path / "pages").rglob("*") if path.is_file()]
    assert (made.runs, made.cases, made.files) == (1, 1, len(files))
    assert made.bytes == sum(path.stat().st_size for path in files)


def test_a_bundle_holds_the_texts_of_its_cases(tmp_path: Path) -> None:
    write_bundle({"run": voted_run(tmp_path)}, tmp_path / "pages")
    found = everything(tmp_path / "pages" / "run")
    assert [text for text in TEXTS if text not in found] == []


def test_a_redacted_bundle_holds_labels_and_votes_and_no_text(tmp_path: Path) -> None:
    write_bundle({"run": voted_run(tmp_path)}, tmp_path / "pages", redact=True)
    found = everything(tmp_path / "pages" / "run")
    assert [text for text in TEXTS if text in found] == []
    case = (tmp_path / "pages" / "run" / "cases" / "000001.html").read_text()
    assert "texts are left out" in case
    assert "2/2" in case
    assert not (tmp_path / "pages" / "run" / "calls").exists()
    with runs.open(tmp_path / "run") as run, RedactedRun(run.path) as redacted:
        key = run.trace("c")[0]["calls"][0]["key"]
        assert run.conversation(key)
        with pytest.raises(KeyError):
            redacted.conversation(key)


def test_ids_of_cases_never_become_paths(folder: Path, tmp_path: Path) -> None:
    write_bundle({"hostile": folder / "hostile"}, tmp_path / "pages")
    names = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")]
    assert len(names) == 7
    assert all(re.fullmatch(r"pages/(hostile/(cases/\d+|index)|index)\.html", name) for name in names)


def test_pages_carry_their_own_policy(tmp_path: Path) -> None:
    write_bundle({"run": voted_run(tmp_path)}, tmp_path / "pages")
    for page in (tmp_path / "pages").rglob("*.html"):
        assert "default-src 'none'; script-src 'self'" in unquote(page.read_text().replace("&#39;", "'"))


def test_a_folder_in_use_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "mine.txt").touch()
    with pytest.raises(RunError, match="not empty; choose another --bundle"):
        write_bundle({"run": voted_run(tmp_path)}, tmp_path / "pages")
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["mine.txt"]


def test_a_run_that_cannot_be_read_leaves_no_half_bundle(folder: Path, tmp_path: Path) -> None:
    paths = {"plain": folder / "plain", "damaged": folder / "damaged"}
    with pytest.raises(RunError, match="line 1: "):
        write_bundle(paths, tmp_path / "pages")
    assert not (tmp_path / "pages").exists()
    (tmp_path / "pages").mkdir()
    with pytest.raises(RunError):
        write_bundle(paths, tmp_path / "pages")
    assert [*(tmp_path / "pages").iterdir()] == []


def test_a_fork_and_its_run_lead_to_each_other(tmp_path: Path) -> None:
    made = ForkedFrom(run="anywhere", case_id="x", node="label_evidence", step=2, changes={"seed": (1, 2)})
    with new_run(tmp_path / "run", ["x"]) as run:
        add(run, ended("x"))
    (tmp_path / "run" / "forks").mkdir()
    with new_run(tmp_path / "run/forks/1", ["x"], forked_from=made) as fork:
        add(fork, ended("x"))
        finish(fork)
    write_bundle({"run": tmp_path / "run", "fork": tmp_path / "run/forks/1"}, tmp_path / "pages")
    there, back = (tmp_path / "pages" / name / "cases" / "000001.html" for name in ("run", "fork"))
    assert "../../fork/cases/000001.html" in links(there)
    assert "seed: 1 → 2" in there.read_text()
    assert "../../run/cases/000001.html" in links(back)
    write_bundle({"fork": tmp_path / "run/forks/1"}, tmp_path / "alone")
    assert "seed: 1" not in (tmp_path / "alone" / "fork" / "cases" / "000001.html").read_text()
