"""Stored scores of a ranker, and what selections are worth: one row of numbers a case, and their sums."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from cases.files import json_bytes, write_atomically
from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, Mean, Pooled, Ratio
from evals.studies.errors import StudyError
from ranking.cutoffs import Cutoff, select
from ranking.examples import Example
from ranking.measures import average_precision_of_scores, count_characters, count_sentences
from ranking.measures import scores as part_scores
from ranking.ranker import Scores


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """What a score is compared with; no text.

    Attributes:
        group: Cases of one group are not independent.
        labels: Shape (sentences,).
        lengths: Of the sentences in characters, shape (sentences,).
    """

    id: str
    group: str
    labels: tuple[bool, ...]
    lengths: tuple[int, ...]


def labelled_cases(examples: Iterable[Example]) -> list[LabelledCase]:
    """The cases of labelled examples."""
    return [
        LabelledCase(one.id, one.group, one.labels, tuple(map(len, one.sentences)))
        for one in examples
        if one.labels is not None
    ]


def write_cases(path: Path, cases: Iterable[LabelledCase]) -> None:
    """Write one JSON object a line.

    Raises:
        InputError: The file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json_bytes(asdict(case)) for case in cases))


def read_cases(path: Path) -> dict[str, LabelledCase]:
    """Read what `write_cases` wrote, by id.

    Raises:
        StudyError: The file is missing or damaged.
    """
    try:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        cases = [
            LabelledCase(line["id"], line["group"], tuple(line["labels"]), tuple(line["lengths"]))
            for line in lines
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from None
    return {case.id: case for case in cases}


def write_scores(path: Path, ids: Sequence[str], scores: Sequence[Scores]) -> None:
    """Write the logits of each example, shape (sentences,).

    Raises:
        InputError: The file cannot be written.
    """
    written = io.BytesIO()
    np.savez_compressed(
        written,
        ids=np.asarray(ids, dtype=np.str_),
        ends=np.cumsum([len(one) for one in scores]),
        scores=np.concatenate([np.zeros(0, np.float32), *scores]).astype(np.float32),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [written.getvalue()])


def read_scores(path: Path) -> Mapping[str, Scores]:
    """Read what `write_scores` wrote, by the id of the example.

    Raises:
        StudyError: The file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            parts = np.split(stored["scores"], stored["ends"][:-1])
            return dict(zip(stored["ids"].tolist(), parts, strict=True))
    except Exception as error:
        # Errors of several libraries, on a file that was cut or changed.
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> StudyError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return StudyError(f"{path}: cannot be read: {reason}. Remove it and start the study again")


Measure = Literal[
    "macro_p", "macro_r", "macro_f1", "micro_p", "micro_r", "micro_f1", "char_p", "char_r", "char_f1", "ap"
]
"""Macro: mean over cases. Micro: all sentences of all cases together (Abridge's corpus score). Char: the same
in characters. AP: mean average precision of the order, which no cut-off touches."""

_SENTENCES, _CASE, _CHARACTERS, _PRECISION = 0, 3, 6, 9


STATISTICS: Mapping[Measure, CaseStatistic] = {
    "macro_p": Mean(_CASE),
    "macro_r": Mean(_CASE + 1),
    "macro_f1": Mean(_CASE + 2),
    "micro_p": Pooled(_SENTENCES, "precision", "zero", PERCENT),
    "micro_r": Pooled(_SENTENCES, "recall", "zero", PERCENT),
    "micro_f1": Pooled(_SENTENCES, "f1", "zero", PERCENT),
    "char_p": Pooled(_CHARACTERS, "precision", "zero", PERCENT),
    "char_r": Pooled(_CHARACTERS, "recall", "zero", PERCENT),
    "char_f1": Pooled(_CHARACTERS, "f1", "zero", PERCENT),
    "ap": Ratio(_PRECISION, _PRECISION + 1),
}
assert set(STATISTICS) == set(get_args(Measure))


def case_numbers(case: LabelledCase, scores: Scores, cutoff: Cutoff) -> Floats:
    """A case's row, shape (11,).

    Counts of sentences (correct, predicted, gold), precision, recall and F1 in the case, counts of
    characters, average precision and whether there is one.
    """
    chosen = select(cutoff, scores)
    sentences = count_sentences(chosen, case.labels)
    precision = average_precision_of_scores(scores, case.labels)
    in_case = part_scores(sentences, "zero")
    return np.asarray(
        [
            *sentences,
            *(PERCENT * value for value in in_case),
            *count_characters(chosen, case.labels, case.lengths),
            PERCENT * (precision or 0.0),
            precision is not None,
        ],
        dtype=np.float64,
    )


def by_group(rows: Floats, groups: list[str]) -> Floats:
    """Sums over the cases of a group, shape (groups, columns), groups in order of their first case."""
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    summed = np.zeros((len(places), rows.shape[1]))
    np.add.at(summed, [places[group] for group in groups], rows)
    return summed
