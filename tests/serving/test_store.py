"""Addresses of shared databases, what is kept of them, and work that is gathered into trips."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from serving import gate
from serving.policy import PolicyError, load_policy
from serving.postgres.address import StoreError, demand_driver, parse_store
from serving.postgres.link import Trips


@pytest.mark.parametrize(
    ("url", "name", "hosts"),
    [
        ("postgresql://db/night", "postgresql://db/night", ("db",)),
        ("postgres://ann:se%40cret@db:5433/night", "postgresql://db:5433/night", ("db",)),
        ("postgresql://a@b@db/night", "postgresql://db/night", ("db",)),
        ("postgresql://one:1,two:2/night", "postgresql://one:1,two:2/night", ("one", "two")),
        ("postgresql://[::1]:5432/night", "postgresql://[::1]:5432/night", ("::1",)),
        ("postgresql://%2Frun%2Fpg/night", "postgresql://%2Frun%2Fpg/night", ("localhost",)),
        ("postgresql:///night?host=/run/pg&user=ann", "postgresql:///night?host=/run/pg", ("localhost",)),
        (
            "postgresql://db.example.org/night?sslmode=verify-full&sslrootcert=/etc/ca.pem&password=secret"
            "&sslpassword=secret&application_name=x",
            "postgresql://db.example.org/night?sslmode=verify-full&sslrootcert=/etc/ca.pem",
            ("db.example.org",),
        ),
    ],
)
def test_what_is_kept_of_an_address_has_no_user_and_no_password(
    url: str, name: str, hosts: tuple[str, ...]
) -> None:
    address = parse_store(url)
    assert (address.url, address.name, address.hosts) == (url, name, hosts)
    assert "secret" not in repr(address)
    assert parse_store(name).name == name


@pytest.mark.parametrize(
    "url",
    [
        *("", "night", "mysql://ann:secret@db/night", "postgresql://ann:secret@db", "postgresql:///night"),
        *("postgresql://ann:sec#secret@db/night", "postgresql://ann:secret@db/night?sslmode"),
        *("postgresql://ann:secret@db/night?hostaddr=10.0.0.1", "postgresql://ann:secret@[db/night"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(StoreError, match=r"^--store: .*postgresql://\[USER@\]HOST") as refused:
        parse_store(url)
    assert "secret" not in str(refused.value) and "ann" not in str(refused.value)


def test_every_host_of_an_address_passes_the_gate() -> None:
    address = parse_store("postgresql://ann:secret@gpu01,db.example.org/night")
    assert address.public_hosts == ["db.example.org"]
    with pytest.raises(PolicyError, match=r"store postgresql://gpu01,db\.example\.org/night: texts of cases"):
        address.demand_allowed()
    gate.choose(None, allow_hosted=True)
    address.demand_allowed()
    gate.release()
    gate.hold([load_policy("physionet")])
    with pytest.raises(PolicyError, match="may see no text of a case"):
        address.demand_allowed()


def test_without_the_driver_a_store_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.postgres.address.find_spec", lambda name: None)
    with pytest.raises(StoreError, match=r"pip install 'evigraph\[postgresql\]'"):
        demand_driver()


def test_a_run_without_a_store_imports_no_driver() -> None:
    code = (
        "import sys, cli.run, runs.sessions; print({'psycopg', 'alembic', 'sqlalchemy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


async def test_what_comes_while_a_trip_is_under_way_goes_with_the_next() -> None:
    trips: list[list[int]] = []
    begun, gone = asyncio.Event(), asyncio.Event()

    async def travel(items: list[int]) -> list[int]:
        trips.append(items)
        begun.set()
        await gone.wait()
        return [10 * item for item in items]

    gathered: Trips[int, int] = Trips(travel, most=2)
    first = [asyncio.create_task(gathered.take(1))]
    await begun.wait()
    later = [asyncio.create_task(gathered.take(item)) for item in (2, 3, 4)]
    await asyncio.sleep(0)
    gone.set()
    assert await asyncio.gather(*first, *later) == [10, 20, 30, 40]
    assert trips == [[1], [2, 3], [4]]


async def test_who_is_cancelled_while_waiting_has_sent_it_all_the_same() -> None:
    arrived: list[int] = []

    async def travel(items: list[int]) -> list[int]:
        await asyncio.sleep(0)
        arrived.extend(items)
        return items

    gathered: Trips[int, int] = Trips(travel)
    waiting = asyncio.create_task(gathered.take(1))
    await asyncio.sleep(0)
    waiting.cancel()
    await gathered.settle()
    assert arrived == [1]


async def test_a_trip_that_fails_fails_for_all_that_took_it_and_for_no_other() -> None:
    async def travel(items: list[int]) -> list[int]:
        if 1 in items:
            raise StoreError("away")
        return items

    gathered: Trips[int, int] = Trips(travel)
    failed = await asyncio.gather(gathered.take(1), gathered.take(2), return_exceptions=True)
    assert [str(one) for one in failed] == ["away", "away"]
    assert await gathered.take(3) == 3
