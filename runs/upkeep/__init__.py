"""Checks of a run folder, calls left in batches, and purges."""
