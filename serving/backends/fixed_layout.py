"""A grammar that fixes a reply's white space as well as its values.

vLLM's JSON schemas let white space vary. Small and warm models then drift into it: of three votes on a note
of 54 sentences, two ran into their token limit on blanks.
"""

from __future__ import annotations

import json

from serving.reply import JsonSchema


def fixed_layout_grammar(schema: JsonSchema) -> str | None:
    """EBNF for a flat object of string choices, laid out as `json.dumps` does; None for other schemas."""
    properties = schema.get("properties", {})
    if not properties or any("enum" not in value for value in properties.values()):
        return None
    rules: dict[tuple[str, ...], str] = {}
    parts = []
    for position, (name, value) in enumerate(properties.items()):
        choices = tuple(value["enum"])
        rule = rules.setdefault(choices, f"choice{len(rules)}")
        opening = "{" if position == 0 else ", "
        parts.append(f"{_quoted(f'{opening}{_quoted(name)}: ')} {rule}")
    lines = [f"root ::= {' '.join(parts)} {_quoted('}')}"]
    for choices, rule in rules.items():
        lines.append(f"{rule} ::= {' | '.join(_quoted(_quoted(choice)) for choice in choices)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A JSON string; EBNF quotes its literals the same way."""
    return json.dumps(text, ensure_ascii=False)
