from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from starlette.testclient import TestClient

from tests.viewer.case_runs import line, write_run
from viewer.library import Library
from viewer.server import application

PORT = 8123
TOKEN = "the-key"  # noqa: S105 - of a test
CASE = {
    "case_id": "a/b?c",
    "question": "Why was a drain placed?",
    "sentences": ["A drain was placed for <b>pus</b>.", "He owns two cats."],
}


def parsed(page: str) -> Any:
    return lxml.html.fromstring(page)


def client(folder: Path, ranker: str, **fields: object) -> TestClient:
    run = write_run(folder, CASE, line("a/b?c", **fields))
    app = application(Library([run]), PORT, TOKEN, ranker=ranker)
    made = TestClient(app, base_url=f"http://127.0.0.1:{PORT}")
    made.get("/", params={"token": TOKEN})
    return made


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[TestClient]:
    with client(tmp_path, "bm25", answer="The drain was placed for <b>pus</b>. Ask your doctor.") as made:
        yield made


def link_of(reader: TestClient) -> str:
    page = parsed(reader.get("/runs/run/case", params={"id": "a/b?c"}).text)
    (found,) = page.xpath("//a[contains(., 'support it?')]/@href")
    return str(found)


def test_the_page_of_a_case_leads_to_its_verified_answer_and_back(reader: TestClient) -> None:
    answer = reader.get(link_of(reader))
    page = parsed(answer.text)
    lines = [" ".join(one.text_content().split()) for one in page.xpath("(//ol)[1]/li")]
    assert len(lines) == 2 and "The drain was placed for <b>pus</b>." in lines[0]
    assert "<b>pus" not in answer.text and not page.xpath("//script")
    assert "script-src" not in answer.headers["content-security-policy"]
    (back,) = page.xpath("//a[. = 'Back to the case']/@href")
    assert reader.get(back).status_code == 200


def test_a_case_without_an_answer_has_no_such_link(tmp_path: Path) -> None:
    with client(tmp_path, "bm25") as reader:
        assert "support it?" not in reader.get("/runs/run/case", params={"id": "a/b?c"}).text
        told = reader.get("/runs/run/verify", params={"id": "a/b?c"})
    assert told.status_code == 422 and "has no answer" in told.text


def test_a_ranker_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    with client(tmp_path, str(tmp_path / "nowhere"), answer="The drain helped.") as reader:
        told = reader.get("/runs/run/verify", params={"id": "a/b?c"})
    assert told.status_code == 422 and "folder not found" in told.text
