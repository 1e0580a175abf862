"""Evidence Inference 2.0 (Lehman et al. 2019, DeYoung et al. 2020): questions on full-text trials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, BaseModel, Field

from cases.definitions import Section
from cases.formats.json_border import Identifier, Line, not_empty
from cases.formats.json_lines import JsonLine, UsedIds, read_json_lines, the_one_named
from cases.texts import json_sha256, one_line
from ranking.examples import Example
from storage.errors import InputError

_HEADING = re.compile(
    r"^[^\n]{0,40}?(?P<part>TITLE|ABSTRACT|BODY)(?:\.(?P<name>[^\n]*?))?:{1,2}[ \t]*$", re.MULTILINE
)
_MAX_CHARACTERS = 400
"""Characters. Nearly all that is longer is a table, whose rows would otherwise be one sentence."""


@dataclass(frozen=True, slots=True)
class ArticleSentence:
    """A sentence with its place.

    Attributes:
        start: First character in the article; `end` is behind the last.
        part: `title`, `abstract` or `body`.
        text: On one line.
    """

    start: int
    end: int
    part: str
    text: str


def split_article(text: str) -> tuple[ArticleSentence, ...]:
    """Split an article into the sentences of its sections; headings are none.

    Sentences longer than 400 characters, mostly tables, are split at line ends.
    """
    return tuple(
        sentence
        for part, start, end in _sections(text)
        for sentence in _sentences(text, part, start, end)
        if sentence.text
    )


def _sections(text: str) -> Iterator[tuple[str, int, int]]:
    part, start = "body", 0
    for heading in _HEADING.finditer(text):
        yield part, start, heading.start()
        part, start = heading["part"].lower(), heading.end()
    yield part, start, len(text)


def _sentences(text: str, part: str, start: int, end: int) -> Iterator[ArticleSentence]:
    from sentencex import get_sentence_boundaries

    for boundary in get_sentence_boundaries("en", text[start:end]):
        first, last = start + boundary["start_index"], start + boundary["end_index"]
        for begin, behind in _pieces(text, first, last):
            yield ArticleSentence(begin, behind, part, one_line(text[begin:behind]))


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Whole lines, as many as fit, without blanks at either side; a single long line stays whole."""
    begin = behind = start
    for line in text[start:end].splitlines(keepends=True):
        if behind > begin and behind + len(line) - begin > _MAX_CHARACTERS:
            yield _stripped(text, begin, behind)
            begin = behind
        behind += len(line)
    yield _stripped(text, begin, behind)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


PROMPTS = "prompts"
ARTICLES = "ei2_fulltext"


class EvidenceInferenceOptions(Section):
    """How Evidence Inference is read.

    Attributes:
        articles: The full texts; None for the `ei2_fulltext*.jsonl` next to the prompts.
        split: Which questions, by the data set's own split; None for all.
        part: `abstract` leaves title and body out; their evidence with them. Three articles in a hundred call
            all their sections so: `max_sentences` bounds those too.
        max_sentences: Longest document; None for whole articles. A longer one is cut to neighbouring
            sentences around one evidence sentence, at a random position among them.
    """

    reader: Literal["evidence_inference"] = "evidence_inference"
    articles: Path | None = None
    split: Literal["train", "validation", "test"] | None = None
    part: Literal["article", "abstract"] = "article"
    max_sentences: int | None = Field(None, ge=1)
    seed: int = 0


_Words = Annotated[Line, AfterValidator(not_empty)]


class _Annotation(BaseModel):
    start: int
    end: int
    valid_label: bool = True
    valid_reasoning: bool = True
    offset_ok: bool = True


class _Prompt(BaseModel):
    prompt_id: Identifier
    pmcid: Identifier
    split: str | None = None
    intervention: _Words
    comparator: _Words
    outcome: _Words
    annotations: list[_Annotation]


class _Article(BaseModel):
    pmcid: Identifier
    text: str


class _SplitArticle(NamedTuple):
    length: int
    sentences: tuple[ArticleSentence, ...]


def read_evidence_inference(path: Path, options: EvidenceInferenceOptions) -> Iterator[Example]:
    """Make an example of each question with evidence.

    Evidence is every sentence that a valid span overlaps; a span is valid if the data set's verifiers
    confirmed label and reasoning. Questions without such a sentence are left out, as its absence is not
    annotated. Examples are of the group of their article; `sentence_ids` are character offsets into it,
    `start-end`.

    Raises:
        InputError: A file is missing or damaged, an id is used twice or unknown, or a span is outside its
            article.
    """
    prompts = the_one_named(path, PROMPTS) if path.is_dir() else path
    articles_path = options.articles or the_one_named(prompts.parent, ARTICLES)
    wanted = list(_read_prompts(prompts, options.split))
    articles = _read_articles(articles_path, {prompt.pmcid for _, prompt in wanted}, options.part)
    for line, prompt in wanted:
        if prompt.pmcid not in articles:
            raise line.fault(f"pmcid: article {prompt.pmcid!r} is not in {articles_path}")
        example = _example(line, prompt, articles[prompt.pmcid], options)
        if example is not None:
            yield example


def _read_prompts(path: Path, split: str | None) -> Iterator[tuple[JsonLine, _Prompt]]:
    seen = UsedIds()
    found = False
    for line in read_json_lines(path):
        prompt = line.read_as(_Prompt)
        seen.add(line, "prompt_id", prompt.prompt_id)
        if split in (None, prompt.split):
            found = True
            yield line, prompt
    if not found:
        raise InputError(path, f"no question of the split {split!r} in it" if seen else "no question in it")


def _read_articles(path: Path, wanted: set[str], part: str) -> dict[str, _SplitArticle]:
    articles: dict[str, _SplitArticle] = {}
    seen = UsedIds()
    for line in read_json_lines(path):
        article = line.read_as(_Article)
        seen.add(line, "pmcid", article.pmcid)
        if article.pmcid in wanted:
            sentences = split_article(article.text)
            kept = tuple(sentence for sentence in sentences if part in ("article", sentence.part))
            articles[article.pmcid] = _SplitArticle(len(article.text), kept)
    return articles


def _example(
    line: JsonLine, prompt: _Prompt, article: _SplitArticle, options: EvidenceInferenceOptions
) -> Example | None:
    spans = _valid_spans(line, prompt, article.length)
    labels = [
        any(start < sentence.end and sentence.start < end for start, end in spans)
        for sentence in article.sentences
    ]
    evidence = [position for position, label in enumerate(labels) if label]
    if not evidence:
        return None
    first, last = _window(evidence, len(labels), options.max_sentences, options.seed, prompt.prompt_id)
    sentences = article.sentences[first:last]
    accession = f"PMC{prompt.pmcid.removeprefix('PMC')}"
    return Example(
        id=f"{accession}/{prompt.prompt_id}",
        query=f"What is the effect of {prompt.intervention} compared with {prompt.comparator}"
        f" on {prompt.outcome}?",
        sentences=tuple(sentence.text for sentence in sentences),
        labels=tuple(labels[first:last]),
        document_id=f"{accession}:{options.part}:{first}-{last}",
        group=accession,
        sentence_ids=tuple(f"{sentence.start}-{sentence.end}" for sentence in sentences),
    )


def _valid_spans(line: JsonLine, prompt: _Prompt, length: int) -> list[tuple[int, int]]:
    spans = []
    for number, annotation in enumerate(prompt.annotations):
        if not (annotation.valid_label and annotation.valid_reasoning and annotation.offset_ok):
            continue
        if not 0 <= annotation.start < annotation.end <= length:
            place = f"annotations[{number}]: characters {annotation.start} to {annotation.end}"
            raise line.fault(f"{place} of an article of {length}", "Give the articles of these very prompts")
        spans.append((annotation.start, annotation.end))
    return spans


def _window(
    evidence: Sequence[int], size: int, longest: int | None, seed: int, prompt_id: str
) -> tuple[int, int]:
    if longest is None or size <= longest:
        return 0, size
    generator = np.random.default_rng(int(json_sha256([seed, prompt_id]), 16))
    anchor = evidence[int(generator.integers(len(evidence)))]
    # Anywhere in the window, or its middle would give the evidence away.
    first = anchor - int(generator.integers(longest))
    first = min(max(first, 0), size - longest)
    return first, first + longest
