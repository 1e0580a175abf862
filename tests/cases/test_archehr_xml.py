from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.formats.archehr_xml import read_archehr_xml
from cases.records import Case, InvalidCase, Phrase, Sentence
from storage.errors import InputError
from tests.cases.strategies import xml_cases
from tests.cases.xml_writer import write_archehr_xml

FULL = """<?xml version='1.0' encoding='UTF-8'?>
<annotations>
    <case id="31">
        <clinical_specialty>
Neurology
        </clinical_specialty>
        <patient_narrative>
My aunt fainted on the ferry.

Why did they keep her overnight?
        </patient_narrative>
        <patient_question>
            <phrase id="0" start_char_index="31">
Why did they
keep her overnight?
            </phrase>
        </patient_question>
        <clinician_question>
Why was she
            observed?
        </clinician_question>
        <annotator_remark><deep><case id="x"/></deep></annotator_remark>
        <note_excerpt>
Syncope.

Observed on telemetry.
        </note_excerpt>
        <note_excerpt_sentences>
            <sentence id="0" paragraph_id="1" start_char_index="0" length="8">
Syncope.
            </sentence>
            <sentence id="7b" paragraph_id="2" start_char_index="0">
Observed <!-- a remark -->on
telemetry.
            </sentence>
        </note_excerpt_sentences>
    </case>
</annotations>
"""


def read(tmp_path: Path, content: str | bytes) -> list[Case | InvalidCase]:
    path = tmp_path / "cases.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_archehr_xml(path))


def sentences(*elements: str) -> str:
    inner = "\n".join(elements)
    return (
        '<annotations>\n<case id="5"><note_excerpt_sentences>\n'
        f"{inner}\n</note_excerpt_sentences></case>\n</annotations>"
    )


def fault(tmp_path: Path, content: str) -> str:
    (case,) = read(tmp_path, content)
    assert isinstance(case, InvalidCase)
    assert case.id == "5"
    return case.fault


def test_full_case_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, FULL) == [
        Case(
            id="31",
            narrative="My aunt fainted on the ferry.\n\nWhy did they keep her overnight?",
            question="Why was she observed?",
            sentences=(
                Sentence("0", "Syncope.", "1", 0),
                Sentence("7b", "Observed on telemetry.", "2", 0),
            ),
            phrases=(Phrase("0", "Why did they keep her overnight?", 31),),
            specialty="Neurology",
            note="Syncope.\n\nObserved on telemetry.",
        )
    ]


def test_every_child_may_be_missing(tmp_path: Path) -> None:
    assert read(tmp_path, '<annotations><case id="1"/></annotations>') == [Case("1", "", "", ())]


def test_utf16_is_read(tmp_path: Path) -> None:
    content = FULL.replace("UTF-8", "UTF-16").replace("Syncope.", "Ohnmacht \u00e4.").encode("utf-16")
    (case,) = read(tmp_path, content)
    assert isinstance(case, Case)
    assert case.sentences[0].text == "Ohnmacht \u00e4."


def test_sentence_without_id_names_its_line_and_the_one_before(tmp_path: Path) -> None:
    content = sentences('<sentence id="7">A.</sentence>', "<sentence>B.</sentence>")
    assert fault(tmp_path, content) == "line 4: sentence without id after sentence '7'"


def test_no_sentence_id_at_all(tmp_path: Path) -> None:
    content = sentences("<sentence>A.</sentence>", "<sentence>B.</sentence>")
    assert fault(tmp_path, content) == "line 3: sentence without id before any other"


def test_duplicate_sentence_id(tmp_path: Path) -> None:
    content = sentences('<sentence id="7">A.</sentence>', '<sentence id=" 7 ">B.</sentence>')
    assert fault(tmp_path, content) == "line 4: sentence id '7' is used twice"


def test_sentence_without_text(tmp_path: Path) -> None:
    assert (
        fault(tmp_path, sentences('<sentence id="7"> \n </sentence>')) == "line 3: sentence '7' has no text"
    )


def test_start_index_that_is_no_number(tmp_path: Path) -> None:
    content = sentences('<sentence id="7" start_char_index="x">A.</sentence>')
    assert fault(tmp_path, content) == "line 3: start_char_index 'x' is not a whole number"


def test_case_without_id_is_named_by_its_line(tmp_path: Path) -> None:
    found = read(tmp_path, "<annotations>\n\n<case/></annotations>")
    assert found == [InvalidCase("line 3", "line 3: case without id")]


def test_cases_around_an_invalid_one_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, '<annotations><case id="1"/><case/><case id="3"/></annotations>')
    assert [case.id for case in found] == ["1", "line 1", "3"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "line 1, column 1: no element found"),
        ("no XML", "line 1, column 1: Start tag expected"),
        ("<annotations>\n<case id='1'></annotations>", "line 2, column 28: Opening"),
        ("<annotations><case id='1'>", "Premature end of data"),
        (
            "<annotations><case id='1'>&later;</case></annotations>",
            "line 1, column 34: Entity 'later' not defined",
        ),
        (b"<annotations>\n\xff</annotations>", "line 2"),
        ("<cases><case id='1'/></cases>", "its root is <cases>"),
        ("<annotations><other/></annotations>", "no <case> in it"),
    ],
)
def test_unusable_file(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    assert said in caught.value.fault
    assert caught.value.path == str(tmp_path / "cases.xml")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        list(read_archehr_xml(tmp_path / "none.xml"))


def test_fault_at_the_end_leaves_the_cases_before_it(tmp_path: Path) -> None:
    path = tmp_path / "cut.xml"
    path.write_text('<annotations><case id="1"/>' + " " * 200_000 + "<case id='2'>")
    cases = read_archehr_xml(path)
    assert next(cases).id == "1"
    with pytest.raises(InputError):
        next(cases)


@pytest.mark.parametrize(
    "place", ['<case id="&l9;"/>', '<case id="1"><note_excerpt>&l9;</note_excerpt></case>']
)
def test_entity_bomb_is_refused(tmp_path: Path, place: str) -> None:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE annotations [<!ENTITY l0 "lol">{entities}]><annotations>{place}</annotations>'
    with pytest.raises(InputError, match="document type declaration"):
        read(tmp_path, bomb)


def test_external_entity_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    declared = f'<!DOCTYPE annotations [<!ENTITY s SYSTEM "{(tmp_path / "secret").as_uri()}">]>'
    with pytest.raises(InputError, match="document type declaration"):
        read(tmp_path, f'{declared}<annotations><case id="1">&s;</case></annotations>')


def written(path: Path, cases: Sequence[Case]) -> list[Case | InvalidCase]:
    write_archehr_xml(path, cases)
    return list(read_archehr_xml(path))


@given(st.lists(xml_cases, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, cases: list[Case]) -> None:
    assert written(tmp_path_factory.mktemp("xml") / "cases.xml", cases) == cases


def test_long_narrative(tmp_path: Path) -> None:
    narrative = "I worry. " * 120_000 + "Why?"
    (case,) = written(tmp_path / "cases.xml", [Case("1", narrative, "", ())])
    assert isinstance(case, Case)
    assert case.narrative == narrative


def test_note_beyond_the_parsers_usual_limit(tmp_path: Path) -> None:
    (case,) = written(tmp_path / "cases.xml", [Case("1", "", "", (), note="x" * 20_000_000)])
    assert isinstance(case, Case)
    assert len(case.note) == 20_000_000


def test_memory_is_flat(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.xml"
        note = tuple(Sentence(str(n), f"Finding {n}.") for n in range(10))
        write_archehr_xml(path, (Case(str(n), "I worry.", "Why?", note) for n in range(count)))
        tracemalloc.start()
        assert sum(1 for _ in read_archehr_xml(path)) == count
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak(4000) < 3 * peak(400)
