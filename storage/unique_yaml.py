"""YAML in which no mapping has a key twice: PyYAML takes the last value, and nothing says so."""

from __future__ import annotations

from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As PyYAML's own, which has merged other mappings into this one by then.

        Raises:
            yaml.constructor.ConstructorError: A key stands there twice; names the line of the second.
        """
        found: set[str] = set()
        for key, _ in node.value:
            # Others are no names of fields; a key that is merged is one that may be said again.
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in found:
                    problem = f"key {key.value!r} stands twice; keep one of them"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                found.add(key.value)
        return super().construct_mapping(node, deep)


def loads(text: str | bytes) -> Any:
    """The value of a YAML text, of plain types only.

    Raises:
        yaml.YAMLError: It is no YAML, or a mapping has a key twice.
        ValueError: A value looks like a date or a number and is none.
        RecursionError: It is too deep.
    """
    # A subclass of PyYAML's safe loader.
    return yaml.load(text, _Loader)  # noqa: S506
