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


class _WithoutAliases(_Loader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As PyYAML's own.

        Raises:
            yaml.YAMLError: An alias repeats a list or mapping. It may be one of itself, and a few of them can
                expand to more than fits into memory.
        """
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if is_alias and not isinstance(node, yaml.ScalarNode):
            raise yaml.YAMLError("a list or mapping is repeated by an alias; write it out")
        return node


def loads(text: str | bytes, *, aliases: bool = True) -> Any:
    """The value of a YAML text, of plain types only; `aliases` may repeat lists and mappings.

    Raises:
        yaml.YAMLError: It is not YAML, a mapping has a key twice, or there is an alias where none may be.
        ValueError: A value looks like a date or a number and is none.
        RecursionError: It is too deep.
    """
    # Subclasses of PyYAML's safe loader.
    return yaml.load(text, _Loader if aliases else _WithoutAliases)  # noqa: S506
