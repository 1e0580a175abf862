"""Submissions to every task, made of the packaged key: perfect, empty, over-citing and invalid ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cases.load import find_cases
from cases.records import Case
from cases.submissions.archehr import CitedSentence, Prediction, Task
from cases.submissions.tasks import ARCHEHR
from storage.files import json_bytes

SAMPLES = Path(__file__).parents[3] / "cases" / "samples"
CASES, KEY = SAMPLES / "batch.xml", SAMPLES / "batch_key.json"


def samples() -> list[Case]:
    return [case for case in find_cases([CASES], [KEY]) if isinstance(case, Case)]


def essential(case: Case) -> tuple[str, ...]:
    return tuple(id_ for id_, label in (case.gold.labels or {}).items() if label == "essential")


def perfect(case: Case) -> Prediction:
    sentences = case.gold.answer_sentences or ()
    return Prediction(
        case.id,
        question=case.question,
        evidence=essential(case),
        answer=case.gold.answer,
        links=tuple((sentence.id, id_) for sentence in sentences for id_ in sentence.citations or ()),
        cited_answer=(CitedSentence("The note says so.", essential(case)),),
    )


def empty(case: Case) -> Prediction:
    return Prediction(case.id, evidence=(), links=())


def over_citing(case: Case) -> Prediction:
    sentences = case.gold.answer_sentences or ()
    return Prediction(
        case.id,
        evidence=case.sentence_ids,
        links=tuple((sentence.id, id_) for sentence in sentences for id_ in case.sentence_ids),
        cited_answer=(CitedSentence("The note says so.", case.sentence_ids),),
    )


_INVALID: Mapping[Task, object] = {
    "2025": "No citation at all.",
    "2026-1": "",
    "2026-2": ["1", "999"],
    "2026-3": None,
    "2026-4": [{"answer_id": "1", "evidence_id": ["999"]}],
}


def write_invalid(path: Path, task: Task) -> Path:
    """Every case with a value that the official scorer of the task refuses."""
    field = "answer" if task == "2025" else "prediction"
    path.write_bytes(json_bytes([{"case_id": case.id, field: _INVALID[task]} for case in samples()]))
    return path


def write(path: Path, task: Task, make: str) -> Path:
    """One of `perfect`, `empty`, `over_citing`."""
    makers = {"perfect": perfect, "empty": empty, "over_citing": over_citing}
    ARCHEHR[task].write(path, [makers[make](case) for case in samples()])
    return path
