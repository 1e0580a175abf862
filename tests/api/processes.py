"""`evigraph api` as a process, as an operator starts it."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import httpx

from tests.api.services import LAST, Place, until
from tests.evigraph import Started


class Process:
    """A service that was started by its command; its folder of runs is the place's."""

    def __init__(self, place: Place, *more: str | Path) -> None:
        """Start it, and wait until it serves."""
        self._said = place.folder / f"said-{time.monotonic_ns()}"
        words = (
            "api",
            place.root,
            "--model",
            f"counting={place.model}",
            "--recipe",
            place.recipe,
            "--port",
            "0",
        )
        self._said.touch()
        self.process = Started(
            *words,
            *more,
            folder=place.folder,
            environment={"EVIGRAPH_USER": "Olga"},
            out=self._said,
            err=self._said,
        )
        found = until(self.said, lambda said: "token: " in said or self.process.poll() is not None)
        named = dict(line.split(": ", 1) for line in found.splitlines() if ": " in line)
        assert "token" in named, found
        self.page = named["page"]
        self.address = named["API"].partition("/v1")[0]
        self.http = httpx.Client(
            base_url=self.address, headers={"Authorization": f"Bearer {named['token']}"}, timeout=LAST
        )

    def said(self) -> str:
        return self._said.read_text()

    def submit(self, given: dict[str, Any]) -> str:
        id_ = self.http.post("/v1/runs", json=given).raise_for_status().json()["id"]
        assert isinstance(id_, str)
        return id_

    def until(self, id_: str, *statuses: str) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            found = self.http.get(f"/v1/runs/{id_}").json()
            assert isinstance(found, dict)
            return found

        return until(look, lambda found: found["status"] in statuses)

    def end(self, number: int) -> int:
        """Send a signal; the exit code."""
        self.http.close()
        self.process.send_signal(number)
        return self.process.wait(LAST)

    def close(self) -> None:
        """Be sure that nothing is left."""
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(LAST)
