"""BioASQ's rules for one question of a submission that can be read."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cases.bioasq_submissions.forms import OFFSETS, SECTIONS
from cases.bioasq_submissions.prediction import (
    MOST_DOCUMENTS,
    MOST_ENTRY_CHARACTERS,
    MOST_FACTOID_ENTRIES,
    MOST_IDEAL_WORDS,
    MOST_LIST_ENTRIES,
    MOST_SNIPPETS,
    BioasqTask,
)
from cases.biomedical import PUBMED, QuestionType, document_id, is_pubmed_address
from cases.submissions.fault import Fault, Severity, named

_MOST_ENTRIES: Mapping[QuestionType | None, int] = {"factoid": MOST_FACTOID_ENTRIES}


def rule_faults(entry: Mapping[str, Any], task: BioasqTask, kind: QuestionType | None) -> Iterator[Fault]:
    """The faults of an entry.

    Args:
        entry: One that `form_faults` finds nothing wrong with.
        task: The phase; fields of another one are ignored, as they may stand there.
        kind: Type of the question; None where nobody knows, which leaves out what depends on it.
    """
    if task == "bioasq-a":
        yield from _documents(entry)
        yield from _snippets(entry)
    else:
        yield from _exact(entry, kind)
        yield from _ideal(entry)


def _documents(entry: Mapping[str, Any]) -> Iterator[Fault]:
    addresses: list[str] = entry.get("documents") or []
    told = _telling(entry, "documents")
    if not addresses:
        yield told("penalised", "none", "A question without documents scores 0")
    if len(addresses) > MOST_DOCUMENTS:
        yield told("refused", f"{len(addresses)} of them", f"Hand in the best {MOST_DOCUMENTS}")
    repeated = [one for one in dict.fromkeys(addresses) if addresses.count(one) > 1]
    if repeated:
        yield told("penalised", f"{named(repeated, 2)} more than once", "Later ones are dropped: name others")
    strange = [one for one in addresses if not is_pubmed_address(one)]
    if strange:
        yield told("refused", f"{named(strange, 2)}: no address of PubMed", f"Write {PUBMED}PMID")


def _snippets(entry: Mapping[str, Any]) -> Iterator[Fault]:
    snippets: list[Mapping[str, Any]] = entry.get("snippets") or []
    if len(snippets) > MOST_SNIPPETS:
        told = _telling(entry, "snippets")
        yield told("refused", f"{len(snippets)} of them", f"Hand in the best {MOST_SNIPPETS}")
    documents = {document_id(address) for address in entry.get("documents") or []}
    for number, snippet in enumerate(snippets, start=1):
        yield from _snippet(entry, f"snippets: {number}", snippet, documents)


def _snippet(
    entry: Mapping[str, Any], place: str, snippet: Mapping[str, Any], documents: set[str]
) -> Iterator[Fault]:
    told = _telling(entry, place)
    if not snippet["text"].strip():
        yield told("refused", "its text is empty", "Leave it out")
    if not is_pubmed_address(snippet["document"]):
        address = reprlib.repr(snippet["document"])
        yield told("refused", f"{address}: no address of PubMed", f"Write {PUBMED}PMID")
    elif document_id(snippet["document"]) not in documents:
        fault = f"its document {document_id(snippet['document'])} is not among the documents"
        yield told("penalised", fault, "Name the document too, or leave the snippet out")
    missing = [name for name in (*SECTIONS, *OFFSETS) if snippet.get(name) in (None, "")]
    if missing:
        yield told("refused", f"without {', '.join(missing)}", "Say where its text begins and ends")
        return
    begin, end = (snippet[name] for name in OFFSETS)
    if begin < 0 or end < 0:
        yield told("refused", f"an offset below 0: {begin}, {end}", "Count characters from 0")
    elif snippet[SECTIONS[0]] == snippet[SECTIONS[1]]:
        if begin >= end:
            yield told("refused", f"offsets out of order: {begin}, {end}", "The end comes after the begin")
        elif end - begin != len(snippet["text"]):
            fault = f"offsets {begin} to {end} hold {end - begin} characters, its text {len(snippet['text'])}"
            yield told("penalised", fault, "Offsets are what is scored: correct them")


def _exact(entry: Mapping[str, Any], kind: QuestionType | None) -> Iterator[Fault]:
    value = entry.get("exact_answer")
    told = _telling(entry, "exact_answer")
    if kind == "summary":
        if value:
            yield told("penalised", "a summary question has no exact answer", "Leave it out")
    elif value is None or value in ("", []):
        if kind is not None:
            yield told("penalised", "missing", "A question without an answer scores 0")
    elif kind == "yesno" or (kind is None and isinstance(value, str)):
        if value not in ("yes", "no"):
            yield told("refused", f"{reprlib.repr(value)} is neither yes nor no", 'Write "yes" or "no"')
    elif isinstance(value, str):
        fault = f"{reprlib.repr(value)} is a text, and a {kind} question takes entries"
        yield told("refused", fault, 'Write [["one"], ["two"]]')
    else:
        yield from _entries(entry, value, kind)


def _entries(entry: Mapping[str, Any], value: Sequence[Any], kind: QuestionType | None) -> Iterator[Fault]:
    told = _telling(entry, "exact_answer")
    flat = [item for item in value if isinstance(item, str)]
    if flat:
        yield told("refused", f"{named(flat, 2)}: no list", 'Write each entry as a list: [["one"], ["two"]]')
        return
    most = _MOST_ENTRIES.get(kind, MOST_LIST_ENTRIES)
    if len(value) > most:
        yield told("refused", f"{len(value)} entries", f"Hand in {most} at most")
    if any(not synonyms or not synonyms[0].strip() for synonyms in value):
        yield told("refused", "an entry is empty", "Leave it out")
    more = [synonyms[0] for synonyms in value if len(synonyms) > 1]
    if more:
        yield told("penalised", f"{named(more, 2)}: with synonyms", "Only the first of an entry is read")
    long = [synonyms[0] for synonyms in value if synonyms and len(synonyms[0]) > MOST_ENTRY_CHARACTERS]
    if long and kind != "factoid":
        fault = f"an entry of {len(long[0])} characters: {reprlib.repr(long[0])}"
        yield told("refused", fault, f"{MOST_ENTRY_CHARACTERS} at most")


def _ideal(entry: Mapping[str, Any]) -> Iterator[Fault]:
    value = entry.get("ideal_answer")
    told = _telling(entry, "ideal_answer")
    if not value or not str(value).strip():
        yield told("penalised", "missing", "A question without an answer scores 0")
        return
    if not isinstance(value, str):
        yield told("refused", "a list", "Write one text")
        return
    words = len(value.split())
    if words > MOST_IDEAL_WORDS:
        yield told("refused", f"{words} words", f"{MOST_IDEAL_WORDS} at most")


def _telling(entry: Mapping[str, Any], field: str) -> Callable[[Severity, str, str], Fault]:
    """What makes the faults of a field."""
    return lambda severity, fault, remedy: Fault(severity, entry["id"], field, fault, remedy)
