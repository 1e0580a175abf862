"""Key files: labels, clinicians' answers and their citations, as ArchEHR-QA publishes them or in a table."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ValidationError

from cases.formats.json_border import Identifier, IntentFields, Text, fault, first_fault, intent_fields
from cases.formats.table_key import table_key_entries
from cases.formats.tables import TABLE_SUFFIXES
from cases.records import AnswerSentence, Gold, Label, LabelSource
from storage import unique_keys
from storage.errors import InputError
from storage.files import json_bytes, whole, write_atomically

_RANGE = re.compile(r"([0-9]+)\s*[-\u2013]\s*([0-9]+)")
_MAX_RANGE = 10_000
_MAX_BYTES = 1 << 26
"""Keys of a hundred cases take some hundred thousand."""
_INLINE = re.compile(r"\s*\[\s*[0-9]+(?:\s*[-\u2013,;]\s*[0-9]+)*\s*\]")


def read_archehr_key(path: Path) -> dict[str, Gold]:
    """Read the key of each case in `path`; missing, null and empty parts are None.

    Raises:
        InputError: the file is neither a table of labels (`.csv`, `.tsv`) nor a JSON array of cases, names a
            case twice, or a field of one is wrong.
    """
    gold: dict[str, Gold] = {}
    for number, entry in enumerate(_entries(path)):
        try:
            fields = _KeyEntry.model_validate(entry)
        except ValidationError as error:
            raise InputError(path, f"{_name(entry, number)}: {first_fault(error)}") from error
        if fields.case_id in gold:
            remedy = "Keep one entry for each case"
            raise InputError(path, f"case {fields.case_id!r}: case_id is used twice", remedy)
        try:
            gold[fields.case_id] = fields.record()
        except ValueError as error:
            raise InputError(path, f"case {fields.case_id!r}: {error}") from error
    return gold


def write_archehr_key(path: Path, gold: Mapping[str, Gold]) -> None:
    """Write `gold` as a key file, citations as comma-joined text as released keys have them.

    Raises:
        InputError: a citation's id has a comma, blanks around it or the form of a range.
    """
    for case_id, entry in gold.items():
        for sentence in entry.answer_sentences or ():
            for cited in sentence.citations or ():
                if _citations(cited) != (cited,):
                    place = f"case {case_id!r}: answer sentence {sentence.id!r}"
                    raise InputError(path, f"{place}: citation {cited!r} would be read as something else")
    entries = [_entry(case_id, entry) for case_id, entry in gold.items()]
    write_atomically(path, [json_bytes(entries, indent=2)])


def _citations(value: object) -> tuple[str, ...] | None:
    """Read citations in any published form: text, number or list, with ranges; null means none given."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | list):
        raise fault(f"{reprlib.repr(value)} is not a list of ids")
    items = value if isinstance(value, list) else [value]
    ids: dict[str, None] = {}
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise fault(f"{reprlib.repr(item)} is not the id of a sentence")
        for part in str(item).split(","):
            ids.update(dict.fromkeys(_expanded(part.strip())))
    return tuple(ids)


def _expanded(part: str) -> Iterable[str]:
    bounds = _RANGE.fullmatch(part)
    if bounds is None:
        return (part,) if part else ()
    first, last = int(bounds[1]), int(bounds[2])
    if not 0 <= last - first < _MAX_RANGE:
        raise fault(f"{part!r} is not a range of sentence ids")
    return map(str, range(first, last + 1))


class _Relevance(BaseModel):
    sentence_id: Identifier
    relevance: Label


class _AnswerSentence(BaseModel):
    id: Identifier
    text: Text
    citations: Annotated[tuple[Identifier, ...] | None, BeforeValidator(_citations)] = None

    def record(self) -> AnswerSentence:
        return AnswerSentence(self.id, self.text, self.citations)


class _KeyEntry(BaseModel):
    case_id: Identifier
    answers: list[_Relevance] | None = None
    clinician_answer: Text | None = None
    clinician_answer_without_citations: Text | None = None
    clinician_answer_sentences: list[_AnswerSentence] | None = None
    intent: IntentFields | None = None
    label_source: LabelSource = "gold"

    def record(self) -> Gold:
        inline = _INLINE.sub("", self.clinician_answer or "").strip()
        labels = self._labels() or None
        return Gold(
            labels=labels,
            answer=self.clinician_answer_without_citations or inline or None,
            answer_sentences=tuple(s.record() for s in self.clinician_answer_sentences or ()) or None,
            intent=self.intent.record() if self.intent else None,
            label_source=self.label_source if labels else "gold",
        )

    def _labels(self) -> dict[str, Label]:
        labels: dict[str, Label] = {}
        for number, answer in enumerate(self.answers or ()):
            if labels.setdefault(answer.sentence_id, answer.relevance) != answer.relevance:
                place = f"answers[{number}].relevance: sentence {answer.sentence_id!r}"
                raise ValueError(f"{place} is {answer.relevance} here and {labels[answer.sentence_id]} above")
        return labels


def _entries(path: Path) -> Sequence[object]:
    content = whole(path, _MAX_BYTES)
    if path.suffix.lower() in TABLE_SUFFIXES:
        return table_key_entries(path, content)
    try:
        entries = unique_keys.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(path, f"byte {error.start + 1} is not UTF-8", "Save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(path, f"{place}: {error.msg}", "Correct the JSON") from error
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"cannot be read as JSON: {error}") from error
    if not isinstance(entries, list):
        kind = type(entries).__name__
        raise InputError(path, f"its top level is not an array but {kind}", "A key is a list of cases")
    return entries


def _name(entry: object, number: int) -> str:
    if isinstance(entry, dict) and isinstance(case_id := entry.get("case_id"), str | int):
        return f"case {str(case_id)!r}"
    return f"entry {number + 1}"


def _entry(case_id: str, gold: Gold) -> dict[str, object]:
    sentences = gold.answer_sentences
    entry: dict[str, object] = {"case_id": case_id}
    if gold.answer and sentences:
        entry["clinician_answer"] = " ".join(map(_with_citations, sentences))
    if gold.answer:
        entry["clinician_answer_without_citations"] = gold.answer
    if sentences:
        entry["clinician_answer_sentences"] = [_sentence_fields(sentence) for sentence in sentences]
    if gold.labels:
        labels = gold.labels.items()
        entry["answers"] = [{"sentence_id": id_, "relevance": label} for id_, label in labels]
        # Official scorers pass over fields that they do not know.
        if gold.label_source == "weak":
            entry["label_source"] = "weak"
    if gold.intent:
        entry["intent"] = intent_fields(gold.intent)
    return entry


def _sentence_fields(sentence: AnswerSentence) -> dict[str, str]:
    fields = {"id": sentence.id, "text": sentence.text}
    return fields if sentence.citations is None else fields | {"citations": ",".join(sentence.citations)}


def _with_citations(sentence: AnswerSentence) -> str:
    if not sentence.citations:
        return sentence.text
    text = sentence.text.rstrip(".!?")
    return f"{text} [{','.join(sentence.citations)}]{sentence.text[len(text) :]}"
