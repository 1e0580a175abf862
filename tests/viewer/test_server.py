from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evals.scoring.gold import gold_of_run, predictions
from evals.scoring.score import score
from runs.execute.watcher import PROGRESS, Progress, write_progress
from runs.record.folder import RunFolder, RunWriter
from runs.record.manifest import RunError
from serving.protocol.request import Usage
from tests.viewer.conftest import HOSTILE_ERROR, HOSTILE_FLAG, HOSTILE_ID, PORT, TOKEN, rows
from tests.viewer.written_run import add, ended, failed, finish, new_run
from viewer.addresses import Addresses, ServedAddresses
from viewer.library import Library
from viewer.pages.runs import ListedRun, runs_page
from viewer.server import application

TRAVERSALS = (
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "C:%5c",
    "....//",
    "plain%2f..%2fhostile",
    "<b>",
)


def test_the_list_names_each_run_and_what_is_wrong_with_it(client: TestClient) -> None:
    page = client.get("/").text
    for name in ("plain", "hostile", "damaged", "torn"):
        assert f'href="/runs/{name}"' in page
    assert page.count("state fault") == 2


@pytest.mark.parametrize("run", ["damaged", "torn"])
def test_a_damaged_run_is_one_line_and_takes_no_other_down(
    client: TestClient, folder: Path, run: str
) -> None:
    answer = client.get(f"/runs/{run}")
    assert answer.status_code == 422
    assert "Cannot be shown" in answer.text
    assert str(folder / run) in answer.text
    assert client.get("/runs/plain").status_code == 200


def test_the_list_scores_as_scoring_does(client: TestClient, folder: Path) -> None:
    run = RunFolder(folder / "plain")
    scored = score("2026-2", predictions(run), gold_of_run(run))
    assert f">{scored.values['strict_micro_f1']:.1f}<" in client.get("/").text
    assert f"{len(scored.case_ids)} cases" in client.get("/").text


@pytest.mark.parametrize("text", [HOSTILE_ID, HOSTILE_FLAG, HOSTILE_ERROR, "<b>bold</b>", "<node>", "\u202e"])
@pytest.mark.parametrize("path", ["/", "/runs/hostile"])
def test_hostile_text_is_escaped(client: TestClient, path: str, text: str) -> None:
    assert text not in client.get(path).text


def test_hostile_ids_are_links_to_their_own_case_alone(client: TestClient) -> None:
    found = rows(client, "hostile")
    assert found["link"] == "/runs/hostile/case?id="
    assert found["links"] is None
    assert 'href="/runs/hostile/case?id=.."' in client.get("/runs/hostile").text


@pytest.mark.parametrize("text", TRAVERSALS)
@pytest.mark.parametrize("path", ["/runs/{}", "/runs/{}/rows.json", "/assets/{}", "/{}"])
def test_no_path_of_a_request_reaches_the_disk(client: TestClient, path: str, text: str) -> None:
    answer = client.get(path.format(text), follow_redirects=False)
    assert answer.status_code == 404
    assert "<b>" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize("since", ["-1", "x", "9" * 40, "1e3", "²"])
def test_a_senseless_version_is_answered_with_all_rows(client: TestClient, since: str) -> None:
    answer = client.get("/runs/plain/rows.json", params={"since": since})
    assert len(json.loads(answer.content)["columns"]["id"]) == 250


def test_rows_say_what_the_run_says(client: TestClient) -> None:
    found = rows(client, "plain")
    columns, names = found["columns"], found["names"]
    assert isinstance(columns, dict)
    assert isinstance(names, dict)
    assert (columns["id"][7], names["error"][columns["error"][7]]) == ("c007", "timeout")
    assert (columns["divided"][1], columns["wrong"][1], columns["wrong"][0]) == (2, 2, 0)
    assert [names["flag"][place] for place in columns["flags"][10]] == ["missing_votes"]
    assert [names["node"][place] for place in names["route"][columns["route"][7]]] == [
        "classify_intent",
        "label_evidence",
    ]


def test_a_run_that_goes_on_tells_what_is_new(going: RunWriter) -> None:
    library = Library([going.path])
    with TestClient(application(library, PORT, TOKEN), base_url=f"http://127.0.0.1:{PORT}") as client:
        client.get("/", params={"token": TOKEN})
        usage = Usage(calls=40, input_tokens=9_000, output_tokens=1_000)
        session = Progress(total=10, done=2, under_way=4, usage=usage, calls_a_case=9.0)
        session.calls_ended, session.cases_ended = 18, 2
        write_progress(going.path / PROGRESS, session, session.pace(20.0))
        first = rows(client, "going")
        assert first["status"] == "running"
        assert first["live"]["pace"] == (
            "; this session: 44%, 4 under way, 2 calls/s, 500 tokens/s, 40 calls, 10,000 tokens,"
            " about 25.0 s left"
        )
        assert isinstance(first["version"], int)
        write_progress(going.path / PROGRESS, begun := Progress(total=10, under_way=4), begun.pace(1.0))
        calm = rows(client, "going", first["version"])
        assert calm["live"]["pace"] == "; this session: 0%, 4 under way"
        assert rows(client, "going")["live"] == calm["live"]
        add(going, ended("k2"))
        add(going, failed("k0", "refusal"))
        finish(going)
        library.get("going")._looked = 0.0  # type: ignore[union-attr]
        later = rows(client, "going", first["version"])
    library.close()
    assert later["status"] == "finished"
    assert later["columns"]["id"] == ["k0", "k2"]
    assert later["live"]["cases"] == "2 done, 1 failed, of 10"
    assert later["live"]["pace"] == ""


class WithoutCompare(ServedAddresses):
    compare = Addresses.compare  # type: ignore[assignment]


def test_runs_are_ticked_for_comparison_where_there_is_such_a_page() -> None:
    rows = [ListedRun("a", "out/a"), ListedRun("b", "out/b", fault="torn")]
    page = runs_page(rows, ServedAddresses())
    assert '<form method="get" action="/compare"' in page
    assert 'name="run" value="a"' in page
    assert 'value="b"' not in page
    assert "<form" not in runs_page(rows, WithoutCompare())


def test_runs_below_a_folder_are_found_with_names_of_their_own(tmp_path: Path) -> None:
    for place in ("a/run", "b/run", "a/run/forks/1", ".hidden/run"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        new_run(tmp_path / place, ["x"]).close()
    library = Library([tmp_path])
    assert library.names() == ["run", "run-forks-1", "run-2"]
    new_run(tmp_path / "a0", ["x"]).close()
    library._searched = 0.0
    assert set(library.names()) == {"run", "run-forks-1", "run-2", "a0"}


def test_more_runs_than_are_held_open_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewer.library._MAX_OPEN", 1)
    for number in range(3):
        with new_run(tmp_path / f"r{number}", ["x"]) as run:
            add(run, ended("x"))
    library = Library([tmp_path])
    for _ in range(2):
        for name in library.names():
            run_ = library.get(name)
            assert run_ is not None
            assert len(run_.ended().summaries) == 1
    library.close()


def test_rows_of_more_runs_than_are_kept_are_their_own(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.server._MAX_CACHED", 1)
    lengths = [len(rows(client, name)["columns"]["id"]) for name in ("plain", "hostile", "plain")]
    assert lengths == [250, 5, 250]


def test_a_run_that_disappears_meanwhile_is_one_line(folder: Path) -> None:
    seen = iter([True, False])
    library = Library([folder / "again"], visible=lambda _: next(seen))
    with TestClient(application(library, PORT, TOKEN), base_url=f"http://127.0.0.1:{PORT}") as client:
        answer = client.get("/", params={"token": TOKEN})
    assert (answer.status_code, "the folder is gone" in answer.text) == (200, True)


@pytest.mark.parametrize(
    ("path", "names", "told"),
    [
        ("/compare", "plain", "Choose 2 to 8 runs to compare."),
        ("/compare", "plain plain", "Choose 2 to 8 runs to compare."),
        ("/compare", "a b c d e f g h i", "Choose 2 to 8 runs to compare."),
        ("/compare/case", "plain hostile again", "Choose two runs to compare."),
    ],
)
def test_other_numbers_of_runs_are_not_compared(client: TestClient, path: str, names: str, told: str) -> None:
    answer = client.get(path, params={"run": names.split(), "id": "c000"})
    assert (answer.status_code, told in answer.text, "<title>404<" in answer.text) == (404, True, True)


def test_a_run_that_turns_out_unreadable_is_one_line(going: RunWriter) -> None:
    library = Library([going.path])
    run = library.get("going")
    assert run is not None and len(run.ended().summaries) == 2
    (going.path / "cases.jsonl").unlink()
    (going.path / "cases.jsonl").mkdir()
    run._looked = 0.0
    with pytest.raises(RunError, match=r"going: cannot be read: .*directory"):
        run.ended()
    library.close()


def test_a_fault_of_the_viewer_names_its_kind_and_keeps_the_headers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.server.runs_page", lambda *_: 1 // 0)
    app = application(Library([folder / "again"]), PORT, TOKEN)
    client = TestClient(app, base_url=f"http://127.0.0.1:{PORT}", raise_server_exceptions=False)
    answer = client.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["cache-control"]) == (500, "no-store")
    assert "The viewer failed with ZeroDivisionError." in answer.text
