"""Retrieval for a question: demonstrations, sentences, documents, snippets."""
