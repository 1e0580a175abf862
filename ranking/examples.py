"""What rankers learn from: a query, the sentences of its document, and which of them are evidence."""

from __future__ import annotations

from dataclasses import dataclass

from cases.records import LabelSource


@dataclass(frozen=True, slots=True)
class Example:
    """One query against one document.

    Attributes:
        id: Unique within a data set.
        query: A clinician's question, a claim, a line of a summary.
        sentences: Of the document, in its order.
        labels: Whether each sentence is evidence, shape (sentences,); None where nobody has labelled.
        document_id: Examples of one document share its encoding.
        group: What a split never parts: all examples of a claim, a trial, a case.
        label_source: Weak labels train; they are never validated or tested on.
        sentence_ids: How the source names its sentences; empty for their positions from 0.
    """

    id: str
    query: str
    sentences: tuple[str, ...]
    labels: tuple[bool, ...] | None
    document_id: str
    group: str
    label_source: LabelSource = "gold"
    sentence_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Hold the shapes against each other.

        Raises:
            ValueError: Labels or ids are not as many as sentences.
        """
        if self.labels is not None and len(self.labels) != len(self.sentences):
            raise ValueError(f"{self.id}: {len(self.labels)} labels for {len(self.sentences)} sentences")
        if self.sentence_ids and len(self.sentence_ids) != len(self.sentences):
            raise ValueError(f"{self.id}: {len(self.sentence_ids)} ids for {len(self.sentences)} sentences")
