"""What a run records of its graph."""

from __future__ import annotations

from runs.case_run import Graph
from runs.manifest import Edge, GraphShape


def graph_shape(graph: Graph) -> GraphShape:
    """Nodes and edges, START and END among them."""
    drawable = graph.get_graph()
    return GraphShape(
        nodes=list(drawable.nodes),
        edges=[
            Edge(source=edge.source, target=edge.target, conditional=edge.conditional)
            for edge in drawable.edges
        ],
    )
