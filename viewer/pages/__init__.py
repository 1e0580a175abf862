"""One file per page: its data, read from a run, and its HTML."""
