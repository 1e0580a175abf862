from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from pathlib import Path

import docx
import pypdf
import pytest
from docx.oxml import OxmlElement
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cases.formats.note_files import import_notes, read_note
from cases.formats.note_sentences import note_sentences
from cases.load import find_cases
from cases.records import Case
from cli.main import app
from storage.errors import InputError

TYPED = """\
HISTORY OF PRESENT ILLNESS:
Mr. Doe is a 65 y.o. male with CHF who
presented with dyspnea. He was given
furosemide 40 mg i.v. b.i.d. and
improved. Dr. Lee agreed.

PAST MEDICAL HISTORY
1. Aspirin 81 mg daily
2. Metoprolol 25 mg b.i.d.
- Lisinopril 5 mg
-----
"""


@pytest.mark.parametrize(
    ("note", "sentences"),
    [
        (
            TYPED,
            [
                "HISTORY OF PRESENT ILLNESS:",
                "Mr. Doe is a 65 y.o. male with CHF who presented with dyspnea.",
                "He was given furosemide 40 mg i.v. b.i.d. and improved.",
                "Dr. Lee agreed.",
                "PAST MEDICAL HISTORY",
                "1. Aspirin 81 mg daily",
                "2. Metoprolol 25 mg b.i.d.",
                "- Lisinopril 5 mg",
            ],
        ),
        (
            "WBC 12.3 high\nCXR: large right pneumothorax with mediastinal shift\nPt. afebrile\nno cough\n",
            [
                "WBC 12.3 high",
                "CXR: large right pneumothorax with mediastinal shift",
                "Pt. afebrile",
                "no cough",
            ],
        ),
        (
            "Dr. Smith saw the pt. at 8 a.m. No fever.",
            ["Dr. Smith saw the pt. at 8 a.m.", "No fever."],
        ),
        (
            "Temp. 38.5. Approx. 3 L drained. Est. GFR 30.",
            ["Temp. 38.5.", "Approx. 3 L drained.", "Est. GFR 30."],
        ),
        (
            "1. Vein thrombosis. Given by\n   Dr. Lee; reassess\n   - Weight\n2. Smoker\n  Pipe\nHome",
            ["1. Vein thrombosis.", "Given by Dr. Lee; reassess", "- Weight", "2. Smoker Pipe", "Home"],
        ),
        ("One.\r\nTwo.\r\n", ["One.", "Two."]),
        ("6 d. D/c wt 71.2 kg.", ["6 d.", "D/c wt 71.2 kg."]),
        ("Started on furosemide gtt at\n10 mg/h", ["Started on furosemide gtt at 10 mg/h"]),
        ("Given torsemide\n(40 mg daily)", ["Given torsemide (40 mg daily)"]),
        ("Given torsemide\n40 mg daily", ["Given torsemide 40 mg daily"]),
        ("Seen by Dr.\nLee. R-\nsided", ["Seen by Dr. Lee.", "R-sided"]),
        (
            "        Na   K    Cr\n03/01   131  5.2  2.1\n03/04   136       1.6",
            ["Na   K    Cr", "03/01; Na: 131; K: 5.2; Cr: 2.1", "03/04; Na: 136; Cr: 1.6"],
        ),
        (
            "Na   K   Cr\n131  1.6   2",
            ["Na   K   Cr", "Na: 131; K: 1.6; Cr: 2"],
        ),
        ("| Na | K\n03/01 | | 5.2", ["| Na | K", "03/01; K: 5.2"]),
        (
            "Na\tK\tCr\n03/01\t131\t5.2\t2.1",
            ["Na\tK\tCr", "03/01\t131\t5.2\t2.1 (columns: Na, K, Cr)"],
        ),
        ("Sodium   potassium   ok\nhigh   low   fine", ["Sodium   potassium   ok", "high   low   fine"]),
        ("Stool cultured (c. diff) today", ["Stool cultured (c. diff) today"]),
        ("Seen today. [**Last Name**] agreed.", ["Seen today.", "[**Last Name**] agreed."]),
        (
            "By [**Initial (NamePattern1) **]. [**Last Name**]",
            ["By [**Initial (NamePattern1) **]. [**Last Name**]"],
        ),
        ("Afebrile. - No cough. --", ["Afebrile.", "- No cough."]),
        (" \n---\n", []),
    ],
)
def test_a_note_as_it_was_typed(note: str, sentences: list[str]) -> None:
    assert note_sentences(note) == sentences


def boundaries(note: str, sentences: Iterable[str]) -> set[int]:
    """Where sentences end, in letters and digits of the note; repeated names of columns are passed over."""
    letters = [one for one in note if one.isalnum()]
    ends, place = set(), 0
    for sentence in sentences:
        for one in filter(str.isalnum, sentence):
            place += place < len(letters) and one == letters[place]
        ends.add(place)
    assert place == len(letters), "a word of the note is lost or moved"
    return ends - {0}


@given(st.text(st.sampled_from("aB1 .,:|()*-\t\n") | st.characters()))
def test_no_word_of_a_note_is_lost_or_moved(note: str) -> None:
    lines = [line for line in note.splitlines() if any(map(str.isalnum, line))]
    boundaries("".join(lines), note_sentences(note))


def test_thirty_notes_are_split_as_by_hand() -> None:
    """Wrapped at widths and by hand, with tables, lists, masked names and abbreviations."""
    _, *notes = (Path(__file__).parent / "hand_split_notes.txt").read_text().split("%% ")
    assert len(notes) == 30
    right = found = wanted = 0
    for marked in notes:
        by_hand = marked.partition("\n")[2]
        note = by_hand.replace("\N{PILCROW SIGN}", "")
        ours = boundaries(note, note_sentences(note))
        theirs = boundaries(note, by_hand.split("\N{PILCROW SIGN}"))
        right, found, wanted = right + len(ours & theirs), found + len(ours), wanted + len(theirs)
    assert wanted > 300
    assert 2 * right / (found + wanted) >= 0.97


def write(folder: Path, **files: str | bytes) -> None:
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def run(*arguments: str | Path) -> tuple[int, str, str]:
    ended = CliRunner().invoke(app, ["cases", "import", *map(str, arguments)])
    if isinstance(ended.exception, InputError):
        return 2, ended.stdout, str(ended.exception)
    return ended.exit_code, ended.stdout, ended.stderr


def test_files_of_all_kinds_become_one_case_file(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    write(notes, a__txt="Fell at home.\nVitamin K was given.", a__question__txt="Why was\nvitamin K given?\n")
    write(notes, b__txt="A drain was placed.", b__narrative__txt="Why the tube?")
    write(tmp_path, t__csv='\ufeffID;Ward;Question;Note\r\n7;3B;"Why; then?";"One; two.\r\nThree."\r\n')
    out = tmp_path / "cases.jsonl"
    code, shown, error = run(notes, tmp_path / "t.csv", "--question", "Why?", "--out", out)
    assert (code, error) == (0, "")
    assert "case a: Why was vitamin K given?" in shown and "2  Vitamin K was given." in shown
    assert "1 column (ward)" in " ".join(shown.split()) and "3 cases with 5 sentences" in shown
    read = [case for case in find_cases([out]) if isinstance(case, Case)]
    assert [(case.id, case.question, case.narrative, len(case.sentences)) for case in read] == [
        ("a", "Why was vitamin K given?", "", 2),
        ("b", "Why?", "Why the tube?", 1),
        ("7", "Why; then?", "", 2),
    ]


def test_a_long_note_is_cut_with_a_count_and_nothing_is_written_without_out(tmp_path: Path) -> None:
    write(tmp_path, a__txt="".join(f"Finding {number}.\n" for number in range(30)))
    code, shown, _ = run(tmp_path / "a.txt", "-q", "Why?", "--rows", "3")
    assert code == 0 and "... and 27 more" in shown and "Finding 3" not in shown
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_files_of_windows_are_read_where_they_say_so(tmp_path: Path) -> None:
    write(tmp_path, a__txt="Café.".encode("cp1252"), b__txt="Café.".encode("utf-16"))
    for name, encoding in (("a.txt", "cp1252"), ("b.txt", "utf-16")):
        (case,) = import_notes([tmp_path / name], question="Why?", encoding=encoding).cases
        assert case.sentences[0].text == "Café."
    with pytest.raises(InputError, match="no encoding 'utf-9'"):
        read_note(tmp_path / "a.txt", "utf-9")


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.txt", "", "a.txt: its note is empty"),
        ("a.txt", "One.\na\0b", "a.txt: line 2: has a NUL byte"),
        ("a.txt", "One.".encode("utf-16-be"), "give --encoding utf-16-be"),
        ("a.txt", "PK\x03\x04\x14", "a.txt: is a Word or zip file. Give it the suffix .docx"),
        ("a.txt", "%PDF-1.7", "a.txt: is a PDF"),
        ("a.md", b"\xd0\xcf\x11\xe0\xa1", "a.md: is a file of an old Word or Excel. Save it as .docx"),
        ("a.doc", "x", "a.doc: .doc is not read. Save it as .docx or text"),
        ("t.xlsx", "x", "t.xlsx: .xlsx is not read. Save it as .csv"),
        ("a.docx", "PK\x03\x04\x14", "a.docx: cannot be read as a Word file"),
        (
            "a.txt",
            "One.\ncaf\xe9".encode("cp1252"),
            "a.txt: line 2: not UTF-8. Save it as",
        ),
        ("a.txt", "One.".encode("utf-16"), "a.txt: is in UTF-16"),
        ("a.txt", "x" * (5 << 20), "a.txt: is longer than 4 MB"),
        ("a.txt", "x" * (2 << 20), "a.txt: its note has 2,097,152 characters"),
        ("-a.txt", "One.", "'-a' is not a valid case id"),
        ("t.csv", "", "t.csv: is empty"),
        ("t.csv", "id,note\n", "t.csv: names columns, and has no case below them"),
        ("t.csv", "id,text\n1,x\n", "no column 'note' among 'id', 'text'. The first line names the columns"),
        ("t.csv", "note,note\nx,y\n", "t.csv: line 1: two columns are called 'note'"),
        ("t.csv", "id,note\n1,One.\n2,\n", "t.csv: line 3: its note is empty"),
        ("t.csv", "id,note\n1,One.\n,Two.\n", "t.csv: line 3: id: is empty"),
        ("t.csv", "id,note\n1,One, two.\n", "t.csv: line 2: 3 cells, and the first line names 2 columns"),
        ("t.csv", 'id,note\n1,"a\nb"\n1,c\n', "t.csv: line 4: case id '1' is also used by"),
        ("t.csv", 'id,note\n1,"a\n', "t.csv: line 2: not CSV"),
        ("t.csv", "id,note\na\x1b[2J,One.\n", "'a\ufffd[2J' is not a valid case id"),
        ("t.csv", f"id,note\n{'x' * 129},One.\n", "t.csv: line 2: case id of 129 characters. At most 128"),
        ("\udcff.txt", "One.", "its name is not UTF-8, so it makes no case id"),
        ("t.pdf", "x", "t.pdf: cannot be read as a PDF"),
        ("t.jsonl", "{}", "t.jsonl: is a case file already"),
    ],
)
def test_bad_input_is_named_by_file_and_line_and_writes_nothing(
    tmp_path: Path, name: str, content: str | bytes, fault: str
) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    out = tmp_path / "cases.jsonl"
    code, _, error = run(tmp_path / name, "-q", "Why?", "--out", out)
    assert code == 2 and fault in error and not out.exists()


def test_a_note_without_a_question_says_where_to_write_it(tmp_path: Path) -> None:
    write(tmp_path, a__txt="One.", t__csv="id,note\n1,One.\n")
    faults = [str(one) for one in import_notes([tmp_path / "a.txt", tmp_path / "t.csv"]).faults]
    assert "a.question.txt next to it" in faults[0] and "t.csv: line 2" in faults[1]


def test_a_table_of_nothing_but_faults_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,question,note\n" + "\n".join(f"{n},Why?," for n in range(3000)))
    found = import_notes([tmp_path / "t.csv"])
    assert len(found.faults) == 1000 and found.given_up
    _, _, error = run(tmp_path / "t.csv")
    assert "... and at least 990 more; nothing was written" in error


def pdf(page: str, *, resources: str = "") -> bytes:
    """A PDF of one page with the lines of a text, or only what its resources name."""
    shown = " ".join(f"({line}) '" for line in page.splitlines())
    stream = f"BT /F 11 Tf 14 TL 60 760 Td {shown} ET"
    objects = (
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F 5 0 R>>{resources}>>>>",
        f"<</Length {len(stream)}>>stream\n{stream}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    written, places = "%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(written))
        written += f"{number} 0 obj{one}endobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (
        f"{written}xref\n0 6\n0000000000 65535 f \n{table}trailer<</Size 6/Root 1 0 R>>\n"
        f"startxref\n{len(written)}\n%%EOF"
    ).encode()


def word(path: Path) -> None:
    document = docx.Document()
    document.add_heading("Hospital course", 1)
    wrapped = document.add_paragraph("Started on furosemide gtt at 10 mg/h. ")
    document.add_paragraph("Weigh daily", style="List Bullet")
    table = document.add_table(rows=2, cols=3)
    for cell, text in zip(table._cells, ("", "Na", "K", "03/01", "131", ""), strict=True):
        cell.text = text
    # As Word has a tracked insertion, which is not among the paragraph's own runs.
    inserted = OxmlElement("w:ins")
    inserted.append(wrapped.add_run("Improved.")._r)
    wrapped._p.append(inserted)
    document.save(str(path))


def test_word_and_pdf_and_markdown_are_notes_in_a_folder_as_by_name(tmp_path: Path) -> None:
    word(tmp_path / "w.docx")
    write(tmp_path, p__pdf=pdf("Given torsemide at\n40 mg daily."), m__md="# Plan\n\nRest.", x__exe="")
    write(tmp_path, t__csv="id,note\n7,Rest.\n")
    named = [tmp_path / name for name in ("m.md", "p.pdf", "t.csv", "w.docx")]
    by_name = import_notes(named, question="Why?")
    found = import_notes([tmp_path], question="Why?")
    assert found.cases == by_name.cases and found.unread == [tmp_path / "x.exe"]
    assert {case.id: [one.text for one in case.sentences] for case in found.cases} == {
        "m": ["# Plan", "Rest."],
        "p": ["Given torsemide at 40 mg daily."],
        "7": ["Rest."],
        "w": [
            "Hospital course",
            "Started on furosemide gtt at 10 mg/h.",
            "Improved.",
            "- Weigh daily",
            "| Na | K",
            "03/01; Na: 131",
        ],
    }


@pytest.mark.parametrize(("name", "package"), [("w.docx", "docx"), ("p.pdf", "pypdf")])
def test_a_missing_extra_is_named(
    tmp_path: Path, name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    word(tmp_path / "w.docx")
    write(tmp_path, p__pdf=pdf("Rest."))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"needs an extra. pip install -e '\.\[documents\]'"):
        read_note(tmp_path / name)


def test_a_folder_without_notes_and_a_word_file_that_unpacks_without_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="no note in this folder"):
        import_notes([tmp_path])
    word(tmp_path / "w.docx")
    monkeypatch.setattr("cases.formats.office_files._MAX_UNPACKED", 1 << 10)
    with pytest.raises(InputError, match="unpacks to more than"):
        read_note(tmp_path / "w.docx")


def test_a_scan_and_a_protected_file_are_refused(tmp_path: Path) -> None:
    write(tmp_path, scan__pdf=pdf("", resources="/XObject<</Im 5 0 R>>"))
    writer = pypdf.PdfWriter(io.BytesIO(pdf("Rest.")))
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(tmp_path / "locked.pdf")
    for name, fault in (("scan", "page 1 is a picture without text"), ("locked", "protected by a password")):
        with pytest.raises(InputError, match=fault):
            read_note(tmp_path / f"{name}.pdf")


def test_columns_go_by_the_names_that_a_table_has(tmp_path: Path) -> None:
    write(tmp_path, t__csv="MRN,note,Ask,Body\n7,not this,Why?,Rest.\n")
    named = ("--note-column", "body", "--question-column", "ask", "--id-column", "mrn")
    code, shown, _ = run(tmp_path / "t.csv", *named)
    assert code == 0 and "case 7: Why?\n1  Rest." in shown and "1 column (note)" in " ".join(shown.split())
    code, _, error = run(tmp_path / "t.csv", *named[:-1], "nr")
    assert code == 2 and "no column 'nr' among 'mrn', 'note', 'ask', 'body'" in error
