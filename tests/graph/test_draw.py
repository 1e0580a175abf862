from __future__ import annotations

import re

from graph.system import draw_mermaid
from tests.graph.routes import GRAPH

HANDLER = "__error_handler__reflect_on_labels"
EDGE = re.compile(r"^\t(\w+) (?:-->|-\.->|-\. .* \.->) (\w+);$", re.MULTILINE)


def test_every_edge_of_the_graph_is_drawn() -> None:
    drawn = set(EDGE.findall(draw_mermaid(GRAPH)))
    edges = {(edge.source, edge.target) for edge in GRAPH.get_graph().edges}
    assert drawn == edges | {
        ("reflect_on_labels", HANDLER),
        (HANDLER, "check_votes"),
        (HANDLER, "aggregate_votes"),
    }


def test_every_node_has_a_way_in_and_a_way_out() -> None:
    drawn = EDGE.findall(draw_mermaid(GRAPH))
    nodes = {*GRAPH.builder.nodes}
    assert nodes <= {source for source, _ in drawn}
    assert nodes <= {target for _, target in drawn}
