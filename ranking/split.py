"""Free text to sentences: what a generated text claims, and what a source says."""

from __future__ import annotations


def split_sentences(text: str) -> list[str]:
    """Sentences of a text, stripped, in their order.

    A line break always ends a sentence: notes are written in lines, and a list item has no full stop. Lines
    without a letter or a digit, such as rules of dashes, are left out.
    """
    import sentencex

    found: list[str] = []
    for line in text.splitlines():
        if any(character.isalnum() for character in line):
            found += (sentence.strip() for sentence in sentencex.segment("en", line.strip()))
    return [sentence for sentence in found if any(character.isalnum() for character in sentence)]
