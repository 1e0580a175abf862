"""Grids of runs over one data set, and their tables."""
