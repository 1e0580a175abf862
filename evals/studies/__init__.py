"""Studies: rankers trained in a grid of recipes and seeds, and the tables that come of them."""
