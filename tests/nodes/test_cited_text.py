from __future__ import annotations

from nodes.reading.explain_verdict import check_citations


def test_known_ids_stay_and_unknown_ones_go() -> None:
    checked = check_citations("It helps [1]. It does not [2, 9]. It may [7].", {"1", "2"})
    assert checked.text == "It helps [1]. It does not [2]. It may."
    assert (checked.cited, checked.unknown) == (["1", "2"], ["9", "7"])


def test_brackets_that_cite_nothing_stay() -> None:
    text = "The dose [in mg] was low [see 3]."
    assert check_citations(text, {"3"}) == (text, [], [])


def test_a_source_is_counted_once_however_often_it_is_cited() -> None:
    assert check_citations("A [2]. B [1;2].", {"1", "2"}).cited == ["2", "1"]
