"""The vLLM servers that a run starts for models named without an address, and ends with itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable

from serving.protocol.model_name import ModelName
from serving.vllm_server.find import find_vllm, inspect_vllm
from serving.vllm_server.recipes import load_serve_recipe
from serving.vllm_server.server import VllmServer, free_port, start_server_async
from serving.vllm_server.spec import ServeSpec, plan_server

RECIPE_VARIABLE = "EVIGRAPH_VLLM_RECIPE"
"""Serve recipe of the servers that runs start; without it the packaged one for one GPU or the CPU."""


class Servers:
    """One server for each distinct model; a context manager that ends them all."""

    def __init__(self, report: Callable[[str], None], stop: asyncio.Event | None = None) -> None:
        """`report` gets the progress of starts, and a server that dies; `stop` ends the wait for a start."""
        self._report = report
        self._stop = stop
        self._servers: list[VllmServer] = []
        self._addresses: dict[ModelName, str] = {}
        self._watches: list[asyncio.Task[None]] = []

    async def addresses(self, models: Iterable[ModelName]) -> dict[ModelName, str]:
        """The address of each model that needs a server; those not yet started are started one by one.

        Raises:
            ModelError: vLLM is not installed, a model cannot be found, or a server ended at its start.
            asyncio.CancelledError: The run was stopped meanwhile.
        """
        wanted = [name for name in dict.fromkeys(models) if name.needs_server]
        specs = {name: _plan(name) for name in wanted if name not in self._addresses}
        for name, spec in specs.items():
            self._addresses[name] = await self._start(spec)
        return {name: self._addresses[name] for name in wanted}

    def close(self) -> None:
        """End all servers. It blocks for some seconds, so that no second signal can leave one behind."""
        for watch in self._watches:
            watch.cancel()
        for server in self._servers:
            server.stop()

    async def _start(self, spec: ServeSpec) -> str:
        for note in spec.notes:
            self._report(note)
        server = await start_server_async(spec, stop=self._stop)
        self._servers.append(server)
        self._report(f"vLLM serves {spec.name} after {server.seconds:.0f} s (log: {server.log})")
        self._watches.append(asyncio.create_task(self._watch(server)))
        return server.base_url

    async def _watch(self, server: VllmServer) -> None:
        self._report(await asyncio.to_thread(server.wait))

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _plan(name: ModelName) -> ServeSpec:
    named = os.environ.get(RECIPE_VARIABLE)
    recipe = load_serve_recipe(named) if named else None
    return plan_server(inspect_vllm(find_vllm()), name.name, free_port(), name=name.name, recipe=recipe)
