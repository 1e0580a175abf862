"""Commands that show runs and systems."""
