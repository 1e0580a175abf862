"""The examples of a study: what is trained on, tuned on and reported on, without a group in common."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from cases.json_lines import json_lines_named, read_json_lines
from cases.texts import hash_order
from evals.studies.definition import Domain, Row, Study
from evals.studies.errors import StudyError
from ranking.examples import Example, split
from ranking.noise import NoiseSettings, add_noise
from ranking.readers.evidence_inference import PROMPTS, EvidenceInferenceOptions
from ranking.readers.load import load_examples
from ranking.readers.scifact import CORPUS

HELD_OUT = "held-out"
NOISY = "held-out-noisy"
TUNING = "tuning"
"""Names of sets of examples; each domain has one more, by its name."""

_DOMAIN = "domain-"

Examples = tuple[Example, ...]


class _Abstract(BaseModel):
    doc_id: int | str
    structured: bool


@dataclass(frozen=True, slots=True)
class StudyData:
    """Examples with evidence, and where they belong.

    Attributes:
        train: Before any limit.
        tuning: Epochs and cut-offs are chosen on these.
        sets: What figures are reported on, by name; none is trained or tuned on.
        pretraining: Of rows that are pre-trained; already limited.
        kinds: Whether a document has headings, by its id; empty where no domain asks.
    """

    train: Examples
    tuning: Examples
    sets: Mapping[str, Examples]
    pretraining: Examples
    kinds: Mapping[str, bool]


def domain_set(name: str) -> str:
    """The name of a domain's set of held-out examples."""
    return _DOMAIN + name


def read_study_data(study: Study, data: Sequence[Path], pretrain: Sequence[Path]) -> StudyData:
    """Read and split all examples of a study.

    Raises:
        InputError: A path cannot be read.
        StudyError: Pre-training data are needed and not given, or a part would be empty.
    """
    if study.needs_pretraining_data and not pretrain:
        raise StudyError("rows of this study are pre-trained: give the data for that, --pretrain PATH")
    held_out, tuning, train = _split(_with_evidence(load_examples(data)), study, "--data")
    kinds: Mapping[str, bool] = {}
    if any(domain.structured is not None for domain in study.domains.values()):
        kinds = _structured_documents(data)
    sets = {HELD_OUT: held_out}
    if "abridge-5" in study.tables:
        sets[NOISY] = tuple(add_noise(held_out, NoiseSettings(), study.split.seed))
    reported: set[str] = set()
    if "abridge-3" in study.tables:
        for name, domain in study.domains.items():
            of = held_out
            if domain.of == "pretrain":
                of, _, _ = _split(_with_evidence(_read_pretraining(pretrain, domain.window)), study, name)
                reported |= {one.group for one in of}
            sets[domain_set(name)] = _nonempty(limited(_of_kind(of, domain, kinds), domain.limit), name)
    return StudyData(train, tuning, sets, _pretraining(study, pretrain, reported), kinds)


def training_part(data: StudyData, study: Study, row: Row) -> tuple[Examples, Examples]:
    """What a row is trained on, within the limit, and what it is tuned on.

    Raises:
        StudyError: Its domain has no examples there.
    """
    train, tuning = data.train, data.tuning
    if row.train_on is not None:
        domain = study.domains[row.train_on]
        train, tuning = (
            _nonempty(_of_kind(part, domain, data.kinds), row.train_on) for part in (train, tuning)
        )
    return limited(train, study.limit), tuning


def limited(examples: Examples, limit: int | None) -> Examples:
    """A choice that depends on ids alone, in the order of the examples."""
    if limit is None or len(examples) <= limit:
        return examples
    chosen = hash_order(examples, lambda one: json.dumps(one.id))
    ids = {one.id for one in chosen[:limit]}
    return tuple(one for one in examples if one.id in ids)


def _pretraining(study: Study, paths: Sequence[Path], reported: set[str]) -> Examples:
    """Without the groups that some domain reports on: which are held out differs with the window."""
    if not any(row.pretrain for row in study.rows.values()):
        return ()
    examples = _with_evidence(_read_pretraining(paths, study.pretraining.window))
    return limited(tuple(one for one in examples if one.group not in reported), study.pretraining.limit)


def _split(examples: Sequence[Example], study: Study, name: str) -> tuple[Examples, Examples, Examples]:
    """Held out, tuning, training."""
    try:
        rest, held_out = split(examples, study.split.held_out, study.split.seed)
        train, tuning = split(rest, study.split.tuning, study.split.seed)
    except ValueError as error:
        raise StudyError(f"{name}: {error}; give more examples") from None
    return tuple(held_out), tuple(tuning), tuple(train)


def _with_evidence(examples: Iterable[Example]) -> Examples:
    """A ranking of one sentence says nothing, and without evidence there is nothing to find."""
    return tuple(one for one in examples if one.labels and any(one.labels) and len(one.labels) > 1)


def _of_kind(examples: Examples, domain: Domain, kinds: Mapping[str, bool]) -> Examples:
    if domain.of == "pretrain" or domain.structured is None:
        return examples
    return tuple(one for one in examples if kinds.get(one.document_id) == domain.structured)


def _nonempty(examples: Examples, name: str) -> Examples:
    if not examples:
        raise StudyError(f"domain {name}: no example of it in the part that it is needed for")
    return examples


def _structured_documents(paths: Sequence[Path]) -> dict[str, bool]:
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


def _read_pretraining(paths: Sequence[Path], window: int | None) -> list[Example]:
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
