from __future__ import annotations

from pathlib import Path

import pytest

from ranking.examples import Example
from ranking.readers.load import load_examples
from ranking.readers.scifact import ScifactOptions
from tests.ranking.readers.files import fault, write_lines

ABSTRACTS = [
    {"doc_id": 7, "title": "Tea", "abstract": ["Tea was drunk.", "Sleep got\nworse.", "It was late."]},
    {"doc_id": 8, "title": "Milk", "abstract": ["Milk was drunk."]},
]
CLAIM = {
    "id": 1,
    "claim": "Tea disturbs sleep.",
    "evidence": {
        "7": [
            {"sentences": [1], "label": "SUPPORT"},
            {"sentences": [2, 1], "label": "SUPPORT"},
        ]
    },
    "cited_doc_ids": [7, 8],
}
WITHOUT_EVIDENCE = {"id": 2, "claim": "Milk is white.", "evidence": {}, "cited_doc_ids": [8]}


def write(folder: Path, *claims: object, abstracts: list[dict[str, object]] | None = None) -> Path:
    write_lines(folder / "corpus.jsonl.gz", *(ABSTRACTS if abstracts is None else abstracts))
    return write_lines(folder / "claims_train.jsonl", *claims)


def test_evidence_is_that_of_all_rationales(tmp_path: Path) -> None:
    write(tmp_path, CLAIM, WITHOUT_EVIDENCE)
    assert load_examples([tmp_path]) == [
        Example(
            id="1/7",
            query="Tea disturbs sleep.",
            sentences=("Tea was drunk.", "Sleep got worse.", "It was late."),
            labels=(False, True, True),
            document_id="7",
            group="1",
        )
    ]


def test_cited_abstracts_are_examples_without_evidence_on_demand(tmp_path: Path) -> None:
    claims = write(tmp_path, CLAIM, WITHOUT_EVIDENCE)
    examples = load_examples([claims], ScifactOptions(cited=True))
    assert [(one.id, one.labels) for one in examples[1:]] == [("1/8", (False,)), ("2/8", (False,))]


def test_a_file_of_claims_finds_the_corpus_beside_it(tmp_path: Path) -> None:
    assert len(load_examples([write(tmp_path, CLAIM)])) == 1


def test_the_corpus_can_be_elsewhere(tmp_path: Path) -> None:
    corpus = write_lines(tmp_path / "abstracts.jsonl", *ABSTRACTS)
    (tmp_path / "own").mkdir()
    claims = write_lines(tmp_path / "own" / "claims.jsonl", CLAIM)
    assert len(load_examples([claims], ScifactOptions(corpus=corpus))) == 1
    assert "no corpus*.jsonl or corpus*.jsonl.gz in this folder" in fault(claims)


def test_one_of_several_files_of_claims_has_to_be_named(tmp_path: Path) -> None:
    write_lines(write(tmp_path, CLAIM).with_name("claims_dev.jsonl"), CLAIM)
    assert "several claims files in this folder: claims_dev.jsonl, claims_train.jsonl" in fault(tmp_path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"evidence": {"7": [{"sentences": [3]}]}}, "evidence.7: sentence 3 of an abstract of 3"),
        ({"evidence": {"7": [{"sentences": [-1]}]}}, "evidence.7: sentence -1 of an abstract of 3"),
        ({"evidence": {"9": [{"sentences": [0]}]}}, "evidence: document '9' is not in "),
        ({"evidence": {"7": [{}]}}, "evidence.7[0].sentences: is missing"),
        ({"claim": " "}, "claim: is empty"),
        ({"id": None}, "id: "),
    ],
)
def test_a_wrong_claim_is_named_by_line_and_field(
    tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    claims = write(tmp_path, WITHOUT_EVIDENCE, CLAIM | changes)
    assert fault(claims).startswith(f"{claims}: line 2: {told}")


def test_ids_are_used_once(tmp_path: Path) -> None:
    assert "line 2: id: '1' is in line 1 too" in fault(write(tmp_path, CLAIM, CLAIM))
    twice = fault(write(tmp_path, CLAIM, abstracts=[*ABSTRACTS, ABSTRACTS[0]]))
    assert "corpus.jsonl.gz: line 3: doc_id: '7' is in line 1 too" in twice


def test_claims_without_any_evidence_are_refused(tmp_path: Path) -> None:
    assert "no query has evidence" in fault(write(tmp_path, WITHOUT_EVIDENCE))


def test_empty_files_are_refused(tmp_path: Path) -> None:
    assert "claims_train.jsonl: no claim in it" in fault(write(tmp_path), "scifact")
    assert "corpus.jsonl.gz: no abstract in it" in fault(write(tmp_path, CLAIM, abstracts=[]))
