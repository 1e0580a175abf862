"""The schema of a reply in the forms that providers accept: a grammar, or with fewer keywords.

vLLM's JSON schemas let white space vary. Small models at a high temperature then drift into it: of three
votes on a note of 54 sentences, two ran into their token limit on blanks. And xgrammar reads no
`uniqueItems`. The grammar fixes a reply's white space as well as its values.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from serving.protocol.reply import JsonSchema

MAX_CHOICES = 500
"""Maximum number of choices in a list.

Xgrammar compiles a list of 1,000 choices in half a second and one of 2,000 in 26 s.
"""


_ENCODER = json.JSONEncoder(ensure_ascii=False)

_DATA = ("enum", "const", "required", "default", "examples")
"""Keywords whose value is not a schema."""


def fixed_layout_grammar(schema: JsonSchema) -> str | None:
    """EBNF for a flat object of string choices and lists of choices, laid out as `json.dumps` does.

    A list holds each choice at most once and in the order of the schema, so it always comes to an end.

    Returns:
        The grammar, or None for other schemas.
    """
    properties = schema.get("properties", {})
    if not properties or any(_choices(value) is None for value in properties.values()):
        return None
    rules: dict[tuple[str, ...], str] = {}
    lines: list[str] = []
    parts = []
    for position, (name, value) in enumerate(properties.items()):
        choices = tuple(_choices(value) or ())
        if "enum" in value:
            rule = rules.setdefault(choices, f"choice{len(rules)}")
        else:
            rule = f"list{position}"
            lines += _list_rules(rule, choices)
        opening = "{" if position == 0 else ", "
        parts.append(f"{_quoted(f'{opening}{_quoted(name)}: ')} {rule}")
    for choices, rule in rules.items():
        lines.append(f"{rule} ::= {' | '.join(_quoted(_quoted(choice)) for choice in choices)}")
    return "\n".join([f"root ::= {' '.join(parts)} {_quoted('}')}", *lines]) + "\n"


def _choices(value: dict[str, Any]) -> Sequence[str] | None:
    """The strings that a property chooses from, None if it is of another kind."""
    if value.get("type") == "array" and value.get("uniqueItems"):
        value = value.get("items", {})
        if len(value.get("enum", ())) > MAX_CHOICES:
            return None
    choices: Sequence[str] | None = value.get("enum")
    return choices or None


def _list_rules(name: str, choices: Sequence[str]) -> list[str]:
    """Rules of an ascending list, two for each choice.

    `NAME_from3` takes choice 3 or continues with a later one; `NAME_after3` ends the list or takes one from 3
    on.
    """
    last = len(choices) - 1
    rules = [f'{name} ::= "[]" | "[" {name}_from0 "]"']
    for index, choice in enumerate(choices):
        literal = _quoted(_quoted(choice))
        if index == last:
            rules.append(f"{name}_from{index} ::= {literal}")
            continue
        after, later = f"{name}_after{index + 1}", f"{name}_from{index + 1}"
        rules += [
            f"{name}_from{index} ::= {literal} {after} | {later}",
            f'{after} ::= "" | ", " {later}',
        ]
    return rules


# The ids of sentences are the same in most notes.
@lru_cache(maxsize=1024)
def _quoted(text: str) -> str:
    """A JSON string; EBNF quotes its literals the same way."""
    return _ENCODER.encode(text)


def without_keywords(schema: JsonSchema, keywords: Collection[str]) -> JsonSchema:
    """A schema without some keywords: strict modes refuse those that they cannot enforce.

    The parser still checks omitted constraints.
    """
    return {name: _part(name, value, keywords) for name, value in schema.items() if name not in keywords}


def _part(name: str, value: Any, keywords: Collection[str]) -> Any:
    if name in _DATA:
        return value
    if name in ("properties", "$defs") and isinstance(value, dict):
        # These keys are the user's names, not keywords.
        return {key: _part("", part, keywords) for key, part in value.items()}
    return without_keywords(value, keywords) if isinstance(value, dict) else value
