"""NLTK data of a few lines, so that its real readers run without its downloads."""

from __future__ import annotations

from pathlib import Path


def save_punkt(folder: Path) -> Path:
    """A `punkt_tab` that knows one abbreviation; the folder is one for `nltk.data.path`."""
    english = folder / "tokenizers" / "punkt_tab" / "english"
    english.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "ortho_context.tab"):
        (english / name).touch()
    (english / "abbrev_types.txt").write_text("dr\n")
    return folder


def save_stopwords(folder: Path) -> Path:
    """A list of stopwords with one word; the folder is one for `nltk.data.path`."""
    words = folder / "corpora" / "stopwords"
    words.mkdir(parents=True)
    (words / "english").write_text("the\n")
    return folder
