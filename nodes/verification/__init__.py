"""Whether each sentence of an answer is stated in its record, and what is done with one that is not."""
