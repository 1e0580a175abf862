"""Grids of runs over one data set, and the tables that come of them."""
