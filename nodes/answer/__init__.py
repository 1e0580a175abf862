"""Answers: written, checked, cited, aligned, exact."""
