"""Kinds of documents that differ as the domains of a collection do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from evals.studies.errors import StudyError
from ranking.examples import Example
from ranking.readers.evidence_inference import PROMPTS, EvidenceInferenceOptions
from ranking.readers.json_lines import json_lines_named, read_json_lines
from ranking.readers.load import load_examples
from ranking.readers.scifact import CORPUS


class _Abstract(BaseModel):
    doc_id: int | str
    structured: bool


def structured_documents(paths: Sequence[Path]) -> dict[str, bool]:
    """Which abstracts of SciFact have headings, by the id of the document.

    Raises:
        InputError: A corpus cannot be read or does not say so.
        StudyError: No path is a folder with a corpus.
    """
    corpora = [file for path in paths if path.is_dir() for file in json_lines_named(path, CORPUS)]
    if not corpora:
        raise StudyError(
            f"domains by `structured` need SciFact's {CORPUS}.jsonl, which tells abstracts with headings:"
            " give its folder as --data"
        )
    read = (line.read_as(_Abstract) for path in corpora for line in read_json_lines(path))
    return {str(abstract.doc_id): abstract.structured for abstract in read}


def read_pretraining(paths: Sequence[Path], window: int | None) -> list[Example]:
    """Examples of the pre-training data.

    Args:
        paths: As `load_examples` takes them.
        window: Articles of Evidence Inference are cut to as many sentences around evidence; None reads their
            abstracts. Other formats are taken as they are.

    Raises:
        InputError: A path cannot be read.
    """
    found: list[Example] = []
    for path in paths:
        options = None
        if path.is_dir() and json_lines_named(path, PROMPTS):
            part = "abstract" if window is None else "article"
            options = EvidenceInferenceOptions(part=part, max_sentences=window)
        found += load_examples([path], options)
    return found
