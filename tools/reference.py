"""Reference pages for the site, generated from commands, recipes and node declarations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_type_hints

from typer.core import TyperGroup
from typer.main import get_group

from cli.looking.recipes import ExplainedField, explain
from cli.main import app
from graph.recipe import load_recipe
from graph.system import System, find_system, systems

TRACE_FIELDS = {
    "case_id": "the case; a case that runs again starts over at step 0, and its last pass counts",
    "step": "number of the execution within the pass",
    "node": "the node; `__end__` for the last line of a pass, with wall-clock start, total time and status",
    "started": "seconds since the case began",
    "seconds": "duration",
    "reads": "state keys that the node received, each with the steps that wrote it",
    "writes": "state keys that the node wrote",
    "because": "the decision in words",
    "facts": "the decision for programs; see the nodes below",
    "flags": "flags raised; see the nodes below",
    "calls": "journal key, tokens, seconds, retries, whether replayed, fault",
    "next": "nodes that followed: the route",
    "error": "exception of a failed node, else null",
    "inherited": "true for steps that a fork inherited from its run; absent otherwise",
}
"""Fields of every line of `trace.jsonl.gz` but the last of a pass."""

CASE_FIELDS = {
    "case_id": "the case",
    "status": "`done`, `failed` or `waiting`",
    "error": "null, or `class` and `message`",
    "labels": "sentence id to `essential` or `not-essential`",
    "flags": "anything unusual; see the nodes below",
    "usage": "calls and tokens, including replayed ones",
    "degraded": "steps without any usable reply; absent if there are none",
    "crc32": "checksum of the line without this field",
}
"""Fields of every line of `cases.jsonl`; others are results of a system's nodes."""


def cell(text: object) -> str:
    """Text for a cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def code(value: object) -> str:
    """Code for a cell; nothing for nothing."""
    return f"`{cell(value)}`" if str(value) else ""


def table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table, and none without rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines, ""] if lines else []


def first_line(function: Callable[..., Any]) -> str:
    """First line of a docstring."""
    return (function.__doc__ or "").strip().partition("\n")[0]


def commands() -> str:
    """Every command with its arguments and options."""
    page = [
        "# Commands",
        "",
        "Generated from the commands themselves; `evigraph COMMAND --help` prints the same.",
        "",
    ]
    group = get_group(app)
    context = group.make_context("evigraph", [], resilient_parsing=True)
    for name in group.list_commands(context):
        page += _command(group.get_command(context, name), context, name, "##")
    return "\n".join(page)


def _command(command: Any, parent: Any, name: str, heading: str) -> list[str]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    page = [f"{heading} {context.command_path}", ""]
    for paragraph in (command.help or "").strip().split("\n\n"):
        text = " ".join(paragraph.split())
        before, mark, example = text.partition("Example: ")
        page += [f"{cell(before)}", ""] if before else []
        page += ["```sh", example, "```", ""] if mark else []
    if isinstance(command, TyperGroup):
        for below in command.list_commands(context):
            page += _command(command.get_command(context, below), context, below, "###")
        return page
    page += ["```text", command.get_usage(context).removeprefix("Usage: "), "```", ""]
    page += table(("argument or option", "meaning"), [_parameter(one, context) for one in command.params])
    return page


def _parameter(one: Any, context: Any) -> tuple[str, str]:
    name, meaning = one.get_help_record(context)
    return code(re.sub(r" <.*>$", "", name)), cell(meaning)


def recipes() -> str:
    """Every field of every system's recipe."""
    page = [
        "# Recipe fields",
        "",
        "Generated from the recipes' schemas; `evigraph recipes NAME --fields` prints one recipe's.",
        "",
    ]
    for name in systems():
        page += [
            f"## {name}",
            "",
            f"{find_system(name).summary[:1].upper()}{find_system(name).summary[1:]}.",
            "",
        ]
        page += table(
            ("field", "type", "default", "meaning"), [_field(one) for one in explain(load_recipe(name))]
        )
    return "\n".join(page)


def _field(one: ExplainedField) -> tuple[str, str, str, str]:
    default = "required" if one.required else code(json.dumps(one.default))
    packaged = "" if one.value == one.default else f" (packaged recipe: {code(json.dumps(one.value))})"
    return code(one.name), cell(one.type), default + packaged, cell(one.meaning)


def run_fields() -> str:
    """Fields of case lines and trace lines, and every node with its results, facts and flags."""
    page = [
        "# Run fields",
        "",
        "Generated from the nodes' declarations.",
        "",
        "## Lines of `cases.jsonl`",
        "",
    ]
    page += table(("field", "meaning"), [(code(name), text) for name, text in CASE_FIELDS.items()])
    page += ["Further fields are the results of the nodes below; null means that the case lacks it.", ""]
    page += ["## Lines of `trace.jsonl.gz`", ""]
    page += table(("field", "meaning"), [(code(name), text) for name, text in TRACE_FIELDS.items()])
    for name in systems():
        page += _nodes(find_system(name))
    return "\n".join(page)


def _nodes(system: System) -> list[str]:
    types: Mapping[str, Any] = get_type_hints(system.state)
    page = [f"## Nodes of {system.name}", ""]
    rows = []
    for node in system.nodes:
        results = ", ".join(f"{code(key)}: {cell(_type(types.get(key, '')))}" for key in node.results)
        facts = ", ".join(code(fact) for fact in node.facts)
        rows.append((code(node.name), cell(first_line(node.run)), results, facts))
    page += table(("node", "action", "results in `cases.jsonl`", "facts"), rows)
    page += table(
        ("flag", "meaning"), [(code(name), cell(text)) for name, text in sorted(system.flags.items())]
    )
    return page


def _type(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands,
    "recipes.md": recipes,
    "run-fields.md": run_fields,
}
