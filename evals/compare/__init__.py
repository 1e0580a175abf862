"""Two runs on the same cases: what differs, and whether it is more than chance."""
