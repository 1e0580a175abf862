"""Runs in a database from the inside: who may join, leases and their fences, reviews, retries."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.bench.postgres_server import PostgresServer
from graph.recipe import load_recipe
from runs.audit import read_audit
from runs.batch import Options
from runs.folder import CASES, RunFolder
from runs.manifest import BudgetCaps, RunError
from runs.reviews import REVIEWS
from runs.sessions import resume, retry, start
from runs.shared_run import SharedRun, Stored
from serving.limits import Limits
from serving.model_name import assign_roles
from serving.postgres.address import StoreError, parse_store
from serving.postgres.schema import migrate
from tests.evigraph import write_cases
from tests.runs.waiting import Place, Watching

pytestmark = pytest.mark.scale

LIMITS = Limits(max_retries=0, max_outage=5)


class SharedPlace(Place):
    """A folder whose runs are shared in a database; two of its four cases wait for a person."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        super().__init__(folder)
        self.server = server
        self.database = server.create()
        self.address = parse_store(server.url(self.database))

    def options(self, command: str) -> Options:
        return Options(command, concurrency=2, limits=LIMITS, store=self.address)

    def shared(self, out: str, **changes: Any) -> RunFolder:
        request = replace(self.request(), **changes)

        async def go() -> RunFolder:
            stop, seen = asyncio.Event(), Watching()
            return await start(request, self.folder / out, self.options("run"), stop=stop, watcher=seen)

        return asyncio.run(go())

    def further(self, out: str, *, again: bool = False, watcher: Watching | None = None) -> RunFolder:
        async def go() -> RunFolder:
            stop, seen, path = asyncio.Event(), watcher or Watching(), self.folder / out
            if again:
                return await retry(path, self.options("retry"), models=None, stop=stop, watcher=seen)
            options = self.options("resume")
            return await resume(path, options, recipe=None, models=None, stop=stop, watcher=seen)

        return asyncio.run(go())

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.query(self.database, statement)


@pytest.fixture
def place(tmp_path: Path, server: PostgresServer) -> SharedPlace:
    return SharedPlace(tmp_path, server)


def runner(place: SharedPlace, name: str, lease_s: float = 600.0) -> SharedRun:
    return SharedRun(place.address, name, lambda _: None, lease_s=lease_s)


def test_a_waiting_case_goes_on_in_whichever_runner_after_its_review(place: SharedPlace) -> None:
    alone = place.start("alone")
    one, other = place.shared("one"), place.shared("other")
    for folder in (one, other):
        assert (folder.path / CASES).read_bytes() == (alone.path / CASES).read_bytes()
        assert (folder.manifest.status, folder.manifest.counts.waiting) == ("finished", 2)
    made = len(place.calls)
    place.review("k0", "alone")
    # The same one, as its time is part of the result.
    shutil.copy(alone.path / REVIEWS, one.path / REVIEWS)
    place.run = alone.path
    place.resume()
    # The runner with the review opens the case, and goes away; the other one has no review.
    review = (one.path / REVIEWS).read_text()

    async def open_it() -> None:
        shared = runner(place, "one")
        fields = json.loads(review)
        await shared.open_reviewed({"k0": json.dumps({k: v for k, v in fields.items() if k != "crc32"})})
        await shared.close()

    asyncio.run(open_it())
    assert place.further("other").manifest.counts.waiting == 1
    assert (other.path / CASES).read_bytes() == (alone.path / CASES).read_bytes()
    assert place.further("one").require_case("k0")["status"] == "done"
    # The answer was asked for once for the folder alone, and once here.
    assert len(place.calls) == made + 2


def test_failed_cases_are_tried_again(place: SharedPlace) -> None:
    (place.folder / "fail").touch()
    one = place.shared("one")
    assert one.manifest.counts.failed == 2
    (place.folder / "fail").unlink()
    before = len(place.calls)
    counts = place.further("one", again=True).manifest.counts
    assert (counts.done, counts.failed, counts.waiting) == (2, 0, 2)
    assert len(place.calls) == before + 2


def test_a_late_writer_that_lost_its_lease_is_refused(place: SharedPlace) -> None:
    place.shared("one")
    place.query("UPDATE cases SET state = 'open', line = NULL, trace = NULL, fence = NULL")

    async def go() -> None:
        late, other = runner(place, "late"), runner(place, "other")
        leases = await late.lease(2, ())
        assert [lease.position for lease in leases] == [0, 1]
        assert [lease.position for lease in await other.lease(9, ())] == [2, 3]
        assert await other.lease(9, ()) == []
        place.query("UPDATE cases SET expires = clock_timestamp() - interval '1 s' WHERE position = 0")
        (taken,) = await other.lease(9, ())
        assert taken.position == 0 and taken.fence > leases[1].fence
        assert await late.renew(leases) == {leases[1].fence}
        assert not await late.finish(leases[0], "done", Stored(b"late", b""))
        assert await other.finish(taken, "done", Stored(b"other", b""))
        assert not await late.finish(leases[0], "done", Stored(b"late", b""))
        # Whoever lost the connection after the commit does it again.
        assert await other.finish(taken, "done", Stored(b"other", b""))
        assert place.query("SELECT convert_from(line, 'UTF8') FROM cases WHERE position = 0") == [("other",)]
        await late.release(leases)
        assert [lease.position for lease in await other.lease(9, ())] == [1]
        await late.close()
        await other.close()

    asyncio.run(go())


def test_runners_that_come_at_once_make_the_tables_and_the_cases_once(place: SharedPlace) -> None:
    async def go() -> None:
        await asyncio.gather(*(asyncio.to_thread(migrate, place.address) for _ in range(4)))

    asyncio.run(go())
    assert place.query("SELECT version_num FROM alembic_version") == [("0001",)]
    place.query("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="written by a newer Evigraph; update first"):
        migrate(place.address)


def test_another_run_is_refused_by_what_differs(place: SharedPlace) -> None:
    place.shared("one")
    other = place.folder / "other.yaml"
    other.write_text(place.recipe.read_text().replace("threshold: 2", "threshold: 3"))
    changed = {"recipe": load_recipe(str(other)), "recipe_origin": str(other)}
    with pytest.raises(RunError, match=r"differs from this one in: recipe evidence\.threshold"):
        place.shared("other", **changed)
    with pytest.raises(RunError, match="differs from this one in: model of"):
        place.shared("other", models=assign_roles(["scripted:auto"], {}))
    write_cases(place.folder / "cases.jsonl", 5)
    with pytest.raises(RunError, match="differs from this one in: case files"):
        place.shared("other")
    assert not (place.folder / "other").exists()


def test_what_cannot_be_shared_is_refused(place: SharedPlace) -> None:
    alone = place.start("alone")
    with pytest.raises(RunError, match="began in its folder alone, so leave --store out"):
        place.further("alone")
    place.shared("one")
    place.query("DELETE FROM run")
    with pytest.raises(RunError, match="no run here; was the database made anew"):
        place.further("one")
    capped = replace(place.options("run"), budget=BudgetCaps(max_tokens=10))

    async def go() -> None:
        await start(
            place.request(), place.folder / "capped", capped, stop=asyncio.Event(), watcher=Watching()
        )

    with pytest.raises(RunError, match="a limit to tokens or cost counts one process"):
        asyncio.run(go())
    assert alone.manifest.store is None and not (place.folder / "capped").exists()


def test_the_folder_and_its_audit_name_the_database_without_user_and_password(place: SharedPlace) -> None:
    one = place.shared("one")
    name = f"postgresql://127.0.0.1:{place.server.port}/{place.database}"
    assert one.manifest.store == name
    started, ended = [line.fields or {} for line in read_audit(one.path)]
    assert started["store"] == name
    sent = ended["hosts"]["127.0.0.1"]
    assert sent["requests"] > 0 and sent["sent"] > 1000
    for path in one.path.iterdir():
        text = path.read_bytes()
        assert place.server.password.encode() not in text
        assert place.server.USER.encode() + b"@" not in text
