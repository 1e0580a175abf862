"""Evidence rankers behind one protocol."""
