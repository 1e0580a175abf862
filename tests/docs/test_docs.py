"""Every command, file and program in the README and in docs/ runs, in the order of the page."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from typer.main import get_group

from cases.load import find_cases
from cases.records import Case, Label
from cli.main import Group, app
from runs.record.found import LAST
from tests.evigraph import evigraph
from tests.serving.fake_server import FakeServer, Obey

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
PAGES = (
    "README.md",
    "docs/tutorial.md",
    "docs/cases.md",
    "docs/models.md",
    "docs/python.md",
    "docs/batches.md",
    "docs/clusters.md",
    "docs/security.md",
    "docs/review.md",
    "docs/tamu.md",
    "docs/search.md",
    "docs/bioasq.md",
    "docs/heids.md",
    "docs/timeaware.md",
    "docs/scoring.md",
    "docs/contributing.md",
    "docs/results.md",
)
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    language: str
    file: str | None
    needs: str | None
    text: str


def blocks(page: str) -> list[Block]:
    fence = re.compile(
        r"^```(\w*)(?: file=(\S+)| needs=\"([^\"\n]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL
    )
    return [Block(*match.groups()) for match in fence.finditer((ROOT / page).read_text("utf-8"))]


def anchor(heading: str) -> str:
    """What a heading is linked by on GitHub."""
    return re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the packages, so that a page can add files to them."""
    for package in PACKAGES:
        # Compiled modules are taken along, all but those that another process is writing.
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.pyc.*"))
    return tmp_path


def compare_words(checkout: Path) -> None:
    """Embed demonstrations by their words: to load the packaged encoder takes longer than most commands."""
    for path in (
        *checkout.glob("cli/**/*.py"),
        *checkout.glob("graph/**/*.yaml"),
        *checkout.glob("retrieval/*.py"),
    ):
        text = path.read_text("utf-8")
        if "embedded:minilm" in text:
            path.write_text(text.replace("embedded:minilm", "lexical:1024"), "utf-8")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    server = FakeServer(models={"data": [{"id": "test-model", "max_model_len": 100_000}]}, default=Obey())
    server.start()
    yield server
    server.stop()


def demo_runs() -> list[str]:
    """The runs of `make demo`, by a model that a test has."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    found = re.findall(
        r"evigraph (run .*) --model \$\(MODEL\) --out \$\(OUT\)$", makefile, flags=re.MULTILINE
    )
    assert found
    return [f"{run} --model scripted:auto --out out/demo" for run in found]


def commands(block: Block, server: FakeServer, *, scripted: bool) -> Iterator[str]:
    """What a reader types, with a server of the test's, and a model without weights where none is named."""
    for line in block.text.splitlines():
        if block.language == "sh" and line.startswith("make demo"):
            yield from demo_runs()
        elif block.language == "console" and line.startswith("$ evigraph "):
            command = line.removeprefix("$ evigraph ").replace("http://127.0.0.1:8000/v1", server.url)
            if scripted:
                command = command.replace("embedded:qwen2.5-coder-1.5b", "scripted:auto")
            needs_model = scripted and command.startswith("ask ") and "--model" not in command
            yield f"{command} --model scripted:auto" if needs_model else command


def paste(page: str, checkout: Path, server: FakeServer, *, scripted: bool = True) -> None:
    """Do what a page says, in its order."""
    environment = {"PYTHONPATH": str(checkout), "VLLM_API_KEY": "EMPTY"}
    found = blocks(page)
    own_packages = any(
        (block.language == "python" and block.needs is None)
        or (block.file and block.file.split("/")[0] in PACKAGES)
        for block in found
    )
    # Packages that stay as they are need not be imported from another folder for every command.
    of_commands = environment if own_packages else {"VLLM_API_KEY": "EMPTY"}
    ran = 0
    for block in found:
        if block.file is not None:
            target = checkout / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text.replace("http://127.0.0.1:8000/v1", server.url), "utf-8")
        elif block.needs is not None and not block.text.startswith("make demo"):
            continue
        elif block.language == "python":
            done = subprocess.run(
                [sys.executable, "-c", block.text],
                cwd=checkout,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            ran += 1
        else:
            for command in commands(block, server, scripted=scripted):
                words = shlex.split(command)
                by_words = scripted and not own_packages
                ended = evigraph(
                    *words, folder=checkout, environment=of_commands, timeout=900, by_words=by_words
                )
                assert ended.code == 0, f"{command}\n{ended.out}\n{ended.err}"
                ran += 1
    assert ran > 0


def unrunnable(page: str) -> list[str]:
    """Commands that neither run here nor name what they need."""
    found = []
    for block in blocks(page):
        typed = [line for line in block.text.splitlines() if re.match(r"\$ |evigraph |make |pip ", line)]
        if block.needs is not None:
            continue
        if block.language == "console":
            found += [line for line in typed if not line.startswith("$ evigraph ")] if typed else [block.text]
        elif block.language in ("", "sh"):
            found += typed or [block.text] * (block.language == "sh")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs_or_names_what_it_needs(page: str) -> None:
    assert not unrunnable(page)


def test_a_command_that_would_be_skipped_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "```sh\nmake x\n```\n```console\n$ evigraph a\nevigraph b\n```\n```\n$ evigraph c\n```\n"
    (tmp_path / "page.md").write_text(f'{page}```sh needs="a key"\nevigraph d\n```\n', "utf-8")
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert unrunnable("page.md") == ["make x", "evigraph b", "$ evigraph c"]


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, checkout: Path, server: FakeServer) -> None:
    compare_words(checkout)
    paste(page, checkout, server)


@pytest.mark.pasted
def test_the_readme_with_the_model_that_it_names(checkout: Path, server: FakeServer) -> None:
    paste("README.md", checkout, server, scripted=False)


def typed(page: str) -> Iterator[list[str]]:
    """The arguments of every command on a page, whether a test can run it or not."""
    for block in blocks(page):
        if block.language in ("sh", "console"):
            text = block.text.replace("\\\n", " ")
            for line in text.splitlines():
                found = re.match(r"(?:\$ )?evigraph (.*)", line)
                if found:
                    words = shlex.split(found[1], comments=True)
                    # No run is here.
                    yield ["out/run" if word == LAST else word for word in words]


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
)
def test_every_command_of_a_page_has_the_flags_that_it_names(page: str) -> None:
    for arguments in typed(page):
        group, rest = get_group(app), arguments
        context = group.make_context("evigraph", [*rest])
        while rest:
            name, command, rest = group.resolve_command(context, rest)
            assert command is not None, arguments
            context = command.make_context(name, [*rest], parent=context)
            if not isinstance(command, Group):
                break
            group, rest = command, command.with_default(rest)


def test_the_files_of_archehr_qa_show_everything_that_is_read(tmp_path: Path) -> None:
    for block in blocks("docs/cases.md"):
        if block.file in ("effusion.xml", "effusion_key.json"):
            (tmp_path / block.file).write_text(block.text, "utf-8")
    (case,) = find_cases([tmp_path / "effusion.xml"])
    assert isinstance(case, Case)
    assert case.specialty and case.narrative and case.question and len(case.sentences) == 3
    pieces = [(one.text, one.start_char_index, case.narrative) for one in case.phrases]
    pieces += [(one.text, one.start_char_index, case.note) for one in case.sentences]
    assert len(pieces) == 4 and all(whole[start:].startswith(text) for text, start, whole in pieces)
    gold = case.gold
    assert set((gold.labels or {}).values()) == set(get_args(Label))
    assert (
        gold.answer
        and gold.intent
        and [one.citations for one in gold.answer_sentences or ()]
        == [
            ("1",),
            ("1", "3"),
        ]
    )


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    for target, heading in LINK.findall((ROOT / page).read_text("utf-8")):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        if heading:
            assert heading in map(anchor, HEADING.findall(path.read_text("utf-8"))), f"{target}#{heading}"


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = {
        line.split()[1]
        for block in blocks("README.md")
        if block.language == "sh"
        for line in block.text.splitlines()
        if line.startswith("make ")
    }
    assert named == {"demo", "test"}
    assert all(f"\n{name}:" in makefile for name in named)
