"""Scores of the shared tasks, with the definitions of their official scorers."""
