"""`evigraph review` and what reviews lead to, as a user types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from runs.record.index import INDEX
from tests.runs.waiting import Place
from tests.viewer.written_run import add, ended, new_run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A run in which k0 and k2 wait; the working directory is its parent."""
    place = Place(tmp_path)
    place.start()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return place


@pytest.fixture(scope="module")
def unreviewed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A run for commands that change nothing."""
    place = Place(tmp_path_factory.mktemp("unreviewed"))
    place.start()
    return place


class Terminal:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What a command prints on standard output, or on standard error where it is to fail."""
        self._monkeypatch.setattr(sys, "argv", ["evigraph", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        assert ended.value.code == code, err
        return " ".join((err if code else out).split())

    def json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*arguments, "--json"))
        return found


@pytest.fixture
def evigraph(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(monkeypatch, capsys)


def test_a_command_for_a_folder_with_a_blank_in_its_name_is_quoted(
    place: Place, evigraph: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "run").rename(tmp_path / "my run")
    said = evigraph("review", "my run", "k0", "--by", "Ann", "--comment", "See 3.")
    assert said.endswith(
        "next: evigraph review 'my run' k0 --by NAME --confirm"
        " evigraph review 'my run' k0 --by NAME --essential IDS"
    )


def test_from_a_waiting_case_to_gold_that_scores(place: Place, evigraph: Terminal) -> None:
    shown = evigraph("show", "run")
    assert "2 done, 0 failed, 2 waiting for a person" in shown
    assert "evigraph review run" in shown
    listed = evigraph("review", "run")
    assert "k0 waiting 1 2 -" in listed and "next: evigraph review run k0" in listed

    said = evigraph("review", "run", "k0", "--by", "Ann", "--essential", "3", "--not-relevant", "1")
    assert said == (
        "case k0: labels changed on 1 3"
        " not named, so confirmed as shown: not relevant 2 4 5 6"
        " of these, votes differ on 2"
        " next: evigraph resume run"
    )
    evigraph("review", "run", "k2", "--by", "Ann", "--confirm")
    assert "next: evigraph resume run" in evigraph("review", "run")
    assert evigraph.json("resume", "run")["waiting"] == 0
    assert "Ann labelled 1 of 6 sentences essential and changed 2" in evigraph("show", "run", "k0")

    assert "2 reviewed cases in gold.json" in evigraph("review", "run", "--export", "gold.json")
    (scored,) = evigraph.json("score", "run", "--key", "gold.json")["tasks"]
    assert (scored["task"], scored["scored_cases"]) == ("2026-2", 2)
    assert scored["values"]["strict_micro_f1"] == 100
    # No score of the run, as the labels are the reviewer's.
    assert "overall_score" not in scored["values"]
    assert "2 of these cases have a reviewer's labels" in " ".join(scored["notes"])


def test_an_answer_is_confirmed_or_replaced(place: Place, evigraph: Terminal) -> None:
    assert evigraph.json("review", "run", "k1", "--by", "Ann", "--confirm")["verdict"] == "confirmed"
    (place.folder / "answer.txt").write_text("It had to be.\n", "utf-8")
    said = evigraph("review", "run", "k1", "--by", "Bo", "--answer", "answer.txt", "--comment", "[b]Short")
    assert said == "case k1: answer corrected"
    history = evigraph("review", "run", "k1")
    assert "Ann: labels confirmed, answer confirmed" in history
    assert "Bo: answer corrected [b]Short" in history
    assert [one["answer"] for one in evigraph.json("review", "run", "k1")["reviews"]][1] == "It had to be."


def test_a_comment_leaves_its_case_waiting_and_next_is_a_review(place: Place, evigraph: Terminal) -> None:
    said = evigraph("review", "run", "k0", "--by", "Ann", "--comment", "Hm.")
    assert said.endswith(
        "next: evigraph review run k0 --by NAME --confirm evigraph review run k0 --by NAME --essential IDS"
    )
    evigraph("review", "run", "k2", "--by", "Ann", "--comment", "Hm.")
    assert evigraph("review", "run").endswith("next: evigraph review run k0")
    evigraph("review", "run", "k2", "--by", "Ann", "--confirm")
    assert evigraph("review", "run").endswith("next: evigraph review run k0 evigraph resume run")
    assert evigraph.json("resume", "run")["waiting"] == 1


def test_a_waiting_case_shows_the_whole_command(unreviewed: Place, evigraph: Terminal) -> None:
    command = f"evigraph review {unreviewed.run} k0 --by NAME --confirm (or --essential IDS)"
    assert command in evigraph("show", str(unreviewed.run), "k0")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("k1", "--by", "Ann"), "--by alone says nothing of case 'k1'"),
        (("k1", "--by", "Ann", "--essential", "9"), "case 'k1': it has no sentence '9'"),
        (("k9", "--by", "Ann", "--confirm"), "no case 'k9' has ended in this run"),
        (("k1", "--by", " ", "--confirm"), "reviewer: is empty"),
        (("k1", "--confirm"), "--by NAME is missing: who reviews?"),
        (("--by", "Ann", "--confirm"), "name the case"),
        (("k1", "--by", "Ann", "--essential", "1", "--supplementary", "1"), "is both essential and"),
        (("k1", "--by", "Ann", "--answer", "nothing.txt"), "nothing.txt: cannot be read"),
        (("k1", "--export", "gold.json"), "leave out CASE"),
        (("k1", "--by", "Ann", "--answer", "latin.txt"), "latin.txt: byte 4 is not UTF-8"),
        (("k1", "--by", "Ann", "--blind", "--confirm"), "none can be confirmed"),
        (("k1", "--by", "Ann", "--blind", "--answer", "latin.txt"), "none can be confirmed"),
        (("k1", "--by", "Ann", "--blind", "--comment", "Hm."), "--blind needs labels: --essential IDS"),
        (("assign", "k1"), "--to NAMES is missing: who reviews?"),
        (("assign", "--waiting"), "--to NAMES is missing"),
        (("assign", "--each", "2"), "--to NAMES is missing"),
        (("adjudicate", "k1", "--out", "key.json"), "leave out CASE and labels"),
        (("adjudicate", "--out", "key.json", "--essential", "1"), "leave out CASE and labels"),
        (("adjudicate", "k1", "--by", "Ann"), "a decision needs CASE, --by NAME and labels"),
        (("adjudicate", "--by", "Ann", "--essential", "1"), "a decision needs CASE"),
        (("adjudicate", "k1", "--essential", "1"), "a decision needs CASE"),
        (("--export", "gold.csv"), "as a key (.json) or as cases (.jsonl)"),
        (("--export", "gold.json"), "no labels or answers reviewed yet"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_kept(
    unreviewed: Place, evigraph: Terminal, arguments: tuple[str, ...], told: str
) -> None:
    (unreviewed.folder / "latin.txt").write_bytes(b"oui\xe9")
    arguments = tuple(str(unreviewed.folder / one) if one == "latin.txt" else one for one in arguments)
    verb, *rest = arguments if arguments[0] in ("assign", "adjudicate") else ("case", *arguments)
    assert told in evigraph("review", verb, str(unreviewed.run), *rest, code=2).replace("│ ", "")
    assert not (unreviewed.run / "reviews.jsonl").exists()


def test_reviews_feed_a_pool_that_a_run_shows_to_other_cases_alone(place: Place, evigraph: Terminal) -> None:
    for case_id in ("k0", "k1"):
        evigraph("review", "run", case_id, "--by", "Ann", "--confirm")
    lexical = ("--embedding", "lexical:256")
    added = evigraph("demos", "add", "--from-reviews", "run", "--to", "pool", *lexical)
    assert "2 of them from reviews, in pool" in added and "replaced" not in added
    again = evigraph("demos", "add", "pool", "--from-reviews", "run", "--to", "pool-2", *lexical)
    assert "demonstrations, 2 of them from reviews, in pool-2 replaced by their reviews: k0, k1" in again
    assert evigraph("demos", "list", "pool", *lexical).count("reviewed") == 2
    place.recipe.write_text(
        "system: tamu\nembedding: lexical:256\nevidence: {demonstrations: 2, votes: 1, threshold: 1}\n"
    )
    evigraph(
        *("run", "tamu", "cases.jsonl", "--recipe", str(place.recipe), "--model", "scripted:auto"),
        *("--demos", "pool", "--out", "shown", "--limit", "2"),
    )
    for case_id, other in (("k0", "k1"), ("k1", "k0")):
        trace = evigraph.json("show", "shown", case_id)["trace"]
        chosen = {one["case_id"]: one["source"] for one in trace[0]["facts"]["chosen"]}
        assert case_id not in chosen
        assert chosen[other] == "reviewed"


def test_a_submission_names_the_cases_that_wait(unreviewed: Place, evigraph: Terminal) -> None:
    told = evigraph("submit", str(unreviewed.run), "--task", "2026-2", code=1)
    assert "waits for a person" in told and f"evigraph review {unreviewed.run} k0" in told


def test_a_dry_run_counts_the_calls_after_the_reviews(unreviewed: Place, evigraph: Terminal) -> None:
    cases, recipe = str(unreviewed.folder / "cases.jsonl"), str(unreviewed.recipe)
    estimate = evigraph.json(
        "run", "tamu", cases, "--recipe", recipe, "--model", "scripted:auto", "--dry-run"
    )
    assert estimate["roles"]["answer"]["calls"] == 4


def test_every_hint_keeps_the_reviewers_of_a_case_blind(place: Place, evigraph: Terminal) -> None:
    assert evigraph("review", "run").endswith("next: evigraph review run k0")
    assigned = evigraph("review", "assign", "run", "k0", "--to", "ann,bo", "--each", "2")
    assert assigned.endswith("next: evigraph view run --blind --by ann")
    assert "evigraph review run k0 --blind --by NAME" in evigraph("show", "run", "k0")
    hint = "evigraph review run k0 --blind --by ann"
    assert evigraph("review", "run", "--by", "ann").endswith(f"next: {hint}")
    # The hint shows the case without labels, and how to go on.
    shown = evigraph(*hint.split()[1:])
    assert "question:" in shown and "essential: the answer needs it" in shown
    assert shown.endswith(f"next: {hint} --essential IDS --supplementary IDS")
    for seeing in ((), ("--by", "bo", "--confirm"), ("--by", "bo", "--essential", "3"), ("--json",)):
        told = evigraph("review", "run", "k0", *seeing, code=2)
        assert "--blind --by NAME" in told, seeing
    evigraph(*hint.split()[1:], "--essential", "3")
    listed = evigraph("review", "run")
    assert "essential" not in listed and "k0 waiting - labelled by 1 of 2" in listed
    assert "essential" not in json.dumps(evigraph.json("review", "run")["cases"][0])
    assert "--blind --by NAME" in evigraph("review", "run", "k0", code=2)
    evigraph("review", "run", "k0", "--blind", "--by", "bo", "--essential", "1")
    # All have labelled it: there is nothing left to keep from them.
    assert "bo: labelled blind, essential: 1" in evigraph("review", "run", "k0")
    assert "k0" in evigraph("review", "adjudicate", "run")


def test_differences_are_shown_once_all_have_labelled_a_case(place: Place, evigraph: Terminal) -> None:
    assert "evigraph review assign run --to" in evigraph("review", "agreement", "run")
    evigraph("review", "assign", "run", "k0", "--to", "ann,bo,cy", "--each", "3")
    assert evigraph("review", "agreement", "run").endswith("next: evigraph view run --blind --by ann")
    for name, sentence in (("ann", "1"), ("bo", "3")):
        evigraph("review", "run", "k0", "--blind", "--by", name, "--essential", sentence)
    told = evigraph("review", "adjudicate", "run", "k0")
    assert "case k0: cy is still to label it" in told and "not relevant" not in told
    assert evigraph.json("review", "adjudicate", "run")["cases"] == []
    evigraph("review", "run", "k0", "--blind", "--by", "cy", "--essential", "1")
    assert evigraph.json("review", "agreement", "run")["cases"] == 1
    assert "reviewers differ on 1 case" in evigraph("review", "agreement", "run")
    told = evigraph("review", "adjudicate", "run", "k0")
    assert "not relevant" in told and "question:" in told and "patient:" in told


def test_a_blind_review_needs_the_texts(place: Place, evigraph: Terminal) -> None:
    for path in (place.folder / "cases.jsonl", place.run / INDEX):
        path.unlink(missing_ok=True)
    evigraph("review", "assign", "run", "k0", "--to", "ann")
    told = evigraph("review", "run", "k0", "--blind", "--by", "ann", "--essential", "1", code=2)
    assert "run: the texts of case 'k0' cannot be shown: " in told and "cases.jsonl: no such file" in told


def test_lists_without_rows_say_so(tmp_path: Path, evigraph: Terminal) -> None:
    with new_run(tmp_path / "run", ["x"]) as run:
        add(run, ended("x"))
    nothing = "nothing waits for a person, and nothing is reviewed"
    assert evigraph("review", str(run.path)) == nothing
    assert evigraph("review", "assign", str(run.path)) == "nothing is assigned, and nothing is reviewed"
    assert evigraph("review", "assign", str(run.path), "--to", "ann", "--waiting").startswith("nothing is")


def test_a_decision_is_shown_with_its_labels_and_exported(place: Place, evigraph: Terminal) -> None:
    evigraph("review", "assign", "run", "k0", "--to", "ann,bo", "--each", "2")
    evigraph("review", "assign", "run", "k1", "--to", "cy")
    for name, sentence in (("ann", "1"), ("bo", "3")):
        evigraph("review", "run", "k0", "--blind", "--by", name, "--essential", sentence)
    listed = evigraph("review", "run")
    assert "reviewers differ on 1 case: evigraph review adjudicate run" in listed
    decision = ("--by", "lead", "--essential", "1", "--not-relevant", "3")
    decided = evigraph("review", "adjudicate", "run", "k0", *decision)
    assert decided.startswith("case k0: ") and decided.endswith("next: evigraph resume run")
    told = evigraph("review", "adjudicate", "run")
    assert "sentence ann bo decided by lead" in told and "1 essential not relevant essential" in told
    assert told.endswith("0 of 1 case to be decided next: evigraph review adjudicate run --out key.json")
    evigraph("review", "run", "k1", "--blind", "--by", "cy", "--essential", "1")
    queues = evigraph("review", "assign", "run")
    assert "ann 1 1 0 -" in queues and queues.endswith("next: evigraph review agreement run")
    exported = evigraph("review", "adjudicate", "run", "--out", "key.json")
    assert exported == (
        "2 cases in key.json: 0 labelled alike by all reviewers, 1 adjudicated, 1 labelled by one person"
        " next: evigraph score run --key key.json"
    )


def test_agreement_names_what_it_leaves_out_and_goes_on_to_the_key(place: Place, evigraph: Terminal) -> None:
    evigraph("review", "assign", "run", "k0", "k1", "--to", "ann,bo", "--each", "2")
    evigraph("review", "assign", "run", "k2", "--to", "ann,bo,cy", "--each", "3")
    for case_id, names in (("k0", "ann bo"), ("k1", "ann bo"), ("k2", "ann bo cy")):
        for name in names.split():
            evigraph("review", "run", case_id, "--blind", "--by", name, "--essential", "1")
    told = evigraph("review", "agreement", "run")
    assert "Fleiss' kappa leaves out 6 sentences with other numbers of reviewers" in told
    assert told.endswith("next: evigraph review adjudicate run --out key.json")


def test_a_review_of_a_run_that_goes_on_and_one_of_an_earlier_result(
    tmp_path: Path, evigraph: Terminal
) -> None:
    with new_run(tmp_path / "run", ["k0", "k1"]) as run:
        add(run, ended("k0", status="waiting", answer=None, review=None))
        said = evigraph("review", str(run.path), "k0", "--by", "Ann", "--confirm")
        assert said.endswith("it continues with the run")
        add(run, ended("k1", review=None))
        evigraph("review", str(run.path), "k1", "--by", "Ann", "--confirm")
        add(run, ended("k1", labels={"1": "essential"}, review=None))
        key = str(tmp_path / "gold.json")
        exported = evigraph("review", str(run.path), "--export", key)
    assert "reviewed on an earlier result of the run: k1" in exported
