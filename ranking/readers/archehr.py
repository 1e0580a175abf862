"""ArchEHR-QA cases, as XML with keys or as JSON lines, to examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from cases.definitions import Section
from cases.load import find_cases
from cases.records import Case, InvalidCase
from ranking.examples import Example
from ranking.rankers.prepared import QueryMode, retrieval_query
from storage.errors import InputError


class ArchehrOptions(Section):
    """How cases are read.

    Attributes:
        keys: Key files; without any, `NAME_key.json` next to `NAME.xml`.
        query: Query for a note; None takes the clinician's question, else the patient's words.
    """

    reader: Literal["archehr"] = "archehr"
    keys: tuple[Path, ...] = ()
    query: QueryMode | None = None


def read_archehr(paths: Sequence[Path], options: ArchehrOptions) -> Iterator[Example]:
    """Make an example of each case: its clinician's question, else the patient's words, against its note.

    Essential sentences are evidence. Cases that no key labels have no labels: they can be ranked, not learned
    from. Weak labels are marked as such.

    Raises:
        InputError: A file or a case cannot be used, or a key belongs to other cases.
    """
    source = find_cases(paths, options.keys)
    source.check()
    for case in source:
        if isinstance(case, InvalidCase):
            raise InputError(*case.fault.split(": ", 1))
        yield _example(case, paths, options.query or "clinician")


def _example(case: Case, paths: Sequence[Path], mode: QueryMode) -> Example:
    query = retrieval_query(mode, case.narrative, case.question, lambda text: " ".join(text.split())).text
    if not query or not case.sentences:
        missing = "sentences" if query else "question and no narrative"
        raise InputError(", ".join(map(str, paths)), f"case {case.id!r}: has no {missing}")
    labels = case.gold.labels
    return Example(
        id=case.id,
        query=query,
        sentences=tuple(sentence.text for sentence in case.sentences),
        labels=None if labels is None else tuple(labels.get(id_) == "essential" for id_ in case.sentence_ids),
        document_id=case.id,
        group=case.id,
        label_source=case.gold.label_source,
        sentence_ids=case.sentence_ids,
    )
