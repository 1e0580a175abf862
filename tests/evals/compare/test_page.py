from __future__ import annotations

import random
import re
from html.parser import HTMLParser

import pytest

from evals.compare.comparison import Comparison
from evals.compare.render import render
from evals.scoring.gold import Labels
from tests.evals.compare.builders import compared, gold, outcome, run

HOSTILE = '<script>alert("x")</script>{{ 7 * 7 }}\u202e'


class Parsed(HTMLParser):
    """Tags and what they point to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attributes:
            assert not name.startswith("on"), name
            if name in ("src", "href", "xlink:href", "action", "data", "poster"):
                self.targets.append(value or "")
            if name == "id":
                self.ids.append(value or "")


@pytest.fixture(scope="module")
def hostile() -> Comparison:
    """Ids, answers, intents and names that try to be more than text."""
    id_ = f"{HOSTILE}1"
    first = run(
        outcome(id_, "s<b>", sentences="s<b> t", answer=HOSTILE, intent=HOSTILE, route=(HOSTILE,)),
        outcome("plain", "1"),
        name=HOSTILE,
        recipe={HOSTILE: HOSTILE},
    )
    second = run(
        outcome(id_, "t", sentences="s<b> t", answer="other", route=("other",)),
        outcome("plain", "2"),
    )
    labels: dict[str, Labels] = {id_: {"s<b>": "essential", "t": "not-relevant"}}
    return compared(first, second, labels | gold(plain="1 2"))


def big(cases: int) -> Comparison:
    generator = random.Random(3)
    ids = [f"case-{number}" for number in range(cases)]
    sentences = " ".join(map(str, range(1, 25)))

    def side() -> list[str]:
        return [" ".join(str(id_) for id_ in range(1, 25) if generator.random() < 0.3) for _ in ids]

    first, second, key = side(), side(), side()
    return compared(
        run(*(outcome(*each, sentences=sentences) for each in zip(ids, first, strict=True))),
        run(*(outcome(*each, sentences=sentences, answer="B.") for each in zip(ids, second, strict=True))),
        {
            id_: {str(s): "essential" if str(s) in its.split() else "not-relevant" for s in range(1, 25)}
            for id_, its in zip(ids, key, strict=True)
        },
    )


def test_text_of_cases_is_never_markup(hostile: Comparison) -> None:
    page = render(hostile, rows=20, with_texts=True)
    assert "script" not in Parsed(page).tags
    assert "&lt;script&gt;" in page and "{{ 7 * 7 }}" in page
    assert "s<b>" not in page
    assert "\u202e" not in page


def test_the_page_needs_nothing_from_elsewhere(hostile: Comparison) -> None:
    parsed = Parsed(render(hostile, rows=20, with_texts=True))
    assert all(target.startswith("#") for target in parsed.targets)
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"}.intersection(parsed.tags)


def test_references_of_plots_lead_to_ids_that_stand_once(hostile: Comparison) -> None:
    page = render(hostile, rows=20, with_texts=True)
    parsed = Parsed(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    used = {target.removeprefix("#") for target in parsed.targets} | set(re.findall(r"url\(#([^)]+)\)", page))
    assert used and used <= set(parsed.ids)


def test_equal_comparisons_are_equal_bytes(hostile: Comparison) -> None:
    assert render(hostile, rows=20, with_texts=True) == render(hostile, rows=20, with_texts=True)


def test_answers_stand_in_the_page_only_if_wanted(hostile: Comparison) -> None:
    with_answers = render(hostile, rows=20, with_texts=True)
    without = render(hostile, rows=20, with_texts=False)
    assert "Treat it like the cases" in with_answers and "Answers that differ" in with_answers
    assert "alert" in with_answers
    assert '<td class="answer">' not in without and "Treat it like the cases" not in without


def test_every_plot_has_a_text_in_its_place(hostile: Comparison) -> None:
    page = render(hostile, rows=20, with_texts=True)
    assert page.count("<svg") == page.count('role="img" aria-label="') == 2


def test_a_page_of_many_cases_stays_small() -> None:
    page = render(big(3_000), rows=50, with_texts=True)
    assert len(page) < 400_000
    assert re.search(r"2,950 more of 3,000 are not shown", page)


def test_a_page_without_a_key_says_what_a_key_adds() -> None:
    found = compared(
        run(outcome("a", "1 <i>", sentences="1 <i> 3")), run(outcome("a", "3", sentences="1 <i> 3")), {}
    )
    page = render(found, rows=5, with_texts=True)
    assert "--key KEY" in page and "Cases with changed labels: 1" in page
    assert "<svg" not in page and "<i>" not in page


def test_colours_are_the_pages_own(hostile: Comparison) -> None:
    svg = "".join(re.findall(r"<svg.*?</svg>", render(hostile, rows=20, with_texts=True), re.DOTALL))
    assert "var(--ink)" in svg
    assert not re.findall(r"#[0-9a-f]{6}\b", svg)
