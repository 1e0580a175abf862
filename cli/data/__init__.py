"""Commands for data and rankers."""
