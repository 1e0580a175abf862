"""Statements known to be right or wrong of a record, and how well checks tell them apart."""
