"""Sessions of a run: assembly, scheduler, one case through its graph."""
