"""What is taken, what is refused and how, and that a submission with the same key is taken once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import ValidationError

from api.bodies import MAX_SENTENCES
from api.jobs import Jobs
from api.offer import Limits, Offer
from api.problems import Refused
from api.service import Service
from cases.formats.json_border import first_fault
from cli.running.api import _offer
from nodes.core.recipe import RecipeError
from runs.record.manifest import RunError
from tests.api.services import NOTE, QUESTION, Client, Place, run_of

SAMPLES = Path(__file__).parents[2] / "cases" / "samples"
CASE = {"case_id": "a/b c", "question": "Why?", "sentences": ["A drain was placed.", "It leaked."]}


def test_a_question_on_a_note_becomes_an_ordinary_run(client: Client, place: Place) -> None:
    answer = client.submit()
    assert answer.status_code == 202
    id_ = answer.json()["id"]
    assert answer.headers["location"] == f"/v1/runs/{id_}"
    assert client.ended(id_) | {"usage": None} == {
        **{"id": id_, "status": "finished", "system": "tamu", "recipe": "lexical", "model": "counting"},
        **{"settings": {}, "submitted_by": "admin", "fault": "", "usage": None},
        "submitted_at": answer.json()["submitted_at"],
        "cases": {"total": 1, "done": 1, "failed": 0, "waiting": 0, "errors": {}},
    }
    folder = run_of(place, id_)
    assert folder.manifest.status == "finished"
    assert [line["case_id"] for line in folder.cases()] == ["note"]
    result = client.call("GET", f"/v1/runs/{id_}/cases/note").json()
    assert result["status"] == "done"
    assert set(result["labels"]) == {"1", "2", "3"}


def test_cases_in_json_keep_ids_that_no_path_could_have(client: Client) -> None:
    id_ = client.submitted({"cases": [CASE, {**CASE, "case_id": "2"}]})
    client.ended(id_)
    listed = client.call("GET", f"/v1/runs/{id_}/cases").json()["cases"]
    assert listed == [{"case_id": "a/b c", "status": "done"}, {"case_id": "2", "status": "done"}]
    assert client.call("GET", f"/v1/runs/{id_}/cases/a%2Fb%20c").json()["case_id"] == "a/b c"
    assert client.call("GET", f"/v1/runs/{id_}/cases/a%2Fb%20c/review").json()["case_id"] == "a/b c"


@pytest.mark.parametrize("name", ["batch.xml", "batch.jsonl"])
def test_a_file_is_read_as_its_name_says(client: Client, tmp_path: Path, name: str) -> None:
    path = SAMPLES / "batch.xml"
    if name.endswith(".jsonl"):
        path = tmp_path / name
        path.write_text(json.dumps(CASE) + "\n{broken\n")
    files = {"file": (name, path.read_bytes())}
    answer = client.call("POST", "/v1/runs", files=files, data={"settings": '{"evidence.votes": 2}'})
    assert answer.status_code == 202, answer.text
    assert answer.json()["settings"] == {"evidence.votes": 2}
    found = client.ended(answer.json()["id"])
    counts = found["cases"]
    # A broken line fails by itself, as in `evigraph run`.
    expected = (1, 1) if name.endswith(".jsonl") else (counts["total"], 0)
    assert (counts["done"], counts["failed"]) == expected


REFUSED: dict[str, tuple[dict[str, Any], int, str | None, str]] = {
    "nothing": ({}, 422, None, "exactly one"),
    "two kinds": ({**QUESTION, "case": CASE}, 422, None, "exactly one"),
    "a question alone": ({"question": "Why?"}, 422, None, "come together"),
    "an empty note": ({**QUESTION, "note": " "}, 422, "/note", "note"),
    "an empty question": ({**QUESTION, "question": " "}, 422, "/question", "empty"),
    "an unknown field": ({**QUESTION, "modle": "auto"}, 422, "/modle", "modle"),
    "an unknown model": ({**QUESTION, "model": "gpt"}, 422, "/model", "on offer: counting, auto"),
    "an unknown recipe": ({**QUESTION, "recipe": "/etc/passwd"}, 422, "/recipe", "on offer: lexical"),
    "an unknown system": ({**QUESTION, "system": "heids"}, 422, "/system", "on offer: tamu"),
    "a closed setting": ({**QUESTION, "settings": {"answer.words": 1}}, 422, "/settings", "evidence.votes"),
    "a host by a setting": (
        {**QUESTION, "settings": {"embedding": "openai:e@http://203.0.113.9/v1"}},
        *(422, "/settings", "lexical:512"),
    ),
    "a word in place of a number": (
        {**QUESTION, "settings": {"evidence.votes": "3..9"}},
        422,
        "/settings",
        "none",
    ),
    "a wrong setting": ({**QUESTION, "settings": {"evidence.votes": 0}}, 422, "/settings", "votes"),
    "a case without an id": ({"case": {"question": "Why?"}}, 422, "/cases/0", "case_id"),
    "one bad case of two": (
        {"cases": [CASE, {"case_id": "2", "sentenses": []}]},
        422,
        "/cases/1",
        "sentences",
    ),
    "one id twice": ({"cases": [CASE, CASE]}, 422, None, "used twice"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_field_and_leaves_nothing(client: Client, place: Place, name: str) -> None:
    given, status, pointer, words = REFUSED[name]
    answer = client.call("POST", "/v1/runs", json=given)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["instance"] == "/v1/runs"
    assert words in problem["detail"]
    assert problem.get("pointer") == pointer
    assert [path.name for path in (place.root / ".jobs").iterdir()] == [".lock"]
    assert place.calls == []


def test_what_is_no_json_and_what_is_no_form_is_refused(client: Client) -> None:
    kinds = {"application/json": 400, "text/plain": 415}
    for kind, status in kinds.items():
        answer = client.call("POST", "/v1/runs", content=b"{", headers={"content-type": kind})
        assert (answer.status_code, answer.json()["status"]) == (status, status)
    for files, data in (
        ({"file": ("a.exe", b"x")}, {}),
        ({}, {"file": "x"}),
        ({"file": ("a.xml", b"<")}, {}),
    ):
        answer = client.call("POST", "/v1/runs", files=files or None, data=data)
        assert answer.status_code in (415, 422), answer.text


def test_limits_of_size_and_number(place: Place) -> None:
    with place.client(Limits(body=20_000, cases=2)) as client:
        cases = [{**CASE, "case_id": str(number)} for number in range(3)]
        answer = client.submit({"cases": cases})
        assert (answer.status_code, answer.json()["pointer"]) == (413, "/cases")
        file = "\n".join(map(json.dumps, cases)).encode()
        answer = client.call("POST", "/v1/runs", files={"file": ("cases.jsonl", file)})
        assert (answer.status_code, answer.json()["pointer"]) == (413, "/file")
        large = json.dumps({**QUESTION, "note": NOTE * 400}).encode()
        kind = {"content-type": "application/json"}
        announced = client.call("POST", "/v1/runs", content=large, headers=kind)
        unannounced = client.call(
            "POST", "/v1/runs", content=iter([large[:9000], large[9000:]]), headers=kind
        )
        for answer in (announced, unannounced):
            assert (answer.status_code, answer.json()["status"]) == (413, 413), answer.text


def test_a_full_queue_refuses_its_user_and_says_when_to_come_again(place: Place) -> None:
    with place.client(Limits(queued=1, running=1)) as client, place.held("label"):
        running = client.submitted()
        client.until(running, "running")
        queued = client.submitted()
        answer = client.submit()
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        assert client.status(queued)["status"] == "queued"
        told = client.call("GET", "/metrics", "view").text
        assert 'evigraph_runs{state="queued"} 1.0' in told and 'evigraph_runs{state="running"} 1.0' in told
        assert "evigraph_cases_submitted_total 2.0" in told and 'event_streams{state="open"} 0.0' in told
        assert client.call("POST", "/v1/runs", "submit", json=QUESTION).status_code == 202


def test_a_key_is_taken_once_also_by_the_next_service(place: Place) -> None:
    with place.client() as client:
        first = client.submit(Idempotency_Key="k")
        again = client.submit(Idempotency_Key="k")
        assert "idempotent-replayed" not in first.headers
        assert again.headers["idempotent-replayed"] == "true"
        other = client.submit({**QUESTION, "question": "How?"}, Idempotency_Key="k")
        assert other.status_code == 422
        theirs = client.call("POST", "/v1/runs", "submit", json=QUESTION, headers={"Idempotency-Key": "k"})
        assert theirs.json()["id"] != first.json()["id"]
        client.ended(first.json()["id"])
    with place.client() as client:
        answer = client.submit(Idempotency_Key="k")
        assert answer.json()["id"] == first.json()["id"] == again.json()["id"]
        assert len(client.call("GET", "/v1/runs").json()["runs"]) == 2


def test_runs_are_listed_newest_first_and_by_pages(client: Client) -> None:
    ids = [client.submitted() for _ in range(3)]
    for id_ in ids:
        client.ended(id_)
    page = client.call("GET", "/v1/runs", params={"limit": 2}).json()
    rest = client.call("GET", "/v1/runs", params={"limit": 2, "before": page["next"]}).json()
    listed = [one["id"] for one in (*page["runs"], *rest["runs"])]
    assert listed == sorted(ids, reverse=True)
    assert rest["next"] is None


def test_the_log_of_a_run_names_who_submitted_and_who_looked(client: Client, place: Place) -> None:
    id_ = client.call("POST", "/v1/runs", "submit", json=QUESTION).json()["id"]
    client.ended(id_)
    client.call("GET", f"/v1/runs/{id_}", "view")
    client.call("GET", f"/v1/runs/{id_}/cases/note", "view")
    log = [json.loads(line) for line in (place.root / id_ / "audit.jsonl").read_text().splitlines()]
    assert [(line["event"], line["person"]) for line in log] == [
        ("started", "submit"),
        ("ended", "submit"),
        ("opened", "view"),
    ]


@pytest.mark.parametrize("field", ["embedding", "prompts", "evidence.ranker", "evidence"])
def test_settings_that_name_hosts_and_files_need_their_words(place: Place, field: str) -> None:
    def offered(*words: str) -> Offer:
        return Offer({"auto": "scripted:auto"}, {"lexical": str(place.recipe)}, {field: words})

    with pytest.raises(RecipeError, match=f"--setting {field}=WORD"):
        offered()
    with pytest.raises(Refused) as refused:
        offered("model").choose(None, None, None, {field: "/etc"})
    assert (refused.value.status_code, refused.value.pointer) == (422, "/settings")


def test_the_operator_names_models_recipes_and_the_words_of_settings(place: Place) -> None:
    words = ("evidence.votes", "embedding=lexical:1,lexical:2", "embedding=,lexical:3")
    models = ("fast=scripted:auto", "scripted:auto")
    found = _offer(models, [str(place.recipe)], words, {}, Limits())
    assert found.models == {"fast": "scripted:auto", "scripted:auto": "scripted:auto"}
    assert {name: [*allowed] for name, allowed in found.settings.items()} == {
        "evidence.votes": [],
        "embedding": ["lexical:1", "lexical:2", "lexical:3"],
    }
    assert [*found.recipes] == ["lexical"]


IDS = ["a/review", "a\nb", "x" * 201, "../x", "a/./b", "..", "\u2028", "\u202e"]


@pytest.mark.parametrize("wrong", IDS)
def test_ids_that_no_address_can_have_are_refused(client: Client, place: Place, wrong: str) -> None:
    case = {**CASE, "case_id": wrong}
    answer = client.submit({"cases": [CASE, case]})
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/cases/1"), answer.text
    file = json.dumps(case).encode()
    answer = client.call("POST", "/v1/runs", files={"file": ("cases.jsonl", file)})
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/file"), answer.text
    assert [path.name for path in (place.root / ".jobs").iterdir()] == [".lock"]


@pytest.mark.parametrize("id_", ["a/b", "review", "a b?#&=+é", "x" * 200, "-", "a/reviews"])
def test_every_id_that_is_taken_can_be_fetched_and_reviewed(client: Client, id_: str) -> None:
    run = client.submitted({"case": {**CASE, "case_id": id_}})
    client.ended(run)
    path = f"/v1/runs/{run}/cases/{quote(id_, safe='')}"
    assert client.call("GET", path).json()["case_id"] == id_
    assert client.call("GET", f"{path}/review").json()["case_id"] == id_


BODIES = {
    "a million numbers": (b'{"cases":[' + b"1," * 1_000_000 + b"1]}", 413),
    "a million lists": (b"[" + b"[]," * 1_000_000 + b"[]]", 413),
    "too many cases": (b'{"cases":[' + b"1," * 1_000 + b"1]}", 413),
    "as many wrong cases as may be": (b'{"cases":[' + b"1," * 999 + b"1]}", 422),
    "unknown fields": (b"{" + b",".join(b'"f%d":1' % number for number in range(250_000)) + b"}", 422),
    "a case of too many sentences": (
        json.dumps({"case": {**CASE, "sentences": ["A drain was placed."] * (MAX_SENTENCES + 1)}}).encode(),
        413,
    ),
    "one of two cases with too many of something": (
        json.dumps({"cases": [CASE, {**CASE, "more": [[]] * (MAX_SENTENCES + 1)}]}).encode(),
        413,
    ),
    "too many settings": (
        json.dumps({**QUESTION, "settings": dict.fromkeys(map(str, range(101)))}).encode(),
        413,
    ),
    "no JSON": (b'{"cases":', 400),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_measured_before_it_is_validated(
    client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, status = BODIES[name]
    faults: list[int] = []

    def counted(error: ValidationError) -> str:
        faults.append(error.error_count())
        return first_fault(error)

    monkeypatch.setattr("api.bodies.first_fault", counted)
    answer = client.call("POST", "/v1/runs", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, len(answer.text) < 1000) == (status, True), answer.text
    assert sum(faults) <= 1000


def test_a_file_and_a_note_have_no_case_of_too_many_sentences(client: Client, place: Place) -> None:
    many = MAX_SENTENCES + 1
    file = json.dumps({**CASE, "sentences": ["A drain was placed."] * many}).encode()
    by_file = client.call("POST", "/v1/runs", files={"file": ("cases.jsonl", file)})
    by_note = client.submit({**QUESTION, "note": "It leaked.\n\n" * many})
    for answer in (by_file, by_note):
        assert answer.status_code == 413, answer.text
        assert answer.json()["detail"] == "10,001 sentences, of at most 10,000 of a case"
    assert [one.name for one in (place.root / ".jobs").iterdir()] == [".lock"]


def test_without_a_token_no_body_is_read(client: Client) -> None:
    review = "/v1/runs/20261123T041500-0a1b2c3d4e5f/cases/1/review"
    kind = {"content-type": "application/json"}
    for path in ("/v1/runs", review):
        # Otherwise it would report invalid JSON.
        assert client.http.post(path, content=b"{", headers=kind).status_code == 401, path


def test_a_form_needs_a_file_and_known_fields(client: Client) -> None:
    file = ("a.jsonl", json.dumps(CASE).encode())
    forms: list[tuple[dict[str, Any], str, str | None]] = [
        ({"file": file, "modle": (None, "auto")}, "unknown field 'modle'; known: file, system, ", None),
        ({"model": (None, "auto")}, "send the case file as the field `file`", "/file"),
        ({"file": (None, "text")}, "send the case file as the field `file`", "/file"),
        ({"file": file, "settings": (None, '{"a": []}')}, "an object of plain values", "/settings"),
    ]
    for files, told, pointer in forms:
        answer = client.call("POST", "/v1/runs", files=files)
        assert (answer.status_code, answer.json().get("pointer")) == (422, pointer), answer.text
        assert told in answer.json()["detail"]


def test_a_key_is_short_and_printable_and_serves_one_submission_at_a_time(client: Client) -> None:
    answers = [client.submit(Idempotency_Key=key) for key in ("", "k" * 201, "k\tk")]
    assert [one.status_code for one in answers] == [400, 422, 400]
    assert all("dempotency-" in one.json()["detail"] for one in answers)
    assert client.submit(Idempotency_Key="k" * 200).status_code == 202
    client.service._pending.add(("admin", "k"))
    answer = client.submit(Idempotency_Key="k")
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "1")
    theirs = client.call("POST", "/v1/runs", "submit", json=QUESTION, headers={"Idempotency-Key": "k"})
    assert theirs.status_code == 202


def test_what_is_not_offered_together_or_any_more_is_refused(client: Client, place: Place) -> None:
    job = client.service.jobs.get(client.submitted())
    assert job is not None
    recipes = {"lexical": str(place.recipe), "direct": "direct"}
    both = Offer({"auto": "scripted:auto"}, recipes, {"no.field": ()})
    with pytest.raises(Refused, match="recipe 'lexical' is not for system 'direct'") as refused:
        both.choose("direct", "lexical", None, {})
    assert refused.value.pointer == "/recipe"
    assert both.choose("direct", None, None, {}).recipe == "direct"
    with pytest.raises(Refused, match="no\\.field") as refused:
        both.choose(None, None, None, {"no.field": 1})
    assert refused.value.pointer == "/settings"
    with pytest.raises(Refused, match="recipe 'lexical' or model 'counting' is not on offer any more"):
        both.request(job.record, place.folder)


def test_a_wrong_parameter_and_a_fault_of_the_service_are_problems(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = client.call("GET", "/v1/runs", params={"limit": "x"})
    assert (wrong.status_code, wrong.json()["pointer"]) == (422, "/limit")
    assert wrong.json()["detail"].startswith("query.limit: ")
    monkeypatch.setattr(Service, "job", lambda *_: 1 // 0)
    failed = client.call("GET", "/v1/runs/x")
    assert (failed.status_code, failed.headers["content-type"]) == (500, "application/problem+json")
    assert failed.json()["detail"].startswith("The service failed with ZeroDivisionError.")
    assert failed.json()["instance"] == "/v1/runs/x"


def test_a_damaged_record_is_named_and_half_a_submission_is_forgotten(place: Place) -> None:
    with place.client() as client:
        id_ = client.submitted()
        client.ended(id_)
    record = place.root / ".jobs" / id_ / "job.json"
    half = place.root / ".jobs" / f"{id_[:-1]}{int(id_[-1] == '0')}"
    half.mkdir()
    (half / "note.jsonl").touch()
    record.write_text("{}")
    # The second time it would be held by the first one, had that not given it up.
    for _ in range(2):
        with pytest.raises(RunError, match=r"job\.json: .*; correct it, or move its folder away"):
            Jobs(place.root)
    record.unlink()
    jobs = Jobs(place.root)
    assert (jobs.all(), half.exists(), record.parent.exists()) == ([], False, False)
    jobs.close()


def test_results_are_refused_until_a_case_has_ended_and_where_they_are_damaged(place: Place) -> None:
    with place.client(Limits(running=1)) as client:
        with place.held("label"):
            client.until(client.submitted(), "running")
            queued = client.submitted()
            path = f"/v1/runs/{queued}/cases"
            assert client.call("GET", path).json() == {"cases": []}
            missing = client.call("GET", f"{path}/note")
            assert missing.status_code == 404
            assert missing.json()["detail"] == f"no case 'note' of run {queued} has ended"
        client.ended(queued)
        assert client.call("GET", f"{path}/other").status_code == 404
        (place.root / queued / "cases.jsonl").write_text("{broken\n")
        damaged = client.call("GET", f"{path}/note")
        assert (damaged.status_code, "cases.jsonl" in damaged.json()["detail"]) == (500, True)
