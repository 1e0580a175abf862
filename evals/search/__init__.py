"""How well documents are found and put in order, and what rerankers learn from."""
