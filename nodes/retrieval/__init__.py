"""What is found for a question: demonstrations, sentences, documents, snippets."""
