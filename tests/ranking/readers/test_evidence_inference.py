from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.readers.evidence_inference import EvidenceInferenceOptions, split_article
from ranking.readers.load import load_examples
from tests.ranking.readers.files import evidence_of, fault, write_lines

TEXT = (
    "TITLE: \nTea and sleep in adults\n\n\n\n"
    "ABSTRACT.BACKGROUND::\nWe asked Dr. Moss about tea. It is popular.\n\n"
    "ABSTRACT.RESULTS:\nSleep fell by 20 min (P <0.01). Mood did not change.\n\n"
    "2.1BODY.RESULTS:\nSleep was shorter after tea. Nobody\nwithdrew. Adverse events were rare.\n"
)
SENTENCES = (
    "Tea and sleep in adults",
    "We asked Dr. Moss about tea.",
    "It is popular.",
    "Sleep fell by 20 min (P <0.01).",
    "Mood did not change.",
    "Sleep was shorter after tea.",
    "Nobody withdrew.",
    "Adverse events were rare.",
)


def span(text: str, **changes: object) -> dict[str, object]:
    start = TEXT.index(text)
    valid = {"valid_label": True, "valid_reasoning": True, "offset_ok": True}
    return {"start": start, "end": start + len(text), **valid, **changes}


def prompt(*annotations: object, **changes: object) -> dict[str, object]:
    fields = {"prompt_id": "5", "pmcid": "42", "split": "train", "intervention": "tea", "comparator": "water"}
    return {**fields, "outcome": "sleep", "annotations": annotations, **changes}


def write(folder: Path, *prompts: object, text: str = TEXT) -> Path:
    write_lines(folder / "ei2_fulltext.jsonl.gz", {"pmcid": "42", "text": text}, {"pmcid": "1", "text": ""})
    write_lines(folder / "prompts.jsonl.gz", *prompts)
    return folder


def test_sentences_end_at_headings_which_are_none() -> None:
    assert tuple(sentence.text for sentence in split_article(TEXT)) == SENTENCES


def test_sentences_know_their_part_of_the_article() -> None:
    assert [one.part for one in split_article(TEXT)] == ["title"] + ["abstract"] * 4 + ["body"] * 3


@given(
    st.lists(st.sampled_from(["A b. ", "C é 😀\n", "BODY.X:\n", "\n\n", "1.2 ", "word " * 90 + "\n"])).map(
        "".join
    )
)
def test_offsets_are_those_of_the_sentence(text: str) -> None:
    sentences = split_article(text)
    assert all(text[one.start : one.end].split() == one.text.split() for one in sentences)
    assert all(one.end <= other.start for one, other in pairwise(sentences))


def test_long_tables_are_split_at_line_ends() -> None:
    rows = [f"row {number} has 17 of 23 in either group" for number in range(40)]
    sentences = split_article("BODY.RESULTS:\n" + "\n".join(rows))
    assert max(len(one.text) for one in sentences) <= 400
    assert " ".join(one.text for one in sentences) == " ".join(rows)


def test_every_sentence_that_a_span_overlaps_is_evidence(tmp_path: Path) -> None:
    spans = span("20 min (P <0.01). Mood"), span("shorter")
    (example,) = load_examples([write(tmp_path, prompt(*spans))])
    assert example.sentences == SENTENCES
    assert evidence_of(example) == [SENTENCES[3], SENTENCES[4], SENTENCES[5]]
    assert (example.id, example.group) == ("PMC42/5", "PMC42")
    assert example.query == "What is the effect of tea compared with water on sleep?"


def test_sentence_ids_are_character_offsets(tmp_path: Path) -> None:
    (example,) = load_examples([write(tmp_path, prompt(span("shorter")))])
    start, end = map(int, example.sentence_ids[5].split("-"))
    assert TEXT[start:end] == SENTENCES[5]


@pytest.mark.parametrize("doubt", ["valid_label", "valid_reasoning", "offset_ok"])
def test_spans_that_were_not_confirmed_are_no_evidence(tmp_path: Path, doubt: str) -> None:
    spans = span("20 min", **{doubt: False}), span("shorter")
    (example,) = load_examples([write(tmp_path, prompt(*spans))])
    assert evidence_of(example) == [SENTENCES[5]]


def test_questions_without_evidence_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path, prompt(span("shorter")), prompt(prompt_id="6"))
    assert [one.id for one in load_examples([folder])] == ["PMC42/5"]


def test_only_the_wanted_split_is_read(tmp_path: Path) -> None:
    other = prompt(span("20 min"), prompt_id="6", split="validation")
    folder = write(tmp_path, prompt(span("shorter")), other)
    options = EvidenceInferenceOptions(split="validation")
    assert [one.id for one in load_examples([folder], options)] == ["PMC42/6"]
    assert "no question of the split 'test'" in fault(folder, EvidenceInferenceOptions(split="test"))


def test_abstracts_alone_have_their_own_evidence_alone(tmp_path: Path) -> None:
    folder = write(tmp_path, prompt(span("20 min"), span("shorter")))
    (example,) = load_examples([folder], EvidenceInferenceOptions(part="abstract"))
    assert example.sentences == SENTENCES[1:5]
    assert evidence_of(example) == [SENTENCES[3]]


@pytest.mark.parametrize("longest", [1, 3, 7])
def test_windows_have_neighbouring_sentences_with_evidence(tmp_path: Path, longest: int) -> None:
    folder = write(tmp_path, prompt(span("20 min"), span("rare")))
    for seed in range(20):
        options = EvidenceInferenceOptions(max_sentences=longest, seed=seed)
        (example,) = load_examples([folder], options)
        first = SENTENCES.index(example.sentences[0])
        assert example.sentences == SENTENCES[first : first + longest]
        assert len(example.sentences) == longest
        assert evidence_of(example)


def test_windows_are_chosen_by_seed(tmp_path: Path) -> None:
    folder = write(tmp_path, prompt(span("20 min"), span("rare")))
    seeds = [EvidenceInferenceOptions(max_sentences=3, seed=seed % 10) for seed in range(20)]
    documents = [load_examples([folder], options)[0].document_id for options in seeds]
    assert documents[:10] == documents[10:]
    assert len(set(documents)) > 2


def test_long_enough_windows_are_whole_articles(tmp_path: Path) -> None:
    folder = write(tmp_path, prompt(span("20 min")))
    (example,) = load_examples([folder], EvidenceInferenceOptions(max_sentences=8))
    assert example.sentences == SENTENCES


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pmcid": "43"}, "pmcid: article '43' is not in "),
        ({"outcome": ""}, "outcome: is empty"),
        (
            {"annotations": [{"start": 2, "end": 99999}]},
            "annotations[0]: characters 2 to 99999 of an article",
        ),
        ({"annotations": [{"start": 5, "end": 5}]}, "annotations[0]: characters 5 to 5"),
        ({"annotations": [{"start": 5}]}, "annotations[0].end: is missing"),
    ],
)
def test_a_wrong_question_is_named_by_line_and_field(
    tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    folder = write(tmp_path, prompt(**changes))
    assert fault(folder).startswith(f"{folder / 'prompts.jsonl.gz'}: line 1: {told}")


def test_ids_are_used_once(tmp_path: Path) -> None:
    told = fault(write(tmp_path, prompt(span("20 min")), prompt(span("20 min"))))
    assert "prompts.jsonl.gz: line 2: prompt_id: '5' is in line 1 too" in told
