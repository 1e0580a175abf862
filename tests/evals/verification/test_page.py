"""The page and the JSON of a verified text."""

from __future__ import annotations

import re

from evals.verification import Report, render
from ranking.verify import Evidence, Verification, VerifiedLine

ATTACK = "<script>alert(1)</script>\"' {{ 7 * 7 }}\x1b[31m\u202e"


def report(line: str = "Fever.", sentence: str = "Fever since Monday.") -> Report:
    lines = (
        VerifiedLine(line, "supported", (Evidence(1, 0.0, 0.5),), cut=True),
        VerifiedLine("Knee.", "unsupported", (), cut=False),
    )
    found = Verification(lines, ("First.", sentence), 0.4, (0,))
    return Report("n.txt", "s.txt", ("11", "12"), "logistic@1", found, True)


def test_lines_and_sentences_link_to_each_other() -> None:
    page = render(report())
    assert 'id="line-1"' in page and 'href="#line-1"' in page
    assert 'id="sentence-2"' in page and 'href="#sentence-2"' in page
    assert 'href="#sentence-1"' not in page


def test_texts_are_data() -> None:
    page = render(report(ATTACK, ATTACK))
    assert "<script" not in page
    assert "{{ 7 * 7 }}" in page
    assert not re.search("[\x1b\u202e]", page)


def test_the_page_fetches_and_runs_nothing() -> None:
    page = render(report())
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!#)', page)


def test_the_keyboard_reaches_both_sides() -> None:
    assert render(report()).count('tabindex="0"') == 2


def test_json_has_stable_keys() -> None:
    fields = report().as_json()
    assert fields["lines"][0] == {
        "text": "Fever.",
        "support": "supported",
        "supported": True,
        "evidence": [
            {"sentence": "12", "text": "Fever since Monday.", "score": 0.0, "probability": 0.5},
        ],
    }
    assert (fields["supported"], fields["weak"], fields["unsupported"]) == (1, 0, 1)
    assert (fields["cut_sentences"], fields["cut_lines"]) == (["11"], [1])


def test_the_hash_of_a_source_is_of_its_sentences() -> None:
    assert report().as_json()["source_sha256"] != report(sentence="Else.").as_json()["source_sha256"]
