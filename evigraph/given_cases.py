"""Cases as Python programs have them: dicts, and objects with the same fields."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from cases.formats.note_files import note_case
from cases.formats.plain_jsonl import case_of
from cases.records import Case
from storage.errors import InputError

CaseLike = Case | Mapping[str, Any] | object
"""A case, or a dict or object with the fields of a line of a JSONL case file.

`note`, a text, may take the place of `sentences`; without a `case_id` a case is named by its content.
"""


def as_case(given: CaseLike) -> Case:
    """The case that a program means.

    Raises:
        InputError: A field is missing, unknown or wrong.
    """
    if isinstance(given, Case):
        return given
    fields = _fields(given)
    if "case_id" not in fields:
        content = json.dumps(fields, sort_keys=True, default=str)
        fields["case_id"] = f"case-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    if (note := fields.pop("note", None)) is not None:
        if "sentences" in fields:
            raise InputError("case", "it has both a note and sentences", "Give one of them")
        sentences = note_case(fields["case_id"], "", note, "note").sentences
        fields["sentences"] = [{"id": one.id, "text": one.text} for one in sentences]
    return case_of(fields)


def _fields(given: object) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, BaseModel):
        return given.model_dump(exclude_none=True)
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return dataclasses.asdict(given)
    if hasattr(given, "__dict__"):
        return dict(vars(given))
    kind = type(given).__name__
    raise InputError("case", f"a {kind} is not a case", "Give a dict with question and sentences or note")
