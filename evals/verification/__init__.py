"""A verified text as a page and as JSON."""
