"""Weights of local models: where they come from, where they lie, how they are loaded."""
