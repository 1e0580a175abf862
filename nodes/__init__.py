"""Graph nodes: one file a node, named by a verb."""
