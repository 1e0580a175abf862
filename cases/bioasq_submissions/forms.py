"""The JSON form of a question in a submission: checked, written and read."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from cases.bioasq_submissions.prediction import (
    MOST_DOCUMENTS,
    MOST_SNIPPETS,
    BioasqPrediction,
    BioasqTask,
)
from cases.biomedical import Snippet, document_id, pubmed_address
from cases.submissions.fault import Fault

SECTIONS = ("beginSection", "endSection")
OFFSETS = ("offsetInBeginSection", "offsetInEndSection")


def form_faults(entry: object, number: int) -> list[Fault]:
    """What keeps an entry from being read at all, the fields of every phase together."""
    if not isinstance(entry, Mapping):
        return [_refused(None, f"question {number}", "not an object", 'Write {"id": ..., ...}')]
    id_ = entry.get("id")
    if not isinstance(id_, str) or not id_.strip():
        return [_refused(None, f"question {number}", "no id", "Copy the id of the question")]
    return [*_faults_of_fields(id_, entry)]


def entry_of(prediction: BioasqPrediction, task: BioasqTask) -> dict[str, Any]:
    """Write a prediction. Rankings are cut at their limit; of synonyms the first is kept, as no others count.

    Answers are written as they are, however long.
    """
    if task == "bioasq-a":
        return {
            "id": prediction.id,
            "documents": [pubmed_address(one) for one in (prediction.documents or ())[:MOST_DOCUMENTS]],
            "snippets": [_snippet_fields(one) for one in (prediction.snippets or ())[:MOST_SNIPPETS]],
        }
    entry: dict[str, Any] = {"id": prediction.id}
    if isinstance(prediction.exact_answer, str):
        entry["exact_answer"] = prediction.exact_answer
    elif prediction.exact_answer is not None:
        entry["exact_answer"] = [list(synonyms[:1]) for synonyms in prediction.exact_answer]
    if prediction.ideal_answer is not None:
        entry["ideal_answer"] = prediction.ideal_answer
    return entry


def prediction_of(entry: Mapping[str, Any]) -> BioasqPrediction:
    """Read an entry that `form_faults` finds nothing wrong with; plain texts are entries of one synonym."""
    documents, snippets, exact = (entry.get(name) for name in ("documents", "snippets", "exact_answer"))
    if isinstance(exact, list):
        exact = tuple((item,) if isinstance(item, str) else tuple(item) for item in exact)
    ideal = entry.get("ideal_answer")
    return BioasqPrediction(
        id=entry["id"].strip(),
        documents=None if documents is None else tuple(dict.fromkeys(map(document_id, documents))),
        snippets=None if snippets is None else tuple(map(_snippet, snippets)),
        exact_answer=exact,
        ideal_answer=" ".join(ideal) if isinstance(ideal, list) else ideal,
    )


def _snippet(fields: Mapping[str, Any]) -> Snippet:
    (section, last), (begin, end) = (map(fields.get, names) for names in (SECTIONS, OFFSETS))
    if last != section or begin is None or end is None:
        begin = end = None
    return Snippet(document_id(fields["document"]), fields["text"], section or "", begin, end)


def _snippet_fields(snippet: Snippet) -> dict[str, Any]:
    return {
        "document": pubmed_address(snippet.document),
        "text": snippet.text,
        **dict.fromkeys(SECTIONS, snippet.section),
        **dict(zip(OFFSETS, (snippet.begin, snippet.end), strict=True)),
    }


def _faults_of_fields(id_: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    if not _is_texts(entry.get("documents") or []):
        yield _refused(id_, "documents", "not a list of addresses", "Write addresses as texts")
    snippets = entry.get("snippets") or []
    if not isinstance(snippets, list):
        yield _refused(id_, "snippets", "not a list", "Write a list of objects")
    else:
        for number, snippet in enumerate(snippets, start=1):
            yield from _snippet_form(id_, f"snippets: {number}", snippet)
    exact = entry.get("exact_answer")
    if exact is not None and not isinstance(exact, str) and not _is_entries(exact):
        told = f"{reprlib.repr(exact)} is neither a text nor a list of lists of texts"
        yield _refused(id_, "exact_answer", told, 'Write "yes", "no", or entries such as [["one"], ["two"]]')
    ideal = entry.get("ideal_answer")
    if ideal is not None and not isinstance(ideal, str) and not _is_texts(ideal):
        yield _refused(id_, "ideal_answer", "not a text", "Write one text")


def _snippet_form(id_: str, place: str, snippet: object) -> Iterator[Fault]:
    if not isinstance(snippet, Mapping):
        yield _refused(id_, place, "not an object", 'Write {"document": ..., "text": ..., ...}')
        return
    for name in ("document", "text"):
        if not isinstance(snippet.get(name), str):
            yield _refused(id_, place, f"{name} is no text", f"Give its {name}")
    for name in SECTIONS:
        if not isinstance(snippet.get(name), str | None):
            yield _refused(id_, place, f"{name} is no text", "Write title or abstract")
    for name in OFFSETS:
        value = snippet.get(name)
        if not isinstance(value, int | None) or isinstance(value, bool):
            yield _refused(id_, place, f"{name} is no whole number", "Count characters from 0")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_entries(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) or _is_texts(item) for item in value)


def _refused(id_: str | None, place: str, told: str, remedy: str) -> Fault:
    return Fault("refused", id_, place, told, remedy)
