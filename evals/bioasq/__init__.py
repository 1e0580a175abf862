"""BioASQ's measures of documents, snippets and answers, and scores of runs and submissions by them."""
