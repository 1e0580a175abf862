"""A compiled graph with its model, prompts and resources: a LangChain runnable from cases to results."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from langchain_core.runnables import Runnable, RunnableConfig

from evigraph.background import Background
from evigraph.given_cases import CaseLike, as_case
from evigraph.request import Models, apply_policy, make_request
from graph.recipe import FLAGSHIP
from runs.execute.assemble import Assembly, Request, assemble, close_backends
from runs.execute.case_run import Graph as CompiledGraph
from runs.execute.case_run import case_config, forget_case
from runs.execute.servers import Servers
from runs.record.folder import CALLS
from runs.record.manifest import FAILED, Model
from serving.journal.journal import Journal
from serving.protocol.errors import ErrorClass
from serving.protocol.limits import Limits
from serving.protocol.model_name import Role
from serving.requests.client import ModelClient
from storage.private import private_folder

logger = logging.getLogger("evigraph")

_END = object()


@dataclass(frozen=True, slots=True)
class Result:
    """How a case ended.

    Attributes:
        line: Its line of `cases.jsonl`; `result["verdict"]` reads a field of it.
        trace: Its node executions in the order of their start, as a run's trace has them.
    """

    line: dict[str, Any]
    trace: list[dict[str, Any]]

    def __getitem__(self, name: str) -> Any:
        return self.line[name]

    @property
    def case_id(self) -> str:
        return str(self.line["case_id"])

    @property
    def status(self) -> str:
        """`done`, or `waiting` for a person; batches also have `failed` cases."""
        return str(self.line["status"])

    @property
    def answer(self) -> str | None:
        """The answer, if the graph wrote one."""
        return self.line.get("answer")

    @property
    def answer_status(self) -> str | None:
        """`answered`, `not_stated`, or `unsupported`; None if the recipe does not verify answers."""
        return self.line.get("answer_status")

    @property
    def answer_support(self) -> list[dict[str, Any]]:
        """Each sentence of a verified answer: `text`, `support`, `sentence_ids`, `probability`, `faults`."""
        return list(self.line.get("answer_support") or ())

    @property
    def labels(self) -> dict[str, str]:
        """`essential` or `not-essential` by sentence id; empty for graphs that label no sentences."""
        return dict(self.line["labels"])

    @property
    def essential(self) -> list[str]:
        """Ids of the essential sentences in note order."""
        return [id_ for id_, label in self.line["labels"].items() if label == "essential"]

    @property
    def flags(self) -> list[str]:
        return list(self.line["flags"])

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """Decisions of each node: `node`, `because`, `facts`, `flags`, `calls` and more."""
        return [one for one in self.trace if one["node"] != "__end__"]


class CaseFailed(Exception):
    """A case that could not be finished.

    Attributes:
        error_class: Such as `timeout`, `invalid_output` or `context_length`.
        result: The node executions up to the failure.
    """

    def __init__(self, result: Result) -> None:
        error = result.line["error"]
        self.error_class: ErrorClass = error["class"]
        self.result = result
        super().__init__(f"case {result.case_id}: {error['class']}: {error['message']}")


class Graph(Runnable[Any, Result]):
    """An open graph. Close it, or use it as a context manager.

    All of its work is done in one thread, so it may be used from any thread, any event loop and a notebook.
    """

    def __init__(
        self,
        request: Request,
        *,
        folder: str | Path | None = None,
        limits: Limits | None = None,
        probe: bool = True,
    ) -> None:
        """Make everything ready; `open` takes the same as plain values."""
        self._closing = contextlib.ExitStack()
        with contextlib.ExitStack() as closing:
            if folder is None:
                folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="evigraph-"))
            self._background = Background()
            closing.callback(self._background.close)
            stop = asyncio.Event()
            servers = closing.enter_context(Servers(logger.info, stop))
            path = Path(folder)
            if not path.is_dir():
                private_folder(path)
            opened = self._background.run(_open(request, servers, path, limits or Limits(), probe))
            self._assembly, self._client, self._journal = opened
            closing.callback(lambda: self._background.run(self._close()))
            self._closing = closing.pop_all()

    @property
    def compiled(self) -> CompiledGraph:
        """LangGraph's compiled graph, to draw or to inspect."""
        return self._assembly.graph

    @property
    def models(self) -> Mapping[Role, Model]:
        """The model of each role with its findings."""
        return self._assembly.manifest.models

    def invoke(self, input: CaseLike, config: RunnableConfig | None = None, **kwargs: Any) -> Result:
        """Run a case to its end.

        Raises:
            InputError: The case has a missing, unknown or wrong field.
            CaseFailed: A node failed.
        """
        return _checked(self._background.run(self._run(input)))

    async def ainvoke(self, input: CaseLike, config: RunnableConfig | None = None, **kwargs: Any) -> Result:
        """As `invoke`, in a coroutine."""
        return _checked(await asyncio.wrap_future(self._background.start(self._run(input))))

    def stream(self, input: CaseLike, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """As `astream`, in a plain loop."""
        items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        pumped = self._background.start(self._pump(input, items.put, **kwargs))
        pumped.add_done_callback(lambda _: items.put(_END))
        try:
            while (item := items.get()) is not _END:
                yield item
            pumped.result()
        finally:
            pumped.cancel()

    async def astream(
        self, input: CaseLike, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Any, None]:
        """LangGraph's events of a case: by default `{node: update}` as each node ends.

        Args:
            input: The case.
            config: Not used.
            kwargs: Of LangGraph's `astream`, such as `stream_mode="tasks"`.

        Raises:
            InputError: The case has a missing, unknown or wrong field.
            NodeFailure: A node failed.
        """
        loop, items = asyncio.get_running_loop(), asyncio.Queue[Any]()

        def put(item: Any) -> None:
            loop.call_soon_threadsafe(items.put_nowait, item)

        pumped = self._background.start(self._pump(input, put, **kwargs))
        pumped.add_done_callback(lambda _: put(_END))
        try:
            while (item := await items.get()) is not _END:
                yield item
            pumped.result()
        finally:
            pumped.cancel()

    def close(self) -> None:
        """Close connections, servers that were started, and the journal."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _run(self, given: CaseLike) -> Result:
        case = as_case(given)
        try:
            ended = await self._assembly.run(case, self._client)
        finally:
            self._client.forget(case.id)
        return Result(ended.line, ended.trace)

    async def _pump(self, given: CaseLike, put: Callable[[Any], None], **options: Any) -> None:
        """Pass on events of a case as they come."""
        case, graph = as_case(given), self._assembly.graph
        context = self._assembly.context(case, self._client)
        options.setdefault("stream_mode", "updates")
        try:
            async for event in graph.astream(
                {"case_id": case.id}, case_config(case.id), context=context, **options
            ):
                put(event)
        finally:
            await forget_case(graph, case.id)
            self._client.forget(case.id)

    async def _close(self) -> None:
        await self._client.aclose()
        self._journal.close()


def open(
    recipe: str = FLAGSHIP,
    model: Models = None,
    *,
    settings: Mapping[str, Any] | None = None,
    places: Mapping[str, str | Path] | None = None,
    folder: str | Path | None = None,
    policy: str | Path | None = None,
    allow_hosted: bool = False,
    limits: Limits | None = None,
    probe: bool = True,
) -> Graph:
    """Open a graph.

    Args:
        recipe: Name of a packaged recipe or a recipe file, as `--recipe` takes them.
        model: A model string or a LangChain chat model, or a dict of them by role; None for the recipe's.
        settings: Values of the recipe to change, by dotted field, such as `{"evidence.votes": 3}`.
        places: Files, folders and URLs by the name of their option, such as `{"demos": "pool"}`.
        folder: Keeps the journal of calls, so that no call is made twice; None drops it with the graph.
        policy: A data policy, as `--policy` takes it.
        allow_hosted: Whether texts of cases without a policy may go to public hosts.
        limits: Request limits for servers.
        probe: Whether servers are probed at the start.

    Raises:
        RecipeError, ModelError, PolicyError, InputError: Something is missing, wrong or forbidden.
    """
    apply_policy(policy, allow_hosted=allow_hosted)
    return Graph(make_request(recipe, model, settings, places), folder=folder, limits=limits, probe=probe)


async def _open(
    request: Request, servers: Servers, folder: Path, limits: Limits, probe: bool
) -> tuple[Assembly, ModelClient, Journal]:
    assembly = await assemble(request, logger.info, servers, limits, probing=probe)
    try:
        journal = Journal(folder / CALLS)
    except BaseException:
        await close_backends(assembly.backends.values())
        raise
    return assembly, ModelClient(assembly.backends, journal, limits), journal


def _checked(result: Result) -> Result:
    if result.status == FAILED:
        raise CaseFailed(result)
    return result
