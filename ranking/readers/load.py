"""Labelled sentences from files of any known format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from cases.definitions import Section
from cases.formats.json_border import Identifier, Line, not_empty
from cases.formats.json_lines import JsonLine, json_lines_named, read_json_lines
from cases.records import LabelSource
from cases.texts import json_sha256, plural
from ranking.examples import Example
from ranking.readers.archehr import ArchehrOptions, read_archehr
from ranking.readers.evidence_inference import (
    ARTICLES,
    PROMPTS,
    EvidenceInferenceOptions,
    read_evidence_inference,
)
from ranking.readers.scifact import CLAIMS, CORPUS, ScifactOptions, read_scifact
from storage.errors import InputError


class JsonlOptions(Section):
    """Plain JSON lines leave nothing open."""

    reader: Literal["jsonl"] = "jsonl"


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: Identifier
    query: Annotated[Line, AfterValidator(not_empty)]
    sentences: list[Line]
    labels: list[bool] | None = None
    evidence: list[int] | None = None
    document_id: Identifier | None = None
    group: Identifier | None = None
    label_source: LabelSource = "gold"


def read_plain_jsonl(path: Path) -> Iterator[Example]:
    """Make an example of each line.

    A line has `id`, `query`, `sentences` (a list of texts), and either `labels` (0 or 1 for each sentence) or
    `evidence` (positions from 0), or neither where unlabelled. `document_id` is by default the same
    for equal lists of sentences, `group` is by default the document, `label_source` is `gold` or `weak`.

    Raises:
        InputError: The file cannot be read or is empty, or a line is wrong.
    """
    empty = True
    for line in read_json_lines(path):
        empty = False
        yield _example(line, line.read_as(_Line, known=True))
    if empty:
        raise InputError(path, "no example in it", "Put one JSON object on each line")


def _example(line: JsonLine, fields: _Line) -> Example:
    if not fields.sentences:
        raise line.fault("sentences: is empty", "Leave the line out")
    document_id = fields.document_id or json_sha256(fields.sentences)[:16]
    return Example(
        id=fields.id,
        query=fields.query,
        sentences=tuple(fields.sentences),
        labels=_labels(line, fields),
        document_id=document_id,
        group=fields.group or document_id,
        label_source=fields.label_source,
    )


def _labels(line: JsonLine, fields: _Line) -> tuple[bool, ...] | None:
    size = len(fields.sentences)
    if fields.labels is not None and fields.evidence is not None:
        raise line.fault("labels and evidence: both are given", "Keep one of them")
    if fields.labels is not None:
        if len(fields.labels) != size:
            raise line.fault(
                f"labels: {len(fields.labels)} for {plural(size, 'sentence')}", "Give one for each"
            )
        return tuple(fields.labels)
    if fields.evidence is None:
        return None
    beyond = next((position for position in fields.evidence if not 0 <= position < size), None)
    if beyond is not None:
        raise line.fault(f"evidence: sentence {beyond} of {size}, counted from 0")
    evidence = set(fields.evidence)
    return tuple(position in evidence for position in range(size))


ReaderName = Literal["scifact", "evidence_inference", "archehr", "jsonl"]
ReaderOptions = Annotated[
    ScifactOptions | EvidenceInferenceOptions | ArchehrOptions | JsonlOptions, Field(discriminator="reader")
]
"""A reader with its options, by name."""

_OPTIONS: TypeAdapter[ReaderOptions] = TypeAdapter(ReaderOptions)
_REMEDY = f"Name the reader: one of {', '.join(get_args(ReaderName))}"
_SIGNS: tuple[tuple[str, ReaderName], ...] = (
    ("claim", "scifact"),
    ("prompt_id", "evidence_inference"),
    ("case_id", "archehr"),
    ("query", "jsonl"),
)
"""A field that every line of a format has, and none of the others."""


def load_examples(paths: Sequence[Path], reader: ReaderOptions | ReaderName | None = None) -> list[Example]:
    """Read examples in the order of the paths.

    Raises:
        InputError: A path is missing, damaged or of no known format; two examples have one id; examples of
            one document differ in its sentences; or none of the labelled sentences is evidence.
    """
    if not paths:
        raise InputError("examples", "no file was given")
    options = _OPTIONS.validate_python({"reader": reader}) if isinstance(reader, str) else reader
    found: dict[str, tuple[Path, Example]] = {}
    documents: dict[str, Example] = {}
    for path, example in _read(paths, options):
        if example.id in found:
            other = f" and in {found[example.id][0]}" if found[example.id][0] != path else ""
            raise InputError(path, f"example id {example.id!r} is used twice{other}", "Keep one of them")
        found[example.id] = (path, example)
        same = documents.setdefault(example.document_id, example)
        if same.sentences != example.sentences:
            fault = f"examples {same.id!r} and {example.id!r} are of document {example.document_id!r}"
            raise InputError(path, f"{fault} and have other sentences", "Give them ids of their own")
    examples = [example for _, example in found.values()]
    names = ", ".join(map(str, paths))
    if not examples:
        raise InputError(names, "no example in it: no query has evidence")
    labels = [label for example in examples for label in example.labels or ()]
    if labels and not any(labels):
        raise InputError(names, f"none of the {len(labels)} labelled sentences is evidence: nothing to learn")
    return examples


def _read(paths: Sequence[Path], options: ReaderOptions | None) -> Iterator[tuple[Path, Example]]:
    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None:
        raise InputError(missing, "no such file or folder")
    if isinstance(options, ArchehrOptions):
        # Together, since one key may be of cases in several files.
        yield from ((paths[0], example) for example in read_archehr(paths, options))
        return
    for path in paths:
        for file, known in [(path, options)] if options else _recognised(path):
            yield from ((file, example) for example in _read_as(file, known))


def _read_as(path: Path, options: ReaderOptions) -> Iterator[Example]:
    match options:
        case ScifactOptions():
            return read_scifact(path, options)
        case EvidenceInferenceOptions():
            return read_evidence_inference(path, options)
        case ArchehrOptions():
            return read_archehr([path], options)
        case JsonlOptions():
            return read_plain_jsonl(path)


def _recognised(path: Path) -> list[tuple[Path, ReaderOptions]]:
    if not path.is_dir():
        return [(path, _options_of_file(path))]
    if json_lines_named(path, CLAIMS) and json_lines_named(path, CORPUS):
        return [(path, ScifactOptions())]
    if json_lines_named(path, PROMPTS) and json_lines_named(path, ARTICLES):
        return [(path, EvidenceInferenceOptions())]
    files = sorted([*path.glob("[!.]*.xml"), *json_lines_named(path, "")])
    if not files:
        raise InputError(path, "no .xml, .jsonl or .jsonl.gz file in this folder")
    return [(file, _options_of_file(file)) for file in files]


def _options_of_file(path: Path) -> ReaderOptions:
    if path.suffix.lower() == ".xml":
        return ArchehrOptions()
    line = next(read_json_lines(path), None)
    if line is None:
        raise InputError(path, "is empty", "Put one JSON object on each line")
    name = next((name for field, name in _SIGNS if field in line.fields), None)
    if name is None:
        fields = ", ".join(sorted(line.fields)) or "none"
        raise InputError(path, f"not of a known format: the fields of its first line are {fields}", _REMEDY)
    return _OPTIONS.validate_python({"reader": name})
