"""As many abstracts as a benchmark needs, made of few: repeated, with every copy different."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from cases.documents import Document
from cases.formats.document_files import find_documents, reader_of
from evals.bench.benchmark import BenchError
from storage.files import Meter, json_bytes

_EXCHANGED = 0.1
_LEFT_OUT = 0.02
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def base_documents(data: Path | None) -> list[Document]:
    """The documents of a file or folder; without one, the invented abstracts of this package.

    Raises:
        BenchError: It holds none.
        InputError: It cannot be read.
    """
    if data is None:
        packaged = resources.files("cases").joinpath("samples", "health", "literature.jsonl")
        with resources.as_file(packaged) as path:
            return _read(path)
    return _read(data)


def _read(path: Path) -> list[Document]:
    found = [
        item
        for file in find_documents([path])
        for item in reader_of(file)(file, 0, Meter())
        if isinstance(item, Document)
    ]
    unique = list({document.id: document for document in found}.values())
    if not unique:
        raise BenchError(f"no document in {path}")
    return unique


def repeated(base: Sequence[Document], count: int) -> Iterator[Document]:
    """`count` documents: those of `base` as they are, then copies of them with other words.

    In a copy, every tenth word is replaced by one of another document and every fiftieth is left out; every
    second copy has a word that no other has, so that the vocabulary grows too.
    """
    pool = [word for document in base for word in document.text.split()]
    for number in range(count):
        document = base[number % len(base)]
        copy = number // len(base)
        if copy == 0:
            yield document
        else:
            draw = random.Random(number)  # noqa: S311 - the same documents on every machine
            text = _perturbed(document.text, pool, draw)
            yield replace(document, id=f"{document.id}-{copy}", text=text)


def _perturbed(text: str, pool: Sequence[str], draw: random.Random) -> str:
    words = text.split()
    for place in draw.sample(range(len(words)), round(len(words) * _EXCHANGED)):
        words[place] = draw.choice(pool)
    for place in draw.sample(range(len(words)), round(len(words) * _LEFT_OUT)):
        words[place] = ""
    if draw.random() < 0.5:
        words.append("".join(draw.choices(_LETTERS, k=9)))
    return " ".join(filter(None, words))


def write_abstracts(path: Path, documents: Iterator[Document]) -> Path:
    """As JSON lines."""
    with path.open("wb") as file:
        for document in documents:
            fields = {name: getattr(document, name) for name in Document.__slots__}
            file.write(json_bytes({name: value for name, value in fields.items() if value not in (None, "")}))
    return path


def questions(base: Sequence[Document], count: int) -> list[str]:
    """Titles, or first sentences without a title, spread over the documents."""
    texts = [document.title or document.text.split(". ")[0] for document in base]
    step = max(1, len(texts) // count)
    return list(itertools.islice(itertools.cycle(texts[::step]), count))
