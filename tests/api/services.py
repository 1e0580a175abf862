"""A service in this process: a folder of runs, a scripted model that counts and may be held up, a client."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.testclient import TestClient

from api.callers import Caller, Rate
from api.jobs import Jobs
from api.offer import Limits, Offer
from api.routes import application
from api.service import Service
from runs.execute.batch import Options
from runs.record.folder import RunFolder
from serving.protocol.limits import Limits as CallLimits
from tests.evigraph import write_recipe
from viewer.listening import configured, listen

NOTE = "The INR was 6.1 on admission. Vitamin K was given. No bleeding was seen."
Found = TypeVar("Found")

QUESTION = {"question": "Why was vitamin K given?", "note": NOTE}
TOKENS = {role: f"token of {role}" for role in ("view", "submit", "review", "admin")}
LAST = 300.0
"""Seconds that a busy machine may take for what takes one."""

HELD: list[int] = []
"""Descriptors that the script has taken, to the last one."""

SCRIPT = """\
import asyncio, json, os
from pathlib import Path
from serving.backends.scripted import made_up_reply
from tests.api.services import HELD

HERE = Path(__file__).parent

async def reply(call):
    with (HERE / "calls.txt").open("a") as file:
        file.write(f"{call.role} {call.case_id} {call.sample}\\n")
    while (HERE / f"hold-{call.role}").exists():
        await asyncio.sleep(0.02)
    # The last call of a case, so that no other one opens a file meanwhile.
    if call.role == "answer" and (HERE / "exhaust").exists():
        (HERE / "exhaust").unlink()
        while True:
            try:
                HELD.append(os.dup(0))
            except OSError:
                break
    if call.role != "label" or not (HERE / "differ").exists():
        return made_up_reply(call)
    first, second, *_ = call.schema_["required"]
    chosen = first if call.sample else second
    return json.dumps({i: "essential" if i == chosen else "not-essential" for i in call.schema_["required"]})
"""
ASKING = """\
system: tamu
evidence: {demonstrations: 0, votes: 3, threshold: 2, reflection: false}
answer: {demonstrations: 0}
review: {disagreement: 0.3}
"""


class KnownTokens:
    """One token a role, whose user has its name; any other name is a reviewer."""

    async def caller(self, token: str, address: str) -> Caller | None:
        name = token.removeprefix("token of ")
        if name == token:
            return None
        return Caller(name, name if name in TOKENS else "review")

    def valid(self, caller: Caller) -> bool:
        return True


class Place:
    """What services of a test share: the folder of the runs, recipes, the script of the model."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "runs"
        self.recipe = write_recipe(folder)
        (folder / "asking.yaml").write_text(ASKING)
        (folder / "script.py").write_text(SCRIPT)

    @property
    def model(self) -> str:
        return f"scripted:{self.folder}/script.py:reply"

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls.txt"
        return path.read_text().splitlines() if path.exists() else []

    @contextmanager
    def held(self, role: str) -> Iterator[None]:
        """Let the model answer no call of a role."""
        path = self.folder / f"hold-{role}"
        path.touch()
        try:
            yield
        finally:
            path.unlink()

    def offer(self, limits: Limits) -> Offer:
        return Offer(
            {"counting": self.model, "auto": "scripted:auto"},
            {"lexical": str(self.recipe), "asking": str(self.folder / "asking.yaml")},
            {"evidence.votes": (), "embedding": ("lexical:256", "lexical:512")},
            limits=limits,
        )

    @contextmanager
    def service(self, limits: Limits | None = None, drain: float = 0.0) -> Iterator[Service]:
        jobs = Jobs(self.root)
        service = Service(
            jobs, self.offer(limits or Limits()), Options("run", limits=CallLimits(max_retries=0)), "Olga"
        )
        service.start()
        try:
            yield service
        finally:
            service.drain(drain)
            jobs.close()

    @contextmanager
    def client(
        self,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        role: str = "admin",
    ) -> Iterator[Client]:
        with self.service(limits) as service:
            app = application(service, KnownTokens(), Rate(service.offer.limits.per_minute, clock))
            with TestClient(app, raise_server_exceptions=False) as http:
                yield Client(service, http, role)


class Client:
    """Calls the API. Answers are of whichever httpx Starlette has found."""

    def __init__(self, service: Service, http: TestClient, role: str) -> None:
        self.service, self.http, self.role = service, http, role

    def call(
        self,
        method: str,
        path: str,
        role: str | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        **given: Any,
    ) -> Any:
        token = {"Authorization": f"Bearer token of {name or role or self.role}"}
        return self.http.request(method, path, headers={**token, **(headers or {})}, **given)

    def submit(self, given: Mapping[str, Any] | None = None, **headers: str) -> Any:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.call("POST", "/v1/runs", json=given or QUESTION, headers=names)

    def submitted(self, given: Mapping[str, Any] | None = None) -> str:
        answer = self.submit(given)
        assert answer.status_code == 202, answer.text
        id_ = answer.json()["id"]
        assert isinstance(id_, str)
        return id_

    def status(self, id_: str) -> dict[str, Any]:
        found = self.call("GET", f"/v1/runs/{id_}").json()
        assert isinstance(found, dict)
        return found

    def until(self, id_: str, *statuses: str) -> dict[str, Any]:
        """Wait until a run has one of these statuses."""
        return until(lambda: self.status(id_), lambda found: found["status"] in statuses)

    def ended(self, id_: str) -> dict[str, Any]:
        """Wait until nothing of a run goes on in this process."""
        job = self.service.jobs.get(id_)
        assert job is not None
        until(lambda: self.service.runner.session(job).state, lambda state: state == "rest")
        return self.status(id_)

    def events(self, id_: str, since: str | None = None) -> list[dict[str, Any]]:
        """All events of a run, to its end."""
        headers = {} if since is None else {"Last-Event-ID": since}
        answer = self.call("GET", f"/v1/runs/{id_}/events", headers=headers)
        assert answer.status_code == 200, answer.text
        return parsed(answer.text)


def parsed(text: str) -> list[dict[str, Any]]:
    """The events of a stream: their fields, with the data read."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if "data" in fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def steps_until(lines: Iterator[str], node: str) -> Iterator[dict[str, object]]:
    """Steps, to the first of a node."""
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: ") and kind == "step":
            found = json.loads(line.removeprefix("data: "))
            yield found
            if found["node"] == node:
                return


def until(look: Callable[[], Found], wanted: Callable[[Found], bool]) -> Found:
    """Look again and again until there is what is wanted.

    Raises:
        TimeoutError: Says what there is instead.
    """
    end = time.monotonic() + LAST
    while not wanted(found := look()):
        if time.monotonic() > end:
            raise TimeoutError(f"still {found}")
        time.sleep(0.02)
    return found


def run_of(place: Place, id_: str) -> RunFolder:
    return RunFolder(place.root / id_)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """An application at a real address."""
    bound = listen("127.0.0.1", 0)
    server = uvicorn.Server(configured(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
