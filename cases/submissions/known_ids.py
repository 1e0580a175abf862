"""What a key, or the cases themselves, know: the cases to hand in, and the ids that may be cited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cases.archehr_key import read_archehr_key
from cases.errors import InputError
from cases.load import find_cases, sort_keys
from cases.records import Case, Gold
from cases.submissions.prediction import Task


@dataclass(frozen=True, slots=True)
class KnownIds:
    """Ids of one case: of its note's sentences, and of the clinician's answer's. None where nothing says."""

    sentences: frozenset[str] | None = None
    answer_sentences: frozenset[str] | None = None


Expected = Mapping[str, KnownIds]
"""By case id, the cases that a submission must hold."""


def known_in_case(case: Case) -> KnownIds:
    """The ids of a case and of the gold that it carries."""
    answer = _known_in_gold(case.gold).answer_sentences
    return KnownIds(frozenset(case.sentence_ids) or None, answer)


def read_expected(task: Task | None, keys: Sequence[Path], case_files: Sequence[Path]) -> Expected:
    """Read what a submission to `task` is held against.

    The official scorers take the cases from the key, and for subtask 1 from the XML. Ids come from the key,
    and where it has none, from the note.

    Args:
        task: The task; None where nobody could say.
        keys: Key files; with case files, `NAME_key.json` beside each XML file if none is given.
        case_files: Case files or folders of them.

    Raises:
        InputError: A file cannot be used, or two keys name one case.
    """
    keys, case_files = sort_keys(keys, case_files)
    noted: dict[str, KnownIds] = {}
    if case_files:
        source = find_cases(case_files, keys)
        keys = list(source.keys)
        for case in source:
            noted[case.id] = known_in_case(case) if isinstance(case, Case) else KnownIds()
    gold = _read_keys(keys)
    if noted and (task == "2026-1" or not gold):
        return noted
    return {case_id: _either(_known_in_gold(entry), noted.get(case_id)) for case_id, entry in gold.items()}


def _read_keys(keys: Iterable[Path]) -> dict[str, Gold]:
    gold: dict[str, Gold] = {}
    for key in keys:
        for case_id, entry in read_archehr_key(key).items():
            if case_id in gold:
                raise InputError(key, f"case {case_id!r} is in another key too", "Give one of them")
            gold[case_id] = entry
    return gold


def _known_in_gold(gold: Gold) -> KnownIds:
    answer = gold.answer_sentences
    return KnownIds(
        frozenset(gold.labels) if gold.labels else None,
        frozenset(sentence.id for sentence in answer) if answer else None,
    )


def _either(key: KnownIds, noted: KnownIds | None) -> KnownIds:
    if noted is None:
        return key
    return KnownIds(key.sentences or noted.sentences, key.answer_sentences or noted.answer_sentences)
