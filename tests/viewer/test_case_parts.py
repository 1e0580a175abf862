from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from cases.records import AnswerSentence, Case, Gold, Phrase, Sentence
from runs.record.manifest import Edge, GraphShape
from tests.viewer.case_runs import GRAPH, line, step
from viewer.case_parts.answers import read_answers, split_by_citations
from viewer.case_parts.ballots import read_ballots, read_threshold
from viewer.case_parts.demonstrations import read_demonstrations
from viewer.case_parts.graph import GAP, draw_graph, in_lines, lay_out, width_of
from viewer.case_parts.note import mark_phrases, read_note
from viewer.case_parts.timeline import WIDTH, read_facts, read_route, read_steps


def marked(narrative: str, *phrases: tuple[str, int | None]) -> list[str]:
    found = mark_phrases(narrative, [Phrase(str(n), text, at) for n, (text, at) in enumerate(phrases)])
    assert "".join(one.text for one in found.segments) == narrative.strip()
    return [one.text for one in found.segments if one.marked]


def test_an_index_counts_into_the_stripped_narrative() -> None:
    assert marked("  no pain, pain ", ("pain", 9)) == ["pain"]
    assert mark_phrases("  no pain, pain ", [Phrase("1", "pain", 9)]).segments[0].text == "no pain, "


def test_a_phrase_without_a_true_index_is_found_by_its_text() -> None:
    assert marked("why pain", ("pain", None)) == marked("why pain", ("pain", 900)) == ["pain"]


def test_overlapping_phrases_are_one_mark() -> None:
    assert marked("why did it hurt", ("why did", 0), ("did it", 4), ("did", 4)) == ["why did it"]
    assert marked("painless now", ("pain", 0), ("less", 4)) == ["painless"]


def test_a_phrase_that_is_not_there_is_kept_apart() -> None:
    assert mark_phrases("why", [Phrase("1", "fever", 0)]).unplaced == ["fever"]


VOTES = [{"vote": 0, "essential": ["1"]}, {"vote": 1, "essential": ["2"]}]


def test_reflection_changes_a_vote_and_leaves_its_first_labels_readable() -> None:
    reflection = {"vote": 1, "before": ["2"], "after": ["1"], "added": ["1"], "removed": ["2"]}
    ballot = read_ballots([step("label_evidence", {"votes": VOTES}), step("reflect_on_labels", reflection)])[
        1
    ]
    assert (ballot.change("1"), ballot.change("2"), ballot.change("3")) == ("added", "dropped", "")
    assert ballot.names("1") and not ballot.names("2")


def test_a_reflection_that_failed_says_why_and_knows_the_labels_before_it() -> None:
    facts = {"vote": 1, "before": ["2"], "after": ["2"], "error_class": "timeout"}
    (ballot,) = read_ballots([step("reflect_on_labels", facts, because="no answer in time")])
    assert (ballot.before, ballot.fault, ballot.change("2")) == (frozenset("2"), "no answer in time", "")


def test_a_vote_that_failed_is_missing_and_names_nothing() -> None:
    facts = {"votes": VOTES, "failed_votes": {"2": "timeout: late"}, "rescued_votes": {}}
    missing = read_ballots([step("label_evidence", facts)])[2]
    assert missing.before is None and missing.fault == "timeout: late" and not missing.names("1")


def test_a_ranker_votes_with_its_weight() -> None:
    ranked = {"vote": 5, "essential": ["1"], "scores": {"1": 0.3}, "ranker": "bm25"}
    steps = [step("rank_evidence", ranked), step("label_evidence", {"votes": VOTES})]
    steps.append(step("aggregate_votes", {"counts": {}, "threshold": 2, "ranker_votes": 2}))
    assert [(one.ranker, one.weight) for one in read_ballots(steps)] == [("", 1), ("", 1), ("bm25", 2)]
    assert read_threshold(steps) == 2
    rows = note_of(line("c"), Gold(), steps)[0].rows
    assert [row.name for row in rows] == ["vote 0", "vote 1", "the ranker (counts 2 times)"]


def note_of(ended: dict[str, Any], gold: Gold, steps: list[dict[str, Any]] | None = None) -> Any:
    sentences = (Sentence("1", "A.", "p"), Sentence("2", "B.", "p"), Sentence("x", "C.", "q"))
    case = Case("c", "", "", sentences, gold=gold)
    answers = read_answers(ended, case, {"1": 0, "2": 1, "x": 2})
    return read_note(ended, case, read_ballots(steps or []), answers, lambda key: None)


def test_supplementary_counts_as_not_essential() -> None:
    ended = line("c", labels={"1": "essential", "2": "essential", "x": "not-essential"})
    note = note_of(ended, Gold(labels={"1": "essential", "2": "supplementary", "x": "supplementary"}))
    assert [one.right for one in note] == [True, False, True]


def test_a_paragraph_begins_where_its_id_changes() -> None:
    assert [one.begins for one in note_of(line("c"), Gold())] == [False, False, True]


def test_a_note_sentence_knows_which_answer_sentences_stand_on_it() -> None:
    ended = line("c", answer="Because. |x| So. |1, x|")
    assert [len(one.cited_by) for one in note_of(ended, Gold())] == [1, 0, 2]


def test_votes_too_many_for_a_page_are_told_in_words() -> None:
    votes = [{"vote": vote, "essential": ["1"]} for vote in range(7000)]
    note = note_of(line("c"), Gold(), [step("label_evidence", {"votes": votes})])
    assert not note[0].rows and note[0].named.startswith("vote 0, vote 1")


def test_citations_are_ids_of_the_note_and_no_table_cells() -> None:
    known = {"1": 0, "2": 1}
    assert split_by_citations("He fell. |1,2| It hurt.|2|", known) == [
        ("He fell.", ["1", "2"]),
        ("It hurt.", ["2"]),
    ]
    assert split_by_citations("Na 140 | K 4.0 | Cl 100", known) is None


def test_an_answer_without_links_stands_on_its_evidence() -> None:
    (answer,) = read_answers(
        line("c", answer="He fell. It hurt.", answer_evidence=["2"]), None, {"1": 0, "2": 1}
    )
    assert answer.basis == "evidence"
    assert [[one.index for one in sentence.support] for sentence in answer.sentences] == [[1], [1]]


FINDINGS = [
    {"id": "1", "text": "He fell.", "support": "supported", "sentence_ids": ["2"]},
    {"id": "2", "text": "It <b>hurt</b>.", "support": "not_stated", "sentence_ids": ["1"]},
]
VERIFIED = {"answer": "He fell. It <b>hurt</b>.", "answer_status": "unsupported", "answer_support": FINDINGS}
ALIGNED = {
    "aligned_answer": "generated",
    "alignment": {"1": ["2"], "2": ["1"]},
    "answer_sentences": [{"id": one["id"], "text": one["text"]} for one in FINDINGS],
}


@pytest.mark.parametrize("aligned", [{}, ALIGNED])
def test_an_unsupported_sentence_has_its_mark_and_what_decides(aligned: dict[str, Any]) -> None:
    (answer,) = read_answers(line("c", **VERIFIED, **aligned), None, {"1": 0, "2": 1})
    assert [one.mark for one in answer.sentences] == ["", "not stated"]
    assert [[one.id for one in sentence.support] for sentence in answer.sentences] == [["2"], ["1"]]
    assert "alignment" in answer.words if aligned else "verification" in answer.words


def test_a_case_that_is_not_stated_shows_the_nearest_sentences() -> None:
    declined = {"answer": "The note does not say.", "answer_status": "not_stated", "answer_support": []}
    ended = line("c", **declined, nearest_sentences=["2"], answer_evidence=["1"])
    (answer,) = read_answers(ended, None, {"1": 0, "2": 1})
    (sentence,) = answer.sentences
    assert (answer.basis, [one.id for one in sentence.support]) == ("nearest", ["2"])


def test_an_aligned_clinician_answer_shows_the_key_beside() -> None:
    lines = (AnswerSentence("1", "A.", ("2",)),)
    case = Case("c", "", "", (), gold=Gold(answer="A.", answer_sentences=lines))
    sentences = [{"id": "1", "text": "A."}]
    ended = line("c", aligned_answer="clinician", alignment={"1": ["1"]}, answer_sentences=sentences)
    (answer,) = read_answers(ended, case, {"1": 0, "2": 1})
    (sentence,) = answer.sentences
    assert [one.id for one in sentence.support] == ["1"]
    assert [one.id for one in sentence.by_key or []] == ["2"]


def test_a_demonstration_is_shown_dropped_or_never_used() -> None:
    chosen = [{"case_id": id_, "distance": 0.1, "intent": None, "tier": "primary"} for id_ in "abc"]
    kept = {"demonstrations": ["a"], "dropped_demonstrations": ["b"]}
    steps = [step("retrieve_evidence_demonstrations", {"chosen": chosen}), step("label_evidence", kept)]
    (found,) = read_demonstrations(steps)
    assert [one.fate.split(",")[0] for one in found.chosen] == ["shown", "dropped", "no prompt was made"]


def test_long_and_nested_facts_are_to_be_opened() -> None:
    short, long, nested = read_facts({"ids": ["1", "2"], "text": "x" * 5000, "votes": VOTES})
    assert (short.text, short.summary) == ("1, 2", "")
    assert long.summary and nested.summary == "2 entries"
    assert [part.name for part in nested.parts[0].parts] == ["vote", "essential"]


def test_facts_deeper_than_a_page_opens_are_one_text() -> None:
    value: object = {"deep": ["x"], "other": {}}
    for _ in range(6):
        value = {"in": value}
    (fact,) = read_facts({"fact": value})
    for _ in range(6):
        (fact,) = fact.parts
    assert (fact.text, fact.parts) == ("{'deep': ['x'], 'other': {}}", [])


def test_bars_stay_within_their_drawing() -> None:
    trace = [{"started": 0.0} | step("a", seconds=9.0), {"started": 9.0} | step("b", seconds=0.0)]
    first, last = read_steps(trace, lambda key: None)
    for one in (first, last):
        assert one.left >= 0 and one.width > 0 and one.left + one.width <= WIDTH


def test_a_route_counts_visits_and_ends_where_the_case_ended() -> None:
    steps = [step("label_evidence", next=["reflect_on_labels"])]
    steps += [step("reflect_on_labels", next=["aggregate_votes"]) for _ in range(2)]
    route = read_route([*steps, step("aggregate_votes")], GRAPH)
    assert route.visits["reflect_on_labels"].times == 2
    assert route.visits["reflect_on_labels"].seconds == 1.0
    assert route.edges == [
        ("__start__", "label_evidence"),
        ("label_evidence", "reflect_on_labels"),
        ("reflect_on_labels", "aggregate_votes"),
        ("aggregate_votes", "__end__"),
    ]


def test_only_what_the_case_took_is_lit() -> None:
    steps = [step("label_evidence", next=["aggregate_votes"]), step("aggregate_votes")]
    drawing = draw_graph(GRAPH, read_route(steps, GRAPH))
    lit = {"".join(box.name) for box in drawing.boxes if box.lit}
    assert lit == {"start", "label_evidence", "aggregate_votes", "end"}
    assert sum(curve.lit for curve in drawing.curves) == 3


CYCLE = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "c"), ("c", "d")]


@pytest.mark.parametrize("route", [[], [("b", "c"), ("c", "a")]])
def test_the_route_runs_downwards_through_cycles(route: list[tuple[str, str]]) -> None:
    layout = lay_out("abcd", CYCLE, route)
    assert all(layout.layer_of[source] < layout.layer_of[target] for source, target in route)
    assert len(layout.paths) == len(CYCLE) - (2 if route else 1)


def test_a_layer_follows_the_longest_way_to_it_in_whatever_order_edges_come() -> None:
    edges = [("c", "d"), ("b", "c"), ("a", "b"), ("a", "d")]
    assert lay_out("abcd", edges, []).layer_of == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_nodes_and_lanes_of_a_layer_do_not_overlap() -> None:
    edges = [("s", name) for name in "abcdz"] + [(name, "z") for name in "abcd"] + [("a", "b")]
    layout = lay_out("sabcdz", edges, [("s", "c"), ("c", "z")])
    for layer in layout.layers:
        for one, other in pairwise(layer):
            room = (width_of(one, layout.layer_of) + width_of(other, layout.layer_of)) / 2 + GAP
            assert layout.x[other] - layout.x[one] >= room - 1e-6


def test_a_graph_of_nothing_but_itself_is_drawn() -> None:
    loop = GraphShape(nodes=["a"], edges=[Edge(source="a", target="a")])
    assert len(draw_graph(loop, read_route([step("a", next=["a"])], loop)).curves) == 1


def test_long_names_stand_in_two_lines() -> None:
    assert in_lines("retrieve_evidence_demonstrations") == ["retrieve_evidence_", "demonstrations"]
    assert in_lines("x" * 40) == ["x" * 40]
