"""What is searched: demonstrations, corpora, indexes of vectors and their stores, embedders."""
