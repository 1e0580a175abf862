from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.formats.archehr_key import read_archehr_key, write_archehr_key
from cases.records import AnswerSentence, Gold, Intent
from storage.errors import InputError
from tests.cases.strategies import gold as golds
from tests.cases.strategies import ids


def read(tmp_path: Path, *entries: object) -> dict[str, Gold]:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(entries))
    return read_archehr_key(path)


def fault(tmp_path: Path, *entries: object) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, *entries)
    assert caught.value.path == str(tmp_path / "key.json")
    return caught.value.fault


def citations(tmp_path: Path, **fields: object) -> tuple[str, ...] | None:
    entry = {"case_id": "1", "clinician_answer_sentences": [{"id": "1", "text": "So.", **fields}]}
    sentences = read(tmp_path, entry)["1"].answer_sentences
    assert sentences is not None
    return sentences[0].citations


def test_full_entry(tmp_path: Path) -> None:
    entry = {
        "case_id": "12",
        "clinician_answer": "She slept [2,3].",
        "clinician_answer_without_citations": " She slept. ",
        "clinician_answer_sentences": [{"id": 1, "text": "She slept.", "citations": "2,3"}],
        "answers": [
            {"sentence_id": "2", "relevance": "essential"},
            {"sentence_id": 3, "relevance": "not-relevant"},
        ],
        "intent": {"primary": "medication_safety", "risk_level": "low"},
        "reviewer": "unknown to us",
    }
    assert read(tmp_path, entry) == {
        "12": Gold(
            labels={"2": "essential", "3": "not-relevant"},
            answer="She slept.",
            answer_sentences=(AnswerSentence("1", "She slept.", ("2", "3")),),
            intent=Intent("medication_safety", None, "low"),
        )
    }


def test_case_id_may_be_a_number(tmp_path: Path) -> None:
    assert read(tmp_path, {"case_id": 7}) == {"7": Gold()}


@pytest.mark.parametrize("nothing", [None, []])
def test_nothing_labelled_is_none(tmp_path: Path, nothing: object) -> None:
    assert (
        read(tmp_path, {"case_id": "1", "answers": nothing, "clinician_answer_sentences": nothing})["1"]
        == Gold()
    )


@pytest.mark.parametrize(
    ("given_as", "expected"),
    [
        ("3,4", ("3", "4")),
        (" 3 , 4, ", ("3", "4")),
        (["3", 4], ("3", "4")),
        (["3,4"], ("3", "4")),
        (5, ("5",)),
        ("2-4", ("2", "3", "4")),
        ("1, 3 \u2013 5", ("1", "3", "4", "5")),
        ("3,3,2-3", ("3", "2")),
        ("a-b", ("a-b",)),
        ("", ()),
        ([], ()),
        (None, None),
    ],
)
def test_citations(tmp_path: Path, given_as: object, expected: tuple[str, ...] | None) -> None:
    assert citations(tmp_path, citations=given_as) == expected


def test_citations_left_out(tmp_path: Path) -> None:
    assert citations(tmp_path) is None


def test_inline_citations_are_taken_out(tmp_path: Path) -> None:
    text = "It was held [3, 4]. Then [sic] resumed [5-7][9]."
    answer = read(tmp_path, {"case_id": "1", "clinician_answer": text})["1"].answer
    assert answer == "It was held. Then [sic] resumed."


def test_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_bytes(b'\xef\xbb\xbf[{"case_id": "1"}]')
    assert read_archehr_key(path) == {"1": Gold()}


def test_wrong_relevance_names_case_and_field(tmp_path: Path) -> None:
    good = {"sentence_id": "1", "relevance": "essential"}
    entry = {"case_id": 12, "answers": [good, good, good, {"sentence_id": "4", "relevance": "important"}]}
    assert fault(tmp_path, entry) == (
        "case '12': answers[3].relevance: 'important' is not one of essential, supplementary, not-relevant"
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, "entry 1: case_id: is missing"),
        ({"case_id": " "}, "case ' ': case_id: is empty"),
        ({"case_id": True}, "case_id: True should be a valid string"),
        ("12", "entry 1: '12' should be a valid dictionary"),
        (
            {"case_id": "1", "answers": [{"relevance": "essential"}]},
            "case '1': answers[0].sentence_id: is missing",
        ),
        ({"case_id": "1", "answers": {}}, "case '1': answers: {} should be a valid list"),
        ({"case_id": "1", "clinician_answer": 3}, "case '1': clinician_answer: 3 should be a valid string"),
        ({"case_id": "1", "clinician_answer": "\ud800"}, "case '1': clinician_answer: character 1 is half"),
        (
            {"case_id": "1", "intent": {"primary": "gossip"}},
            "intent.primary: 'gossip' is not one of procedure_just",
        ),
        (
            {"case_id": "1", "intent": {"primary": "malignancy_concern", "risk_level": "none"}},
            "low, moderate, high",
        ),
    ],
)
def test_wrong_entry(tmp_path: Path, entry: object, said: str) -> None:
    assert said in fault(tmp_path, entry)


@pytest.mark.parametrize("wrong", [{"3": 1}, 3.5, True, [None], "4-2", "1-999999999"])
def test_wrong_citations(tmp_path: Path, wrong: object) -> None:
    sentence = {"id": "1", "text": "So.", "citations": wrong}
    said = fault(tmp_path, {"case_id": "1", "clinician_answer_sentences": [sentence]})
    assert said.startswith("case '1': clinician_answer_sentences[0].citations: ")


def test_sentence_labelled_two_ways(tmp_path: Path) -> None:
    answers = [{"sentence_id": "2", "relevance": relevance} for relevance in ("essential", "not-relevant")]
    assert fault(tmp_path, {"case_id": "1", "answers": answers}) == (
        "case '1': answers[1].relevance: sentence '2' is not-relevant here and essential above"
    )


def test_duplicate_case_id(tmp_path: Path) -> None:
    assert fault(tmp_path, {"case_id": "1"}, {"case_id": 1}) == "case '1': case_id is used twice"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'[\n{"case_id": }]', "line 2, column 13: Expecting value"),
        (b'{"case_id": "1"}', "top level is not an array"),
        (b'["\xff"]', "byte 3 is not UTF-8"),
        (b"[" * 200_000, "cannot be read as JSON"),
    ],
)
def test_unusable_file(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "key.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_archehr_key(path)
    assert said in caught.value.fault


@given(st.dictionaries(ids, golds, max_size=3))
@settings(max_examples=80, deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, gold: dict[str, Gold]) -> None:
    path = tmp_path_factory.mktemp("key") / "key.json"
    write_archehr_key(path, gold)
    assert read_archehr_key(path) == gold


def test_written_as_released_keys_are(tmp_path: Path) -> None:
    sentences = (
        AnswerSentence("1", "She slept.", ("3", "4")),
        AnswerSentence("2", "She ate", ("5",)),
        AnswerSentence("3", "Why?", ()),
        AnswerSentence("4", "Unknown.", None),
    )
    path = tmp_path / "key.json"
    write_archehr_key(path, {"1": Gold({"3": "essential"}, "She slept. She ate Why? Unknown.", sentences)})
    assert json.loads(path.read_text()) == [
        {
            "case_id": "1",
            "clinician_answer": "She slept [3,4]. She ate [5] Why? Unknown.",
            "clinician_answer_without_citations": "She slept. She ate Why? Unknown.",
            "clinician_answer_sentences": [
                {"id": "1", "text": "She slept.", "citations": "3,4"},
                {"id": "2", "text": "She ate", "citations": "5"},
                {"id": "3", "text": "Why?", "citations": ""},
                {"id": "4", "text": "Unknown."},
            ],
            "answers": [{"sentence_id": "3", "relevance": "essential"}],
        }
    ]


@pytest.mark.parametrize("cited", ["2-4", "3,4", " 3"])
def test_citation_that_would_read_as_another_is_not_written(tmp_path: Path, cited: str) -> None:
    gold = Gold(answer_sentences=(AnswerSentence("1", "So.", (cited,)),))
    with pytest.raises(InputError, match="would be read as something else"):
        write_archehr_key(tmp_path / "key.json", {"1": gold})


WEAK = {"case_id": "1", "label_source": "weak", "answers": [{"sentence_id": "2", "relevance": "essential"}]}


def test_weak_labels_are_marked_in_the_file_and_gold_is_not(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    write_archehr_key(
        path, {"1": Gold({"2": "essential"}, label_source="weak"), "2": Gold({"2": "essential"})}
    )
    weak, gold = json.loads(path.read_text())
    assert weak == WEAK
    assert "label_source" not in gold


def test_without_labels_nothing_is_weak(tmp_path: Path) -> None:
    assert read(tmp_path, {"case_id": "1", "label_source": "weak", "answers": []})["1"] == Gold()


def test_an_unknown_label_source_is_refused(tmp_path: Path) -> None:
    said = fault(tmp_path, {**WEAK, "label_source": "silver"})
    assert said == "case '1': label_source: 'silver' is not one of gold, weak"


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("key.csv", "case_id,sentence_id,label\n1,2,essential\n1,3,Not relevant\n7,1,supplementary\n"),
        (
            "key.csv",
            "\ufeffSentence_ID;Label;text;Case_ID\r\n2;ESSENTIAL;a;1\r\n3;not-relevant;;1\r\n1;supplementary;c;7",
        ),
        (
            "key.tsv",
            "case_id\tsentence_id\tlabel\n\n1\t2\tessential\n7\t1\tsupplementary\n1\t3\tnot_relevant\n",
        ),
    ],
)
def test_labels_of_a_spreadsheet(tmp_path: Path, name: str, table: str) -> None:
    (tmp_path / name).write_text(table)
    assert read_archehr_key(tmp_path / name) == {
        "1": Gold(labels={"2": "essential", "3": "not-relevant"}),
        "7": Gold(labels={"1": "supplementary"}),
    }


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("", "is empty. The first line of a key names the columns: case_id, sentence_id, label"),
        ("case_id,sentence_id\n1,1\n", "line 1: no column 'label' among 'case_id', 'sentence_id'"),
        ("case_id,sentence_id,label\n", "names columns, and has no label below them"),
        ("case_id,sentence_id,label\n1,1,essential\n1,2,\n", "line 3: label: is empty. Fill the cell"),
        (
            "case_id,sentence_id,label\n1,1,vital\n",
            "line 2: label: 'vital' is unknown. Labels are: essential",
        ),
        ("case_id,sentence_id,label\n1,1,essential\n1,1,essential\n", "line 3: sentence '1' of case '1' is"),
        ("case_id,sentence_id,label\n1,\xe9,essential\n", "line 2: not UTF-8. Save it as CSV UTF-8"),
    ],
)
def test_a_table_that_is_no_key_is_refused_by_line(tmp_path: Path, table: str, fault: str) -> None:
    (tmp_path / "key.csv").write_bytes(table.encode("cp1252"))
    with pytest.raises(InputError) as caught:
        read_archehr_key(tmp_path / "key.csv")
    assert fault in str(caught.value)
