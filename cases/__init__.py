"""The domain: cases, sentences, labels, answers, and the file formats they come in."""
