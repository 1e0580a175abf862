from __future__ import annotations

import re

import pytest

from graph.system import find_system, systems

EDGE = re.compile(r"^\t(\w+) (?:-->|-\.->|-\. .* \.->) (\w+);$", re.MULTILINE)


@pytest.mark.parametrize("system", systems())
def test_every_edge_of_a_graph_is_drawn(system: str) -> None:
    graph = find_system(system).drawn
    drawn = set(EDGE.findall(graph.draw_mermaid()))
    assert drawn == {(edge.source, edge.target) for edge in graph.edges}


@pytest.mark.parametrize("system", systems())
def test_every_node_has_a_way_in_and_a_way_out(system: str) -> None:
    drawn = EDGE.findall(find_system(system).drawn.draw_mermaid())
    nodes = {node.name for node in find_system(system).nodes}
    assert nodes <= {source for source, _ in drawn}
    assert nodes <= {target for _, target in drawn}
