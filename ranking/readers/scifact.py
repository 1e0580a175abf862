"""SciFact (Wadden et al. 2020): claims against the abstracts that support or contradict them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel

from cases.definitions import Section
from cases.formats.json_border import Identifier, Line, not_empty
from cases.formats.json_lines import JsonLine, UsedIds, read_json_lines, the_one_named
from ranking.examples import Example
from storage.errors import InputError

CLAIMS = "claims"
CORPUS = "corpus"


class ScifactOptions(Section):
    """How SciFact is read.

    Attributes:
        corpus: The abstracts; None for the `corpus*.jsonl` next to the claims.
        cited: Whether cited abstracts without evidence for the claim are examples without
            evidence.
    """

    reader: Literal["scifact"] = "scifact"
    corpus: Path | None = None
    cited: bool = False


Verdict = Literal["SUPPORT", "CONTRADICT"]


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim with one abstract that decides it.

    Attributes:
        verdict: Whether the abstract supports or contradicts the claim.
        rationale: Positions of the sentences that say so, in their order.
    """

    id: str
    claim: str
    verdict: Verdict
    document_id: str
    abstract: tuple[str, ...]
    rationale: tuple[int, ...]


class _Rationale(BaseModel):
    sentences: list[int]
    label: Verdict | None = None


class _Claim(BaseModel):
    id: Identifier
    claim: Annotated[Line, AfterValidator(not_empty)]
    evidence: dict[Identifier, list[_Rationale]]
    cited_doc_ids: list[Identifier] = []


class _Abstract(BaseModel):
    doc_id: Identifier
    abstract: list[Line]


def read_scifact(path: Path, options: ScifactOptions) -> Iterator[Example]:
    """Make an example of each claim and each abstract with evidence; it combines all rationales.

    Examples are of the group of their claim.

    Raises:
        InputError: A file is missing or damaged, an id is used twice or unknown, or a rationale points past
            the end of its abstract.
    """
    for claim, document_id, sentences, evidence in _pairs(path, options):
        yield Example(
            id=f"{claim.id}/{document_id}",
            query=claim.claim,
            sentences=sentences,
            labels=tuple(position in evidence for position in range(len(sentences))),
            document_id=document_id,
            group=claim.id,
        )


def read_judged_claims(path: Path) -> Iterator[JudgedClaim]:
    """Read each claim with each abstract that supports or contradicts it.

    Raises:
        InputError: As `read_scifact`.
    """
    for claim, document_id, sentences, evidence in _pairs(path, ScifactOptions()):
        verdicts = {one.label for one in claim.evidence[document_id]}
        if len(verdicts) == 1 and (verdict := verdicts.pop()) is not None:
            yield JudgedClaim(claim.id, claim.claim, verdict, document_id, sentences, tuple(sorted(evidence)))


def _pairs(
    path: Path, options: ScifactOptions
) -> Iterator[tuple[_Claim, str, tuple[str, ...], frozenset[int]]]:
    """Claims with an abstract each, and the positions of its evidence."""
    claims = the_one_named(path, CLAIMS) if path.is_dir() else path
    corpus_path = options.corpus or the_one_named(claims.parent, CORPUS)
    corpus = _read_corpus(corpus_path)
    seen = UsedIds()
    for line in read_json_lines(claims):
        claim = line.read_as(_Claim)
        seen.add(line, "id", claim.id)
        for document_id in dict.fromkeys([*claim.evidence, *(claim.cited_doc_ids if options.cited else ())]):
            evidence = _evidence(line, claim, document_id, corpus, corpus_path)
            yield claim, document_id, corpus[document_id], evidence
    if not seen:
        raise InputError(claims, "no claim in it", "Put one JSON object on each line")


def _read_corpus(path: Path) -> dict[str, tuple[str, ...]]:
    corpus: dict[str, tuple[str, ...]] = {}
    seen = UsedIds()
    for line in read_json_lines(path):
        abstract = line.read_as(_Abstract)
        seen.add(line, "doc_id", abstract.doc_id)
        corpus[abstract.doc_id] = tuple(abstract.abstract)
    if not corpus:
        raise InputError(path, "no abstract in it", "Put one JSON object on each line")
    return corpus


def _evidence(
    line: JsonLine, claim: _Claim, document_id: str, corpus: Mapping[str, tuple[str, ...]], corpus_path: Path
) -> frozenset[int]:
    if document_id not in corpus:
        field = "evidence" if document_id in claim.evidence else "cited_doc_ids"
        raise line.fault(f"{field}: document {document_id!r} is not in {corpus_path}")
    sentences = corpus[document_id]
    rationales = claim.evidence.get(document_id, [])
    evidence = frozenset(position for rationale in rationales for position in rationale.sentences)
    if beyond := [position for position in sorted(evidence) if not 0 <= position < len(sentences)]:
        fault = f"sentence {beyond[0]} of an abstract of {len(sentences)}, counted from 0"
        raise line.fault(f"evidence.{document_id}: {fault}", "Give the corpus of these very claims")
    return evidence
