"""Scores of answers of yes, no or unknown, and how they change with what is counted."""
