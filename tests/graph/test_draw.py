from __future__ import annotations

import re

from tests.graph.routes import GRAPH

EDGE = re.compile(r"^\t(\w+) (?:-->|-\.->|-\. .* \.->) (\w+);$", re.MULTILINE)


def test_every_edge_of_the_graph_is_drawn() -> None:
    drawn = set(EDGE.findall(GRAPH.get_graph().draw_mermaid()))
    assert drawn == {(edge.source, edge.target) for edge in GRAPH.get_graph().edges}


def test_every_node_has_a_way_in_and_a_way_out() -> None:
    drawn = EDGE.findall(GRAPH.get_graph().draw_mermaid())
    nodes = {*GRAPH.builder.nodes}
    assert nodes <= {source for source, _ in drawn}
    assert nodes <= {target for _, target in drawn}
