"""YAML without duplicate keys: PyYAML silently takes the last value."""

from __future__ import annotations

from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As PyYAML's own, which has merged other mappings into this one by then.

        Raises:
            yaml.constructor.ConstructorError: A key is repeated; names the line of the second.
        """
        found: set[str] = set()
        for key, _ in node.value:
            # Other keys do not name fields; a merged key may be repeated.
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in found:
                    problem = f"duplicate key {key.value!r}; keep one of them"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                found.add(key.value)
        return super().construct_mapping(node, deep)


def loads(text: str | bytes) -> Any:
    """The value of a YAML text, of plain types only.

    Raises:
        yaml.YAMLError: It is not YAML, or a mapping has a key twice.
        ValueError: A value looks like a date or a number and is none.
        RecursionError: It is too deep.
    """
    # A subclass of PyYAML's safe loader.
    return yaml.load(text, _Loader)  # noqa: S506
