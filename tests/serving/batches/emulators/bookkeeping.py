"""What all emulators share: a clock, a ledger, faults on order, accounts, and batches that take time."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from aiohttp import web

from tests.serving.batches.emulators.replies import digest

BEGIN = 1_790_000_000.0
"""When an emulator's clock starts; it moves by requests and on order, never by itself."""

HANG_UP = 0
"""As a status: the connection is closed without a word."""

DAY_S = 86_400.0
PREPARING_S, FINISHING_S = 10.0, 10.0

WRONG_KEY = "a-wrong-key"

RowFault = Literal["invalid", "overloaded", "refused", "blocked", "too_long"]


@dataclass
class Faults:
    """What goes wrong. Rows are counted from 0 in each batch.

    Attributes:
        upload: Statuses with which the next uploads are refused.
        before: Statuses with which the next submits are answered, with nothing done.
        after: The same, once the batch has been created.
        look: Statuses with which the next looks at a batch are answered.
        results: The same for results.
        rows: Outcomes of single rows.
        every: The same for every n-th row of every batch.
        missing: Rows without a result.
        doubled: Rows whose result comes twice.
        contradicted: Rows whose result comes twice, with different contents.
        foreign: Rows that nobody asked for, added to the results.
        garbage: Lines that are no JSON, added to the results.
        cut: Results end in the middle of a line, and the connection with them.
        shuffled: Results come in reverse order.
        lost: Batches are created, and then answered with 404.
        fail_batch: A code with which batches fail after they were taken.
        redirect: Where results are redirected to.
        skew: Seconds by which all times are wrong.
        page: Batches on a page of a list, whatever is asked for.
        same_page: Every page of a list is the first one.
        html: The next looks are answered with a page of a proxy, and status 200.
    """

    upload: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    look: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    rows: dict[int, RowFault] = field(default_factory=dict)
    every: dict[int, RowFault] = field(default_factory=dict)
    missing: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    contradicted: list[int] = field(default_factory=list)
    foreign: int = 0
    garbage: int = 0
    cut: bool = False
    shuffled: bool = False
    lost: bool = False
    fail_batch: str = ""
    redirect: str = ""
    skew: float = 0.0
    page: int = 0
    same_page: bool = False
    html: int = 0

    def of_row(self, index: int) -> RowFault | None:
        if index in self.rows:
            return self.rows[index]
        return next((fault for n, fault in self.every.items() if index % n == n - 1), None)

    def change(self, changes: Mapping[str, Any]) -> None:
        """Set fields, as JSON has them.

        Raises:
            ValueError: One is unknown.
        """
        known = {one.name for one in fields(self)}
        if unknown := changes.keys() - known:
            raise ValueError(f"no such faults: {sorted(unknown)}")
        for name, value in changes.items():
            if name in ("rows", "every"):
                value = {int(index): fault for index, fault in value.items()}
            setattr(self, name, value)


@dataclass
class Limits:
    """Of an emulated service; small ones make small tests."""

    requests: int
    bytes: int


@dataclass
class Row:
    """One request of a batch."""

    custom_id: str
    body: Any


@dataclass
class Batch:
    """A batch with its times on the emulator's clock.

    Attributes:
        wrong: Rows whose bodies the online endpoint would refuse, with the reason.
        errors: Why it failed; such a batch runs no row.
        billed: Rows that were paid for, once it has ended.
    """

    id: str
    account: str
    rows: list[Row]
    created: float
    work_s: float
    info: dict[str, Any] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    cancelled: float | None = None
    billed: set[int] | None = None
    deleted: bool = False

    @property
    def _worked(self) -> float:
        return self.created + PREPARING_S + self.work_s

    @property
    def expires(self) -> float:
        return self.created + DAY_S

    @property
    def ends(self) -> float:
        """When the last row is done, or no more will be."""
        stops = [self._worked, self.expires] + ([] if self.cancelled is None else [self.cancelled])
        return min(stops) + FINISHING_S

    @property
    def end(self) -> Literal["completed", "expired", "cancelled"]:
        if self.cancelled is not None and self.cancelled < min(self._worked, self.expires):
            return "cancelled"
        return "expired" if self.expires < self._worked else "completed"

    def done(self, now: float) -> int:
        """Rows that have been run; one after the other, in equal times."""
        until = min(now, self.ends - FINISHING_S) - self.created - PREPARING_S
        share = until / self.work_s if self.work_s else float(until >= 0)
        return max(0, min(len(self.rows), int(share * len(self.rows))))


class Ledger:
    """What an account was charged for, a line each, on the disk before any answer."""

    def __init__(self, path: Path | None) -> None:
        self.entries: list[dict[str, Any]] = []
        self._path = path

    def write(self, *entries: dict[str, Any]) -> None:
        self.entries += entries
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(entry)}\n" for entry in entries)

    def of(self, event: str) -> list[dict[str, Any]]:
        """The entries of an event: `accepted`, `billed`, `uploaded`, `deleted`."""
        return [entry for entry in self.entries if entry["event"] == event]


class Refused(Exception):
    """An answer that is an error, in the words of the provider."""

    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body
        super().__init__(status)


Handler = Callable[[web.Request], Any]


class Emulator(ABC):
    """The base of all emulators: an aiohttp application with the routes of a provider.

    Attributes:
        now: The clock; `step` seconds pass with every look at a batch.
        work_s: How long the rows of a batch take.
        faults: What goes wrong.
        ledger: What was accepted and billed.
        batches: All of them, the oldest first.
        paths: Methods and paths of all requests.
        online: Bodies of the requests that were asked online.
    """

    def __init__(self, ledger: Path | None = None, *, step: float = 0.0, work_s: float = 600.0) -> None:
        self.now = BEGIN
        self.step = step
        self.work_s = work_s
        self.faults = Faults()
        self.ledger = Ledger(ledger)
        self.batches: list[Batch] = []
        self.paths: list[str] = []
        self.online: list[Any] = []
        self.port = 0
        self._ids = 0

    limits: Limits

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @abstractmethod
    def routes(self) -> list[web.RouteDef]:
        """The provider's routes."""

    @abstractmethod
    def error(self, status: int, message: str) -> Any:
        """An error's body, in the provider's form."""

    @abstractmethod
    def key(self, request: web.Request) -> str:
        """The key that came with a request."""

    def application(self) -> web.Application:
        """With the provider's routes, and those that steer the emulator."""
        app = web.Application(middlewares=[self._guard()], client_max_size=2**31)
        app.add_routes(self.routes())
        app.add_routes(
            [
                web.post("/emulator/advance", self._advance),
                web.post("/emulator/faults", self._change_faults),
                web.get("/emulator/state", self._state),
            ]
        )
        return app

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[None]:
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    def refuse(self, status: int, message: str) -> Refused:
        return Refused(status, self.error(status, message))

    def account(self, request: web.Request) -> str:
        """Whose request it is: every key is an account, but for the wrong one.

        Raises:
            Refused: The key is wrong or missing.
        """
        key = self.key(request)
        if key in ("", WRONG_KEY):
            raise self.refuse(401, "Incorrect API key provided")
        return key

    def planned(self, statuses: list[int], words: str = "planned") -> None:
        """Answer with the next planned status, if there is one.

        Raises:
            Refused: It says so.
        """
        if statuses:
            status = statuses.pop(0)
            raise Refused(status, None if status == HANG_UP else self.error(status, words))

    def shown_time(self, moment: float) -> float:
        return moment + self.faults.skew

    def new_id(self, prefix: str) -> str:
        """Unlike any other, and the same in every run of a test."""
        self._ids += 1
        return f"{prefix}{self._ids:04d}{digest([prefix, self._ids])[:20]}"

    def create(self, account: str, batch_id: str, rows: list[Row], info: dict[str, Any]) -> Batch:
        """Take a batch: from now on it is to be paid for."""
        batch = Batch(batch_id, account, rows, self.now, self.work_s, info)
        self.batches.append(batch)
        return batch

    def accept(self, batch: Batch) -> None:
        self.ledger.write(
            *(
                {"event": "accepted", "batch": batch.id, "row": row.custom_id, "body": digest(row.body)}
                for row in batch.rows
            )
        )

    def find(self, request: web.Request, batch_id: str, message: str = "No such batch") -> Batch:
        """A batch of the account that asks.

        Raises:
            Refused: It has none such.
        """
        account = self.account(request)
        for batch in self.batches:
            if batch.id == batch_id and batch.account == account and not batch.deleted:
                if self.faults.lost:
                    break
                return batch
        raise self.refuse(404, f"{message}: {batch_id}")

    def of_account(self, request: web.Request) -> list[Batch]:
        account = self.account(request)
        mine = [one for one in self.batches if one.account == account and not one.deleted]
        return [] if self.faults.lost else mine[::-1]

    def page(self, batches: list[Batch], size: int, after: str | None) -> tuple[list[Batch], bool]:
        """A page of them, and whether there is another."""
        size = self.faults.page or size
        ids = [one.id for one in batches]
        begin = ids.index(after) + 1 if after in ids and not self.faults.same_page else 0
        return batches[begin : begin + size], begin + size < len(batches)

    def looked(self) -> None:
        self.now += self.step

    def settle(self, batch: Batch) -> None:
        if batch.billed is not None or self.now < batch.ends:
            return
        done = range(batch.done(self.now)) if not batch.errors else range(0)
        batch.billed = {index for index in done if self.is_billed(batch, index)}
        self.ledger.write(
            *(
                {
                    "event": "billed",
                    "batch": batch.id,
                    "row": batch.rows[index].custom_id,
                    "body": digest(batch.rows[index].body),
                }
                for index in sorted(batch.billed)
            )
        )

    def is_billed(self, batch: Batch, index: int) -> bool:
        """Whether a row that was run is paid for: replies are, failures are not."""
        return index not in batch.wrong and self.faults.of_row(index) in (None, "refused", "blocked")

    def billed_online(self, body: Any) -> None:
        self.online.append(body)
        self.ledger.write({"event": "billed", "batch": None, "row": None, "body": digest(body)})

    def result_indices(self, batch: Batch) -> list[int]:
        """Of the rows with a result, in the order in which they come, doubled ones twice."""
        faults = self.faults
        indices = [index for index in range(len(batch.rows)) if index not in faults.missing]
        indices += [index for index in indices if index in faults.doubled]
        return indices[::-1] if faults.shuffled else indices

    async def stream(self, request: web.Request, lines: Any, content_type: str) -> web.StreamResponse:
        self.planned(self.faults.results)
        if self.faults.redirect:
            raise web.HTTPFound(self.faults.redirect)
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        for line in lines:
            await response.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        for _ in range(self.faults.garbage):
            await response.write(b"<html>no JSON\n")
        if self.faults.cut:
            await response.write(b'{"custom_id": "cut o')
            assert request.transport is not None
            request.transport.abort()
            return response
        await response.write_eof()
        return response

    def _guard(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not request.path.startswith("/emulator/"):
                self.paths.append(f"{request.method} {request.path}")
            try:
                answer: web.StreamResponse = await handler(request)
            except Refused as refused:
                if refused.status == HANG_UP:
                    assert request.transport is not None
                    request.transport.abort()
                    return web.Response()
                headers = {"retry-after": "7"} if refused.status == 429 else {}
                return web.json_response(refused.body, status=refused.status, headers=headers)
            return answer

        return guard

    async def _advance(self, request: web.Request) -> web.Response:
        self.now += float((await request.json())["seconds"])
        return web.json_response({"now": self.now})

    async def _change_faults(self, request: web.Request) -> web.Response:
        self.faults.change(await request.json())
        return web.json_response(asdict(self.faults))

    async def _state(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "now": self.now,
                "batches": [
                    {"id": one.id, "rows": len(one.rows), "done": one.done(self.now), "ends": one.ends}
                    for one in self.batches
                ],
                "billed": len(self.ledger.of("billed")),
                "accepted": len(self.ledger.of("accepted")),
                "online": len(self.online),
            }
        )


def html_page() -> web.Response:
    return web.Response(text="<html><body>Please log in</body></html>", content_type="text/html")
