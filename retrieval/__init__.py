"""Searchable collections: demonstrations, corpora, vector indexes and their stores, embedders."""
