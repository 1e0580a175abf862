"""Hostile files, servers and requests, drawn from seeds."""
