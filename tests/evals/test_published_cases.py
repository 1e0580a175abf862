from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases.formats.plain_jsonl import read_jsonl, write_jsonl
from evals.published_cases import sample, scifact_cases
from evals.search.questions import Part
from storage.errors import InputError


@pytest.fixture
def scifact(tmp_path: Path) -> Path:
    """Ten claims on five abstracts; each abstract has two claims, and one has a single sentence."""
    abstracts = [
        {"doc_id": number, "title": "T", "abstract": [f"First of {number}.", " ", "Third.", "Last."]}
        for number in range(4)
    ]
    abstracts.append({"doc_id": 4, "title": "T", "abstract": ["Alone."]})
    claims = [
        {
            "id": 100 + number,
            "claim": f"Claim {number}?",
            "evidence": {str(number % 5): [{"sentences": [0], "label": "SUPPORT"}]},
            "cited_doc_ids": [number % 5],
        }
        for number in range(10)
    ]
    claims.append({"id": 200, "claim": "Nothing?", "evidence": {}, "cited_doc_ids": [1]})
    for name, lines in (("corpus", abstracts), ("claims", claims)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def test_a_claim_is_asked_and_its_rationale_is_essential(scifact: Path) -> None:
    case, *_ = scifact_cases(scifact)
    assert (case.id, case.question, case.narrative) == ("100-0", "Claim 0?", "")
    # A blank sentence is left out, and the others keep their numbers.
    assert [(one.id, one.text) for one in case.sentences] == [
        ("1", "First of 0."),
        ("3", "Third."),
        ("4", "Last."),
    ]
    assert case.gold.labels == {"1": "essential", "3": "not-relevant", "4": "not-relevant"}


def test_what_has_no_evidence_or_a_single_sentence_is_left_out(scifact: Path) -> None:
    assert {case.id.partition("-")[2] for case in scifact_cases(scifact)} == {"0", "1", "2", "3"}
    assert len(scifact_cases(scifact, min_sentences=1)) == 10


def test_parts_share_no_abstract(scifact: Path) -> None:
    parts = [scifact_cases(scifact, part=Part(number, 2)) for number in (1, 2)]
    one, other = ({case.id.partition("-")[2] for case in part} for part in parts)
    assert one and other and not one & other
    assert len(parts[0]) + len(parts[1]) == 8


def test_a_choice_depends_on_its_seed_and_keeps_the_order(scifact: Path) -> None:
    every = [case.id for case in scifact_cases(scifact)]
    chosen = [case.id for case in scifact_cases(scifact, limit=4)]
    assert chosen == [case.id for case in scifact_cases(scifact, limit=4)]
    assert len(chosen) == 4 and sorted(chosen, key=every.index) == chosen
    assert len({tuple(sample(every, 4, seed, str)) for seed in range(10)}) > 1


def test_the_file_of_cases_is_read_as_it_was_written(scifact: Path, tmp_path: Path) -> None:
    made = scifact_cases(scifact)
    write_jsonl(tmp_path / "cases.jsonl", made)
    assert list(read_jsonl(tmp_path / "cases.jsonl")) == made


def test_abstracts_may_lie_elsewhere(scifact: Path, tmp_path: Path) -> None:
    corpus = scifact / "corpus.jsonl"
    corpus.rename(scifact / "abstracts.jsonl")
    with pytest.raises(InputError, match="corpus"):
        scifact_cases(scifact / "claims.jsonl")
    assert len(scifact_cases(scifact / "claims.jsonl", corpus=scifact / "abstracts.jsonl")) == 8


def test_no_pair_left_is_one_line(scifact: Path) -> None:
    with pytest.raises(InputError, match="no abstract of 9 sentences or more has evidence"):
        scifact_cases(scifact, min_sentences=9)
