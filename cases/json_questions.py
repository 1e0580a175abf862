"""Case files that end in `.json`: which data set they are of is told by what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from cases.bioasq_json import bioasq_cases, is_bioasq
from cases.errors import InputError
from cases.files import opened
from cases.pubmedqa import pubmedqa_cases
from cases.records import Case, InvalidCase


def read_json_questions(path: Path) -> Iterator[Case | InvalidCase]:
    """Read the questions of `path` in file order: BioASQ's under `questions`, else PubMedQA's by their ids.

    Raises:
        InputError: The file cannot be read, is no JSON, or is no set of questions.
    """
    content = read_json(path)
    yield from bioasq_cases(path, content) if is_bioasq(content) else pubmedqa_cases(path, content)


def read_json(path: Path) -> object:
    """The content of a JSON file.

    Raises:
        InputError: The file cannot be read or is no JSON.
    """
    with opened(path) as file:
        content = file.read()
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"cannot be read as JSON: {error}") from None
