"""One file a page: what it shows, read from a run, and its HTML."""
