"""Answers whose sentences cite the note: written from retrieved sentences, checked, attributed."""
