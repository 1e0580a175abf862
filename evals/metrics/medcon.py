"""MEDCON: F1 of the medical concepts of two texts, as the official scorers count it.

Yim et al., "ACI-BENCH: a Novel Ambient Clinical Intelligence Dataset for Benchmarking Automatic Visit Note
Generation", Scientific Data 2023. The reference is `medcon_scorer.MedconScorer` of ArchEHR-QA. Concepts are
found by a QuickUMLS index, or by a list of terms of one's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evals.metrics.text_metric import (
    TEXT_TASKS,
    Loaded,
    MetricResources,
    MetricSpec,
    NotComputed,
    TextPair,
    is_installed,
)
from ranking.measures import f1_of_rates
from storage.errors import InputError
from storage.files import opened

OWN_TERMS = "medcon_own_terms"
"""Name of MEDCON over a user's list of terms, whose numbers are not those of MEDCON."""

_QUICKUMLS_FILES = ("umls-simstring.db", "cui-semtypes.db")

SEMANTIC_GROUPS: dict[str, tuple[str, ...]] = {
    "Anatomy": (
        *("T017", "T018", "T021", "T022", "T023", "T024", "T025", "T026"),
        *("T029", "T030", "T031"),
    ),
    "Chemicals & Drugs": (
        *("T103", "T104", "T109", "T114", "T116", "T120", "T121", "T122", "T123", "T125"),
        *("T126", "T127", "T129", "T130", "T131", "T192", "T195", "T196", "T197", "T200"),
    ),
    "Devices": ("T074", "T075", "T203"),
    "Disorders": (
        *("T019", "T020", "T033", "T037", "T046", "T047", "T048", "T049", "T050"),
        *("T184", "T190", "T191"),
    ),
    "Genes & Molecular Sequences": ("T028", "T085", "T086", "T087", "T088"),
    "Phenomena": ("T034", "T038", "T067", "T068", "T069", "T070"),
    "Physiology": ("T032", "T039", "T040", "T041", "T042", "T043", "T044", "T045", "T201"),
}
"""The semantic types of the UMLS that MEDCON counts, by semantic group (McCray et al., "Aggregating UMLS
Semantic Types for Reducing Conceptual Complexity", MEDINFO 2001). Procedures are not among the seven."""

ACCEPTED_TYPES = frozenset(type_ for types in SEMANTIC_GROUPS.values() for type_ in types)
"""The 66 of them."""

_WINDOW = 5
"""Tokens that a term has at most, as in the official scorers."""

_TOKEN = re.compile(r"\w+")


class Concept(NamedTuple):
    """A term as the vocabulary has it, and the identifier of a concept that it names."""

    term: str
    cui: str


Matcher = Callable[[str], list[Concept]]
"""Finds all concepts in a text; a term that names several gives as many."""


def open_quickumls(folder: Path) -> Matcher:
    """Open an index with the options of the official scorers: exact terms of up to 5 tokens, 66 types.

    The official call asks QuickUMLS (Soldaini and Goharian, 2016) to ignore syntax as well, which version
    1.4.2 does not heed.
    """
    from quickumls import QuickUMLS

    index = QuickUMLS(str(folder), window=_WINDOW, threshold=1, accepted_semtypes=set(ACCEPTED_TYPES))
    return lambda text: concepts_of(index.match(text))


def concepts_of(places: Iterable[Iterable[Mapping[str, Any]]]) -> list[Concept]:
    """QuickUMLS's candidates of every place, under the vocabulary's term and not under the text's words."""
    return [Concept(found["term"], found["cui"]) for place in places for found in place]


class TermList:
    """Concepts by a list of terms, whatever their upper and lower case and their punctuation.

    Of terms that overlap in a text the longest is taken, and the first of equally long ones, which is how
    QuickUMLS chooses among exact matches.
    """

    def __init__(self, cuis: Mapping[str, Sequence[str]]) -> None:
        """Take the concepts of each term; terms in the form that `normalized` gives."""
        self._cuis = cuis

    def match(self, text: str) -> list[Concept]:
        """All concepts in the text, the longest terms first."""
        tokens = [(found.start(), found.end()) for found in _TOKEN.finditer(text)]
        taken: set[int] = set()
        concepts = []
        for places, term in sorted(self._found(text, tokens), key=lambda found: -_width(tokens, found[0])):
            if taken.isdisjoint(places):
                taken.update(places)
                concepts += [Concept(term, cui) for cui in self._cuis[term]]
        return concepts

    def _found(self, text: str, tokens: Sequence[tuple[int, int]]) -> Iterator[tuple[range, str]]:
        words = [text[start:end].casefold() for start, end in tokens]
        for first in range(len(words)):
            for end in range(first + 1, min(first + _WINDOW, len(words)) + 1):
                if (term := " ".join(words[first:end])) in self._cuis:
                    yield range(first, end), term


def normalized(term: str) -> str:
    """The letters and digits of a term, case-folded, with one space between words."""
    return " ".join(_TOKEN.findall(term.casefold()))


def read_terms(path: Path) -> TermList:
    """Read a file of lines `term<TAB>CUI`, in UTF-8; a term of several concepts has a line for each.

    Empty lines and a first line `term<TAB>CUI` are skipped.

    Raises:
        InputError: the file cannot be read, or a line is not of this form.
    """
    with opened(path) as file:
        lines = file.read().split(b"\n")
    cuis: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            raise InputError(path, f"line {number}: not UTF-8", "Save the file as UTF-8") from error
        if text and not (number == 1 and text.casefold() == "term\tcui"):
            term, cui = _entry(path, number, text)
            known = cuis.setdefault(term, [])
            if cui not in known:
                known.append(cui)
    if not cuis:
        raise InputError(path, "no term in it", "Write a term, a tab and its CUI on each line")
    return TermList(cuis)


def _entry(path: Path, number: int, line: str) -> tuple[str, str]:
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) != 2 or not all(fields):
        fault = f"line {number}: not a term, a tab and a CUI"
        raise InputError(path, fault, f"Write it as term<TAB>CUI; it has {len(fields)} field(s)")
    term = normalized(fields[0])
    if not term:
        raise InputError(path, f"line {number}: the term has no letter or digit", "Remove the line")
    if (words := term.count(" ") + 1) > _WINDOW:
        remedy = f"Texts are searched for terms of up to {_WINDOW} words: shorten it or remove the line"
        raise InputError(path, f"line {number}: the term has {words} words", remedy)
    return term, fields[1]


def _width(tokens: Sequence[tuple[int, int]], places: range) -> int:
    return tokens[places[-1]][1] - tokens[places[0]][0]


class Medcon:
    """F1 of concepts of each pair; it can pass 1, see `concept_f1`."""

    spread = False

    def __init__(self, matcher: Matcher, name: str = "medcon") -> None:
        """Take concepts from `matcher`; only with those of QuickUMLS is the metric the official `medcon`."""
        self._match = matcher
        self.names = (name,)

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        """Score each pair; a text that several pairs share is searched once."""
        texts = {text for pair in pairs for text in (pair.prediction, pair.reference)}
        found = {text: self._match(text) for text in texts}
        return [(concept_f1(found[pair.prediction], found[pair.reference]),) for pair in pairs]


def concept_f1(prediction: Iterable[Concept], reference: Iterable[Concept]) -> float:
    """F1 over the terms of two texts.

    A reference term is correct where the prediction has one of its concepts, under whatever term. Precision
    divides the correct *reference* terms by the predicted terms, as the official scorer does. So two synonyms
    in the reference and one in the prediction give a precision of 2 and an F1 of 4/3; the reverse gives 2/3.

    Returns:
        0 or more; 0 where a text has no concept, both being empty included.
    """
    predicted = list(prediction)
    predicted_cuis = {concept.cui for concept in predicted}
    wanted: dict[str, set[str]] = {}
    for concept in reference:
        wanted.setdefault(concept.term, set()).add(concept.cui)
    correct = sum(not cuis.isdisjoint(predicted_cuis) for cuis in wanted.values())
    if not correct:
        return 0.0
    precision = correct / len({concept.term for concept in predicted})
    recall = correct / len(wanted)
    return f1_of_rates(precision, recall)


def _load(resources: MetricResources) -> Iterator[Loaded]:
    yield _official_medcon(resources.get("quickumls"))
    concepts = resources.get("concepts")
    if concepts is not None:
        yield Medcon(read_terms(concepts).match, OWN_TERMS)


def _official_medcon(folder: Path | None) -> Loaded:
    names = ("medcon",)
    if folder is None:
        reason = "needs --quickumls DIR (a UMLS licence); --concepts FILE gives a variant of your own"
        return NotComputed(names, reason)
    for file in _QUICKUMLS_FILES:
        if not (folder / file).exists():
            raise InputError(folder, f"no {file} in it", "Give the folder that quickumls.install made")
    if not is_installed("quickumls"):
        return NotComputed(names, "needs quickumls 1.4.2: pip install quickumls")
    if not is_installed("en_core_web_sm"):
        return NotComputed(names, "needs spaCy's en_core_web_sm: python -m spacy download en_core_web_sm")
    if not _has_stopwords():
        # QuickUMLS would download them.
        reason = "needs NLTK's stopwords in a folder of NLTK_DATA: python -m nltk.downloader stopwords"
        return NotComputed(names, reason)
    return Medcon(open_quickumls(folder))


def _has_stopwords() -> bool:
    from nltk.corpus import stopwords

    try:
        stopwords.ensure_loaded()
    except LookupError:
        return False
    return True


METRIC = MetricSpec(
    names=("medcon",),
    columns={"medcon": "MEDCON"},
    tasks=TEXT_TASKS,
    load=_load,
    resources={
        "quickumls": "Folder made by QuickUMLS's installer from a UMLS release.",
        "concepts": "File of lines `term<TAB>CUI`, for an additional variant of MEDCON.",
    },
)
