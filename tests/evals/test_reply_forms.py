from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.bench.replies import NothingToCompare, compare_reply_forms, stage_seconds
from evals.compare.changes import cohen_kappa
from runs import RunFolder
from tests.evigraph import LEXICAL_RECIPE, evigraph, write_cases

# Calls the even sentences of every note essential, and sentence 1 in one of the two forms.
SCRIPT = """\
import json

def reply(call):
    if call.role not in ("label", "reflect"):
        from serving.backends.scripted import made_up_reply
        return made_up_reply(call)
    properties = call.schema_["properties"]
    if "essential" in properties:
        ids = properties["essential"]["items"]["enum"]
        return json.dumps({"essential": [id_ for id_ in ids if int(id_) % 2 == 0]})
    return json.dumps(
        {id_: "essential" if id_ == "1" or int(id_) % 2 == 0 else "not-essential" for id_ in properties}
    )
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    folder = tmp_path_factory.mktemp("forms")
    (folder / "script.py").write_text(SCRIPT)
    write_cases(folder / "cases.jsonl", 3)
    write_cases(folder / "none.jsonl", 1, sentences=2)
    folders = {}
    for name, reply, cases in (
        ("labels", "labels", "cases"),
        ("ids", "ids", "cases"),
        ("none", "ids", "none"),
    ):
        recipe = LEXICAL_RECIPE.replace("evidence: {", f"evidence: {{reply: {reply}, ")
        (folder / f"{name}.yaml").write_text(recipe)
        ended = evigraph(
            *("run", "tamu", f"{cases}.jsonl", "--recipe", f"{name}.yaml", "--out", name, "--json"),
            *("--model", "scripted:script.py:reply"),
            folder=folder,
        )
        assert ended.code == 0, ended.err
        folders[name] = RunFolder(folder / name)
    return folders


def test_a_form_is_told_by_its_cost(runs: dict[str, RunFolder]) -> None:
    found = compare_reply_forms(runs["labels"], runs["ids"])
    assert (found.first.reply, found.second.reply) == ("labels", "ids")
    # Three votes and their reflections on three cases; a scripted token is a word.
    assert found.first.calls == found.second.calls == 18
    assert (found.first.output_tokens, found.second.output_tokens) == (18 * 12, 18 * 4)
    assert 0 < found.first.seconds < 60


def test_labels_are_compared_sentence_by_sentence(runs: dict[str, RunFolder]) -> None:
    found = compare_reply_forms(runs["labels"], runs["ids"])
    assert (found.cases, found.sentences, found.essential) == (3, 18, (12, 9))
    assert found.agreement == pytest.approx(15 / 18)
    assert found.kappa == pytest.approx(2 / 3)
    assert json.loads(json.dumps(found.as_json()))["second"]["reply"] == "ids"


def test_runs_on_other_notes_cannot_be_compared(runs: dict[str, RunFolder]) -> None:
    with pytest.raises(NothingToCompare, match="no case that is labelled in both"):
        compare_reply_forms(runs["labels"], runs["none"])


@pytest.mark.parametrize(
    ("table", "kappa"),
    [((20, 5, 10, 15), 0.4), ((45, 15, 25, 15), 0.1304), ((0, 5, 5, 0), -1.0), ((3, 0, 0, 3), 1.0)],
)
def test_kappa_of_known_tables(table: tuple[int, int, int, int], kappa: float) -> None:
    cells = (("y", "y"), ("y", "n"), ("n", "y"), ("n", "n"))
    pairs = [cell for cell, count in zip(cells, table, strict=True) for _ in range(count)]
    assert cohen_kappa(pairs) == pytest.approx(kappa, abs=1e-4)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_one_label_for_everything_has_no_kappa(count: int) -> None:
    assert cohen_kappa([("essential", "essential")] * count) is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("ab")), min_size=1))
def test_kappa_is_symmetric_and_at_most_1(pairs: list[tuple[str, str]]) -> None:
    kappa = cohen_kappa(pairs)
    swapped = cohen_kappa([(other, one) for one, other in pairs])
    assert kappa == (None if swapped is None else pytest.approx(swapped))
    assert kappa is None or kappa <= 1


def test_the_time_of_the_stage_is_a_span(tmp_path: Path) -> None:
    trace = [
        {"node": "classify_intent", "started": 0.0, "seconds": 90.0},
        {"node": "label_evidence", "started": 1.0, "seconds": 2.0},
        {"node": "reflect_on_labels", "started": 3.0, "seconds": 4.0},
        {"node": "reflect_on_labels", "started": 3.0, "seconds": 6.0},
        {"node": "aggregate_votes", "started": 50.0, "seconds": 1.0},
    ]
    assert stage_seconds(trace) == 8.0
    assert stage_seconds(trace[:1]) == 0.0
