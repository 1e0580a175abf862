"""Everything outside the process: chat models, embeddings, Chroma, the call journal."""
