"""Every rule of the official scorers that costs points: found, with its severity."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cases.submissions.archehr import Expected, KnownIds, Task
from cases.submissions.task import Fault
from cases.submissions.tasks import ARCHEHR

KNOWN = {"7": KnownIds(frozenset({"1", "2", "3"}), frozenset({"a", "b"}))}
FORTY = " ".join(["word"] * 40)


def found(task: Task, value: object, expected: Expected | None = KNOWN) -> list[Fault]:
    field = "answer" if task == "2025" else "prediction"
    return ARCHEHR[task].find_faults([{"case_id": "7", field: value}], expected)


def only(faults: Sequence[Fault]) -> tuple[str, str]:
    (fault,) = faults
    assert fault.case == "7"
    assert fault.remedy
    return fault.severity, f"{fault.place}: {fault.fault}"


@pytest.mark.parametrize(
    ("task", "value"),
    [
        ("2025", "She slept (4 mg in 2019). |1,2|\nNo citation here.\n\nReally? |3|."),
        ("2025", "First |1|\r\nSecond |2|"),
        ("2026-1", "Why was it done?"),
        ("2026-2", []),
        ("2026-2", ["1", "1", "3"]),
        ("2026-3", " So it was (2019), with 4 mg [sic]. "),
        ("2026-4", []),
        ("2026-4", [{"answer_id": "a", "evidence_id": ["1", "2"]}, {"answer_id": "a", "evidence_id": []}]),
    ],
)
def test_nothing_is_found_in_a_sound_entry(task: Task, value: object) -> None:
    assert found(task, value) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("So. |1, 2|", "line 1: blanks count as part of an id: ' 2' match no sentence"),
        ("So. |1-3|", "line 1: read as one id, not several: '1-3'"),
        ("So. |1;3|", "line 1: read as one id, not several: '1;3'"),
        ("So. |1|\nOr (1).", "line 2: '(1)' is not a citation here and stays in the text"),
        ("So. |1|\nOr [1, 2].", "line 2: '[1, 2]' is not a citation here and stays in the text"),
        ("So |1| |2|", "line 1: only the last citation of a line counts; '|1|' stays in the text"),
        ("A |1| B |2|", "line 1: only the last citation of a line counts; '|1|' stays in the text"),
        ("A. |1| And more", "line 1: what follows the last pipe is dropped: 'And more'"),
        ("A. |1|\n\nB |2", "line 3: one pipe alone cites nothing and stays in the text"),
        ("So. |1,9|", "answer: cites '9', which the note does not have: false positives"),
        (
            f"{FORTY} |1|\n{FORTY} |2|",
            "answer: 80 words, cut to the first 75; citations of cut lines still count",
        ),
    ],
)
def test_2025_is_penalised_in_silence(answer: str, words: str) -> None:
    assert only(found("2025", answer)) == ("penalised", words)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("So. (1) [2]", "answer: no citation in it"),
        ("", "answer: no citation in it"),
        ("So. ||", "answer: no citation in it"),
        ("|1|", "answer: no text, only citations; the scorer accepts it and then divides by zero"),
    ],
)
def test_2025_is_refused(answer: str, words: str) -> None:
    assert only(found("2025", answer)) == ("refused", words)


@pytest.mark.parametrize("task", ["2026-1", "2026-3"])
@pytest.mark.parametrize("mark", ["|1|", "[1,2]", "(3)"])
def test_citations_left_in_a_text_of_2026_are_penalised(task: Task, mark: str) -> None:
    severity, words = only(found(task, f"Why was it {mark} done?"))
    assert (severity, repr(mark) in words) == ("penalised", True)


@pytest.mark.parametrize(("task", "limit"), [("2026-1", 15), ("2026-3", 75)])
def test_texts_over_the_limit_are_penalised(task: Task, limit: int) -> None:
    assert found(task, " ".join(["word"] * limit)) == []
    words = f"prediction: {limit + 1} words, cut to the first {limit}"
    assert only(found(task, " ".join(["word"] * (limit + 1)))) == ("penalised", words)


def test_line_breaks_within_a_text_are_penalised() -> None:
    severity, words = only(found("2026-3", "So.\nThus."))
    assert (severity, "rougeLsum" in words) == ("penalised", True)


@pytest.mark.parametrize("value", ["", " \n", None, 3])
def test_no_text_is_refused(value: object) -> None:
    (fault,) = found("2026-3", value)
    assert fault.severity == "refused"


@pytest.mark.parametrize(
    ("task", "value", "words"),
    [
        ("2026-2", ["1", "9", "1-3"], "prediction: '9', '1-3' is not a sentence of the note"),
        ("2026-2", [" 1"], "prediction: blanks count as part of an id: ' 1' is not a sentence of the note"),
        ("2026-2", [""], "prediction: blanks count as part of an id: '' is not a sentence of the note"),
        (
            "2026-4",
            [{"answer_id": "c", "evidence_id": []}],
            "prediction[0].answer_id: 'c' is not a sentence of the clinician's answer",
        ),
        (
            "2026-4",
            [{"answer_id": "a", "evidence_id": ["9"]}],
            "prediction[0].evidence_id: '9' is not a sentence of the note",
        ),
    ],
)
def test_unknown_ids_of_2026_are_refused(task: Task, value: object, words: str) -> None:
    assert only(found(task, value)) == ("refused", words)


def test_ids_with_blanks_are_refused_without_a_key_too() -> None:
    (fault,) = found("2026-2", ["1 "], None)
    assert fault.severity == "refused"


def test_unknown_ids_pass_where_nothing_is_known() -> None:
    assert found("2026-2", ["9"], None) == []
    assert found("2026-2", ["9"], {"7": KnownIds()}) == []
    assert found("2025", "So. |9|", None) == []


def test_missing_and_extra_cases_are_refused() -> None:
    entries = [{"case_id": "8", "prediction": []}]
    assert [(f.severity, f.line) for f in ARCHEHR["2026-2"].find_faults(entries, KNOWN)] == [
        ("refused", "case '7': missing"),
        ("refused", "case '8': not a case of the key"),
    ]
    assert ARCHEHR["2026-2"].find_faults(entries, None) == []


def test_duplicate_cases_are_penalised() -> None:
    entry = {"case_id": "7", "prediction": ["1"]}
    assert only(ARCHEHR["2026-2"].find_faults([entry, entry], KNOWN)) == (
        "penalised",
        ": 2 entries, each of which is scored",
    )


def test_a_number_for_an_id_is_refused_once() -> None:
    (fault,) = ARCHEHR["2026-2"].find_faults([{"case_id": 7, "prediction": []}], KNOWN)
    assert (fault.severity, fault.case, fault.remedy) == ("refused", None, 'Write "7"')


def test_no_case_at_all_is_refused() -> None:
    assert [fault.fault for fault in ARCHEHR["2026-2"].find_faults([], None)] == ["no case in it"]


def test_every_fault_of_an_entry_is_found_and_the_worst_comes_first() -> None:
    entries = [
        {"case_id": "7", "prediction": "So.\nThus."},
        {"case_id": "8", "prediction": ""},
        {"prediction": 3},
    ]
    assert [(fault.severity, fault.line) for fault in ARCHEHR["2026-3"].find_faults(entries, None)] == [
        ("refused", "case '8': prediction: it is empty"),
        ("refused", "entry 3: no field 'case_id'"),
        ("refused", "entry 3: prediction: the number 3, not text"),
        (
            "penalised",
            "case '7': prediction: line breaks in it change rougeLsum, which takes each line for a sentence",
        ),
    ]


def test_skipped_checks_are_named() -> None:
    assert ARCHEHR["2026-4"].skipped_checks(KNOWN) == []
    assert len(ARCHEHR["2026-4"].skipped_checks(None)) == 3
    assert len(ARCHEHR["2026-1"].skipped_checks(None)) == 1
    assert ARCHEHR["2025"].skipped_checks({"7": KnownIds()}) == [
        "unknown sentence ids (--key, or --cases with notes)"
    ]
