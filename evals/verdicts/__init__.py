"""Scores of answers of yes, no or unknown, and how they change with the counted questions."""
