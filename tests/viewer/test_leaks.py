"""No text of a case, a model or a reviewer is in what may leave without texts: a search over all bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runs.folder import RunFolder
from runs.reviews import Reviews, make_review
from serving.journal import Journal
from tests.evigraph import evigraph
from tests.runs.waiting import Place

RUN_OF = 12
"""So many characters of a text in a row count as a leak."""

SCRIPT = """\
import json
from serving.backends.scripted import made_up_reply
from serving.errors import CallError

def reply(call):
    valid = made_up_reply(call)
    if call.role == "label" and call.case_id == "k1" and call.sample == 0:
        # Quoted in the fault of the call, and in the reason of the node.
        return '{"wombat pastures quoted": 1}'
    if call.role == "answer" and call.case_id == "k2":
        raise CallError("refusal", "the server quotes marmoset meadows")
    if call.role == "answer" and call.format == "answer":
        return "ocelot thickets " * 40
    if call.role != "label":
        return valid
    first, second, *_ = call.schema_["required"]
    chosen = first if call.sample else second
    return json.dumps({i: "essential" if i == chosen else "not-essential" for i in call.schema_["required"]})
"""


def words(draw: random.Random, count: int) -> str:
    """Text that nothing else holds by chance."""
    return " ".join("".join(draw.choices("bcdfghjklmnpqrstvwxz", k=7)) for _ in range(count))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Cases with failures that quote and with reviews, one of them by a person that the run waited for."""
    place, draw = Place(tmp_path_factory.mktemp("leaks")), random.Random(7)
    (place.folder / "script.py").write_text(SCRIPT)
    cases = [
        {
            "case_id": f"k{number}",
            "narrative": words(draw, 20),
            "question": words(draw, 8),
            "sentences": [words(draw, 9) for _ in range(6)],
        }
        for number in range(4)
    ]
    (place.folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    place.start()
    reviews = Reviews(place.run)
    for line in RunFolder(place.run).cases():
        reviews.add(make_review(line, reviewer="Prof. Mabel Quillfeather", labels={}, comment=words(draw, 9)))
    place.resume()
    for line in RunFolder(place.run).cases():
        reviews.add(
            make_review(
                line, reviewer="Prof. Mabel Quillfeather", answer=words(draw, 9), comment=words(draw, 9)
            )
        )
    return RunFolder(place.run)


def texts_of(run: RunFolder) -> Iterator[str]:
    """All texts: of cases, of models, of reviews."""
    for raw in Path(run.manifest.inputs.paths[0]).read_text().splitlines():
        case = json.loads(raw)
        yield from (case["narrative"], case["question"], *case["sentences"])
    for raw in (run.path / "reviews.jsonl").read_text().splitlines():
        review = json.loads(raw)
        yield from (review["reviewer"], review["comment"], review["answer"] or "")
    yield from ("wombat pastures quoted", "marmoset meadows", "ocelot thickets ocelot thickets")


def leaks(content: Iterable[bytes], run: RunFolder) -> set[str]:
    windows = {text[at : at + RUN_OF] for text in texts_of(run) for at in range(len(text) - RUN_OF + 1)}
    found = set()
    for one in content:
        text = one.decode("utf-8", "replace")
        found |= {text[at : at + RUN_OF] for at in range(len(text) - RUN_OF + 1)} & windows
    return found


def files(folder: Path) -> list[bytes]:
    found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    # Tables are compressed, so their cells are searched too.
    tables = [repr(pq.read_table(path).to_pylist()).encode() for path in folder.rglob("*.parquet")]
    assert found
    return [*found, *tables]


def test_the_search_finds_what_is_there(run: RunFolder, tmp_path: Path) -> None:
    assert evigraph("view", run.path, "--bundle", "pages", folder=tmp_path).code == 0
    found = leaks(files(tmp_path / "pages"), run)
    assert {"Mabel Quillf", "wombat pastu", "ocelot thick"} <= found
    journal = Journal(run.path / "calls.sqlite", read_only=True)
    assert any("wombat pastures" in turns[-1].text for turns in journal.conversations())
    journal.close()


def test_a_redacted_bundle_holds_no_text(run: RunFolder, tmp_path: Path) -> None:
    assert evigraph("view", run.path, "--bundle", "pages", "--redact", folder=tmp_path).code == 0
    assert leaks(files(tmp_path / "pages"), run) == set()


def test_spans_without_payloads_hold_no_text(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "spans").mkdir()
    assert evigraph("export", run.path, "--spans", "spans/s.jsonl", folder=tmp_path).code == 0
    assert leaks(files(tmp_path / "spans"), run) == set()


def test_tables_and_logs_hold_no_text(run: RunFolder, tmp_path: Path) -> None:
    assert evigraph("export", run.path, "--inspect", "--out", "frames", folder=tmp_path).code == 0
    assert leaks(files(tmp_path / "frames"), run) == set()
    faults = {row["fault"] for row in pq.read_table(tmp_path / "frames" / "calls.parquet").to_pylist()}
    assert faults == {None, "rejected"}
