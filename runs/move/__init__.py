"""Runs that are merged, pushed, pulled, or written on a scratch disk."""
