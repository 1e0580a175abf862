"""Passages read one by one, and the verdict they come to."""
