"""`evigraph prompts`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cases.texts import quoted
from cli.options import PromptSetOption
from cli.terminal import Result, print_line, print_message, print_rows

prompts = typer.Typer(no_args_is_help=True, help="List prompts, show one, or copy some to change them.")

_NameArgument = Annotated[str, typer.Argument(help="A prompt.", metavar="NAME")]


@prompts.command("list")
def list_() -> Result:
    """List all prompts, the systems that use them, and the packaged versions that have them.

    Example: evigraph prompts list
    """
    from graph.system import find_system, systems
    from prompts.versions import DEFAULT, own_prompts, packaged_versions

    users: dict[str, list[str]] = {name: [] for name in own_prompts(DEFAULT)}
    for system in systems():
        for name in dict.fromkeys(contract.name for contract in find_system(system).contracts):
            users.setdefault(name, []).append(system)
    own = {version: own_prompts(version) for version in packaged_versions()}
    versions = {name: [version for version in own if name in own[version]] for name in users}

    def print_prompts() -> None:
        rows = [(name, ", ".join(of), ", ".join(versions[name])) for name, of in users.items()]
        print_rows(("prompt", "systems", "versions"), rows)
        print_line("next: evigraph prompts show NAME")

    rows = [{"name": name, "systems": users[name], "versions": versions[name]} for name in users]
    return Result({"prompts": rows}, print_prompts)


@prompts.command("show")
def show(name: _NameArgument, prompt_set: PromptSetOption = None) -> Result:
    """Print a prompt's file; its version goes to standard error.

    Example: evigraph prompts show label_evidence
    """
    from cases.texts import printable
    from prompts.versions import DEFAULT, demand_prompt, find_sources

    source = demand_prompt(find_sources(prompt_set or DEFAULT), name)
    text = source.file.read_text("utf-8")

    def print_prompt() -> None:
        sys.stdout.write(printable(text))
        print_message(f"prompt {name} of {source.version}")

    return Result({"name": name, "version": source.version, "text": text}, print_prompt)


@prompts.command("copy")
def copy(
    names: Annotated[list[str], typer.Argument(help="Prompts to change.", metavar="NAME...")],
    to: Annotated[Path, typer.Option(help="Folder of the copies.", metavar="FOLDER")],
    prompt_set: PromptSetOption = None,
) -> None:
    """Copy prompts to a folder; all other prompts still come from their version.

    Example: evigraph prompts copy label_evidence reflect_on_labels --to mine
    """
    from prompts.versions import DEFAULT, copy_prompts

    copy_prompts(prompt_set or DEFAULT, names, to)
    print_line(f"copied {', '.join(names)} to {to}")
    command = f"evigraph run SYSTEM CASES... --prompt-set {quoted(to)}"
    print_line(f"next: edit them, then {command}")
