"""What a run came to, in the terminal and on its page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from runs.record.folder import RunFolder
from runs.record.manifest import ForkedFrom
from tests.evigraph import edit_manifest
from tests.runs.waiting import Place
from tests.viewer.written_run import new_run
from viewer.opened_run import OpenedRun
from viewer.pages.runs import listed, live_facts


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Four cases of which two wait; the working directory is theirs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Place(tmp_path)


class Said:
    """Commands in this process, and what they print."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[str, str]:
        self._monkeypatch.setattr(sys, "argv", ["evigraph", *arguments])
        with pytest.raises(SystemExit):
            main()
        out, err = self._capsys.readouterr()
        return " ".join(out.split()), " ".join(err.split())

    def json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*arguments, "--json")[0])
        return found


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(monkeypatch, capsys)


def gold_key(place: Place) -> Path:
    answers = [{"sentence_id": str(id_), "relevance": "essential"} for id_ in (1, 2)]
    path = place.folder / "key.json"
    path.write_text(json.dumps([{"case_id": f"k{number}", "answers": answers} for number in range(4)]))
    return path


def test_totals_are_those_of_all_sessions_and_the_same_on_the_page(place: Place, said: Said) -> None:
    (place.folder / "fail").touch()
    place.start()
    (place.folder / "fail").unlink()
    place.resume(again=True)
    place.resume()
    run = RunFolder(place.run)
    made = [session.calls for session in run.manifest.sessions]
    assert made[0] > made[1] > made[2] == 0
    found = said.json("show", "run")
    assert (found["calls"], found["replayed_calls"]) == (
        sum(made),
        sum(session.replayed for session in run.manifest.sessions),
    )
    assert found["last_session"]["command"] == "resume" and found["last_session"]["calls"] == 0
    opened = OpenedRun(place.run, print)
    facts = live_facts(run.manifest, opened.ended().summaries)
    assert facts["calls"] == f"{found['calls']}, {found['replayed_calls']} replayed"
    assert facts["tokens"] == f"{found['input_tokens']:,} read, {found['output_tokens']:,} written"
    row = listed("run", place.run, *opened.totals())
    assert (row.tokens, row.seconds) == (found["input_tokens"] + found["output_tokens"], found["seconds"])
    out, _ = said("show", "run")
    assert f"calls {sum(made)} made" in out and "of these resume: 0 calls made" in out


def test_a_killed_session_counts_by_what_its_cases_took(place: Place, said: Said) -> None:
    run = place.start()
    lines = [line["usage"] for line in run.cases()]
    killed = {"finished": None, "calls": 0, "input_tokens": 0, "output_tokens": 0}
    edit_manifest(place.run, sessions=[run.manifest.sessions[0].model_dump(mode="json") | killed])
    found = said.json("show", "run")
    for name in ("calls", "input_tokens", "output_tokens"):
        assert found[name] == sum(line[name] for line in lines) > 0
    row = listed("run", place.run, *OpenedRun(place.run, print).totals())
    assert row.tokens == found["input_tokens"] + found["output_tokens"]


@pytest.mark.parametrize("command", ["resume", "retry"])
def test_a_session_without_a_case_to_run_says_so(place: Place, said: Said, command: str) -> None:
    place.start()
    _, err = said(command, "run")
    assert f"nothing to {command}: every case has ended (2 done, 2 waiting for a person)" in err
    assert said.json(command, "run")["cases_run"] == 0


def test_a_reviewers_labels_are_no_score_of_the_run(place: Place, said: Said) -> None:
    place.start(keys=(gold_key(place),))
    for case_id in ("k0", "k2"):
        place.review(case_id, s1="essential", s2="essential")
    place.resume()
    found = said.json("show", "run")["evidence_scores"]
    # Of the cases without a review, one of two essential sentences is found.
    assert (found["scored_cases"], found["reviewed_cases"]) == (2, 2)
    assert found["strict_micro"]["recall"] == 50
    assert "reviewed 2 cases not scored: a reviewer's labels" in said("show", "run")[0]
    opened = OpenedRun(place.run, print)
    row = listed("run", place.run, *opened.totals())
    assert (row.scored, row.reviewed) == (2, 2)
    assert row.score == pytest.approx(found["strict_micro"]["f1"])
    wrong = {one.case_id: one.wrong for one in opened.ended().summaries}
    assert wrong == {"k0": None, "k1": 1, "k2": None, "k3": 1}


def test_a_run_that_is_being_read_is_not_closed(place: Place) -> None:
    place.start()
    opened = OpenedRun(place.run, print)
    with opened.reading() as run:
        opened.release()
        assert len(list(run.summaries())) == 4
    opened.release()


def test_worst_cases_come_first_and_a_lost_key_is_no_fault(place: Place, said: Said) -> None:
    place.start(keys=(gold_key(place),))
    lines = place.lines()
    scored = {line["case_id"]: line["score"] for line in said.json("show", "run")["rows"] if "score" in line}
    worst = said.json("show", "run", "--worst-first")["rows"]
    assert [one["case_id"] for one in worst] == [
        *sorted(scored, key=lambda id_: scored[id_]),
        *(id_ for id_ in lines if id_ not in scored),
    ]
    (place.folder / "key.json").unlink()
    lost = said.json("show", "run")
    assert lost["done"] == 2 and not [one for one in lost["rows"] if "score" in one]


def test_what_models_do_not_take_and_wider_limits_are_told(place: Place, said: Said) -> None:
    run = place.start()
    sessions = [one.model_dump(mode="json") | {"widened": 2} for one in run.manifest.sessions]
    models = {name: one.model_dump(mode="json") for name, one in run.manifest.models.items()}
    models["label"]["not_sent"] = ["no seed is sent"]
    edit_manifest(place.run, sessions=sessions, models=models)
    shown = said("show", "run")[0]
    assert "widened 2 requests, after thinking used up the limit" in shown
    assert "not sent no seed is sent" in shown


def test_scores_of_a_purged_run_are_those_of_before(place: Place, said: Said) -> None:
    place.start(keys=(gold_key(place),))
    before = said.json("score", "run")["tasks"]
    said("purge", "run", "--yes")
    kept = said.json("score", "run")
    assert [one["values"] for one in kept["tasks"]] == [one["values"] for one in before]
    printed = said("score", "run", "--fail-under", "strict_micro_f1=100")
    assert "; these are the scores of before " in printed[0] and "strict_micro_f1" in printed[0]
    assert "--fail-under strict_micro_f1=100" in printed[1]
    place.start(out="unscored")
    said("purge", "unscored", "--yes")
    assert "and no scores were kept" in said("score", "unscored")[1]


def test_a_fork_is_purged_with_its_run(tmp_path: Path, said: Said) -> None:
    made = ForkedFrom(run="the run", case_id="x", node="label_evidence", step=2, changes={})
    new_run(tmp_path / "fork", ["x"], forked_from=made).close()
    told = said("purge", str(tmp_path / "fork"), "--yes")[1]
    assert told.endswith("fork is a fork; purge the run it is of: 'the run'")
