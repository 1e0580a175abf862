"""The checks of a statement's details, on invented sentences."""

from __future__ import annotations

import pytest

from cases.records import Sentence
from nodes.verification.negations import clauses, denying_sentences, repeats_denial
from nodes.verification.text_checks import check_text, named_drugs, nearest
from nodes.verification.words import plain, quantities


def note(*texts: str) -> list[Sentence]:
    return [Sentence(str(number), text) for number, text in enumerate(texts, start=1)]


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("Bisoprolol 2.5 mg was begun.", "Bisoprolol 2500 mcg begun."),
        ("The cast stays on for two weeks.", "Cast for 14 days."),
        ("The cast stays on for 2\u20133 weeks.", "Cast for two to three weeks."),
        ("Her ferritin was about 110.", "Ferritin 104 ng/mL."),
        ("Both drains were removed on day 4.", "Hospital day 4: drains removed."),
        ("The swelling is 1,200 mL.", "Swelling of 1.2 L."),
        ("Surgery is on 3 May 2031.", "Surgery 2031-05-03."),
        ("The left hip was replaced.", "Total replacement of the left hip."),
        ("He was given paracetamol by mouth.", "Acetaminophen PO given."),
        ("Amiodarone was stopped.", "Amiodarone discontinued."),
        ("He should avoid naproxen.", "Do not take naproxen."),
        ("The graft was not swollen and he walks.", "He walks; graft not swollen."),
        ("Ferritin fell and sodium rose.", "Sodium rose to 139, ferritin fell."),
        ("The pain did not increase.", "Pain decreased."),
        ("No abscess was seen.", "Ultrasound: no collection, no abscess."),
    ],
)
def test_what_the_record_says_in_other_words_is_no_fault(statement: str, sentence: str) -> None:
    record = note(sentence)
    assert check_text(statement, record, record) == []


@pytest.mark.parametrize(
    ("statement", "sentence", "kind", "contradicts"),
    [
        ("Bisoprolol 5 mg was begun.", "Bisoprolol 2.5 mg begun.", "number", False),
        ("The cyst measures 31 cm.", "Cyst of 31 mm.", "unit", True),
        ("The cast stays on for six weeks.", "Cast for 14 days.", "number", False),
        ("Ferritin was 37.9.", "Temperature 37.9 \u00b0C.", "number", False),
        ("Surgery is on 3 May 2031.", "Surgery on 3 June 2031.", "date", False),
        ("The left hip was replaced.", "Total replacement of the right hip.", "side", True),
        ("Torsemide was given.", "Furosemide was given.", "drug", False),
        ("He takes sotalol 80 mg.", "Sotalol 40 mg and allopurinol 80 mg.", "dose", True),
        ("Vancomycin was given by mouth.", "Vancomycin IV was given.", "route", True),
        ("The lesion's volume rose.", "Lesion volume fell after radiation.", "direction", True),
        ("The hip was not replaced.", "The hip was replaced.", "negation", True),
        ("Naproxen may be taken.", "Naproxen should not be taken.", "negation", True),
        ("Amiodarone was restarted.", "Do not restart amiodarone.", "negation", True),
        ("Sertraline was continued.", "Sertraline was not continued.", "negation", True),
    ],
)
def test_a_changed_detail_is_a_fault(statement: str, sentence: str, kind: str, contradicts: bool) -> None:
    record = note("The ward is quiet.", sentence)
    (fault,) = [one for one in check_text(statement, record, record) if one["kind"] == kind]
    assert fault["contradicts"] == contradicts
    assert set(fault["sentence_ids"]) <= {"2"}


def test_a_sentence_that_is_not_cited_lends_a_number_only_if_it_is_on_the_same() -> None:
    statement = "The fistula output fell to 310 mL after octreotide."
    cited = Sentence("1", "Octreotide was begun for the fistula output.")
    same = Sentence("2", "With octreotide the output of the fistula was 310 mL.")
    other = Sentence("3", "He drank 310 mL.")
    assert check_text(statement, [cited], [cited, same]) == []
    (fault,) = check_text(statement, [cited], [cited, other])
    assert (fault["kind"], fault["sentence_ids"]) == ("number", ["3"])
    assert other.text in fault["text"]


def test_numbers_have_the_unit_of_their_range_and_of_the_day_before_them() -> None:
    found = quantities(plain("3\u20134 tablets from day 6 at 60/min, not 7 for 1.5 L"))
    assert [(one.written, one.unit) for one in found] == [
        (3, "tablet"),
        (4, "tablet"),
        (6, "h"),
        (60, "bpm"),
        (7, ""),
        (1.5, "l"),
    ]


@pytest.mark.parametrize(
    ("text", "denied", "affirmed"),
    [
        ("No fever or rash, but cough persists.", {"fever", "rash"}, {"cough", "persist"}),
        ("Heparin was held and aspirin was begun.", {"heparin"}, {"aspirin", "begun"}),
        ("Lithium not resumed at discharge; valproate started.", {"lithium", "resum"}, {"valproat", "start"}),
        ("Culture is negative for yeast, mould, or bacteria.", {"yeast", "mould", "bacteria"}, {"cultur"}),
        ("Weaning failed twice.", {"wean"}, {"twice"}),
    ],
)
def test_a_cue_reaches_to_the_end_of_its_clause(text: str, denied: set[str], affirmed: set[str]) -> None:
    found = {stem: ways for clause in clauses(text) for stem, ways in clause.items()}
    assert {stem for stem, ways in found.items() if True in ways} >= denied
    assert {stem for stem, ways in found.items() if ways == {False}} >= affirmed


def test_the_nearest_sentences_keep_their_order() -> None:
    record = note("Apples.", "The hip was replaced.", "Pears.", "The hip hurts.")
    assert nearest("Which hip was replaced?", record, 2) == ["2", "4"]
    assert nearest("Why?", record, 2) == []


@pytest.mark.parametrize(
    ("sentences", "named"),
    [
        (["Heparin fell out of use.", "It can be restarted."], "heparin can be restarted."),
        (["Heparin was stopped.", "This drug can be restarted."], "heparin can be restarted."),
        (["Heparin and warfarin were stopped.", "It can be restarted."], "It can be restarted."),
        (["The drain was removed.", "It can be replaced."], "It can be replaced."),
        (["Heparin was stopped.", "The count rose; it is normal."], "The count rose; it is normal."),
    ],
)
def test_it_is_the_one_drug_of_the_sentence_before(sentences: list[str], named: str) -> None:
    first, second = named_drugs(sentences)
    assert first == sentences[0]
    assert second.casefold() == named.casefold()


@pytest.mark.parametrize(
    ("question", "sentence", "answered"),
    [
        ("Was alendronate started?", "Alendronate was discussed but deferred until spring.", True),
        ("Was amoxicillin prescribed?", "Amoxicillin was considered at discharge but not prescribed.", True),
        ("Was amoxicillin-clavulanate given?", "Amoxicillin-clavulanate was not given.", True),
        ("May he take naproxen for his back?", "Naproxen was stopped.", True),
        ("Did he have angiography?", "He declined angiography.", True),
        ("Was enoxaparin given?", "Enoxaparin was given.", False),
        ("Was the wound culture positive?", "There was no wound infection.", False),
        ("Was it given?", "Nothing was given.", False),
    ],
)
def test_a_yes_no_question_is_answered_by_a_denial_of_all_it_names(
    question: str, sentence: str, answered: bool
) -> None:
    assert denying_sentences(question, ["She slept well.", sentence]) == ([1] if answered else [])


@pytest.mark.parametrize(
    ("statement", "sentence", "repeated"),
    [
        ("Lithium was not resumed.", "Lithium not resumed at discharge.", True),
        ("Lithium was resumed.", "Lithium not resumed at discharge.", False),
        ("Lithium was not resumed because of tremor.", "Lithium not resumed at discharge.", False),
        ("Amoxicillin was not given.", "Amoxicillin-clavulanate was given; amoxicillin was given.", False),
        ("Amoxicillin was not given.", "No amoxicillin was given, but amoxicillin-clavulanate was.", True),
    ],
)
def test_a_denial_is_repeated_only_if_nothing_is_added(statement: str, sentence: str, repeated: bool) -> None:
    assert repeats_denial(statement, [sentence]) is repeated
