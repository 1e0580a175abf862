"""Metrics of one text against another, as the official scorers compute them."""
