"""Weights of local models: sources, folders, loading."""
