"""vLLM's engine: started once, in a process of its own, and ended with everything that it started.

Its requests and outputs are turned into ours here; importing this file needs no vLLM.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import signal
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from serving.backends.backend import CallParameters
from serving.backends.openai_protocol import TOP_CHOICES, TOP_LOGPROBS
from serving.backends.reply_schemas import fixed_layout_grammar
from serving.errors import CallError, classify
from serving.messages import Answer, TokenLogprob
from serving.vllm_guard import guard_children

_LOOK_EVERY_S = 0.2
_LAST_WAIT_S = 10.0
_COMPLETE = frozenset({"stop", "length", "repetition"})

_ONE_START = threading.Lock()
"""Engines that start together would each count the other's memory as taken."""


class Likely(Protocol):
    """A token at a place of the reply; `rank` begins with 1 for the likeliest."""

    logprob: float
    rank: int | None
    decoded_token: str | None


class Completion(Protocol):
    """One sample."""

    index: int
    text: str
    token_ids: Sequence[int]
    logprobs: Sequence[Mapping[int, Likely]] | None
    finish_reason: str | None


class Output(Protocol):
    """All samples of a request."""

    outputs: Sequence[Completion]
    prompt_token_ids: Sequence[int] | None
    num_cached_tokens: int | None


@dataclass(slots=True)
class Engine:
    """An engine that starts at its first request. Use it from one event loop.

    Attributes:
        name: The model's name, for messages.
        arguments: vLLM's `AsyncEngineArgs`.
        model_defaults: Sampling parameters that the model's makers recommend.
    """

    name: str
    arguments: Any
    model_defaults: dict[str, Any]
    _starting: asyncio.Future[Any] | None = None
    _closed: bool = False
    _others: frozenset[int | None] | None = None
    _processes: list[BaseProcess] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def start(self) -> None:
        """Load the weights, unless that is done; a cancelled caller ends the engine.

        Raises:
            CallError: It does not start.
        """
        try:
            await self._started()
        except asyncio.CancelledError:
            await self.close()
            raise

    async def generate(self, prompt: Sequence[int], call: CallParameters) -> Output:
        """One request; cancelling aborts it and no other.

        Args:
            prompt: Token ids of the conversation.
            call: What is asked for.

        Raises:
            CallError: The engine does not start, has died, or refuses the request.
        """
        engine = await self._started()
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        constraint = constraint_fields(call)
        last: Output | None = None
        try:
            sampling = SamplingParams(
                **sampling_fields(call, self.model_defaults),
                output_kind=RequestOutputKind.FINAL_ONLY,
                structured_outputs=StructuredOutputsParams(**constraint) if constraint else None,
            )
            stream = engine.generate(
                TokensPrompt(prompt_token_ids=list(prompt)), sampling, f"evigraph-{next(self._numbers)}"
            )
            async with aclosing(stream) as outputs:
                async for output in outputs:
                    last = output
        except EngineDeadError as error:
            raise self._dead() from error
        except EngineGenerateError as error:
            raise classify(error.__cause__ or error) from error
        if last is None:
            raise CallError("connection", f"{self.name}: vLLM's engine ended a request without an answer")
        return last

    async def close(self) -> None:
        """End its processes; one that is still loading is not waited for."""
        self._closed = True
        starting, self._starting = self._starting, None
        if starting is None:
            return
        while not starting.done():
            self._kill()
            await asyncio.wait({starting}, timeout=_LOOK_EVERY_S)
        if not starting.cancelled() and starting.exception() is None:
            await asyncio.to_thread(self._end, starting.result())

    async def _started(self) -> Any:
        if self._closed:
            raise CallError("connection", f"{self.name}: vLLM's engine is closed", retryable=False)
        if self._starting is None:
            self._starting = _in_thread(self._make)
        # All requests wait for one start; a cancelled one leaves it to the others.
        return await asyncio.shield(self._starting)

    def _make(self) -> Any:
        from vllm.v1.engine.async_llm import AsyncLLM

        guard_children()
        # The tracker unblocks the signal when it starts, so it has to run before.
        resource_tracker.ensure_running()
        # Ctrl-C reaches all processes of a terminal. The engine's processes inherit this thread's mask, so
        # that a run that stops ends them instead of finding its requests aborted.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with _ONE_START:
                self._others = frozenset(child.pid for child in _engine_processes())
                if self._closed:
                    raise RuntimeError("it was closed before")
                engine = AsyncLLM.from_engine_args(self.arguments)
                self._processes = self._newest_processes()
                return engine
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise CallError(
                "connection",
                f"{self.name}: vLLM's engine does not start: {reason} (VLLM_LOGGING_LEVEL=INFO shows more)",
                retryable=False,
            ) from error

    def _newest_processes(self) -> list[BaseProcess]:
        """This engine's, as long as no other one starts."""
        if self._others is None:
            return []
        return [child for child in _engine_processes() if child.pid not in self._others]

    def _kill(self) -> None:
        from vllm.utils.system_utils import kill_process_tree

        for process in self._newest_processes():
            if process.pid is not None:
                kill_process_tree(process.pid)

    def _end(self, engine: Any) -> None:
        engine.shutdown(timeout=_LAST_WAIT_S)
        # vLLM kills what does not end within seconds, and does not wait for that.
        for process in self._processes:
            process.join(_LAST_WAIT_S)

    def _dead(self) -> CallError:
        return CallError(
            "connection",
            f"{self.name}: vLLM's engine has died, its last words are above; `evigraph retry` starts another",
            retryable=False,
        )


def _engine_processes() -> list[BaseProcess]:
    return [child for child in multiprocessing.active_children() if child.name.startswith("EngineCore")]


def _in_thread(work: Callable[[], Any]) -> asyncio.Future[Any]:
    """Run in a thread that no exit of the program waits for, unlike those of `asyncio.to_thread`."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def run() -> None:
        value, failure = None, None
        try:
            value = work()
        except BaseException as error:
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, name="vllm-start", daemon=True).start()
    return future


def sampling_fields(call: CallParameters, model_defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of vLLM's `SamplingParams`, but for those that are vLLM's own types.

    Args:
        call: What is asked for.
        model_defaults: What the model's makers recommend (`top_p` and the like); vLLM's server uses it too.
    """
    fields = {
        **model_defaults,
        "n": len(call.samples),
        "temperature": call.temperature,
        "max_tokens": call.max_tokens,
    }
    if call.seed is not None:
        fields["seed"] = call.seed
    if call.logprobs:
        fields["logprobs"] = TOP_CHOICES if call.choices else TOP_LOGPROBS
    return fields


def constraint_fields(call: CallParameters) -> dict[str, Any]:
    """The argument of vLLM's `StructuredOutputsParams` that constrains a reply, empty for none."""
    if call.schema is None or call.constraint in ("none", "tool"):
        return {}
    if call.constraint == "json_object":
        return {"json_object": True}
    grammar = fixed_layout_grammar(call.schema) if call.constraint == "grammar" else None
    return {"json": call.schema} if grammar is None else {"grammar": grammar}


def answers(output: Output, unwritten: Collection[int]) -> list[Answer]:
    """The samples of a request, in order.

    Args:
        output: The request's last and only output.
        unwritten: Ids of tokens that stand for no text, such as the one that ends a reply.

    Raises:
        CallError: The engine aborted a sample; it may be asked for again.
    """
    samples = sorted(output.outputs, key=lambda sample: sample.index)
    broken = next((sample.finish_reason for sample in samples if sample.finish_reason not in _COMPLETE), "")
    if broken != "":
        raise CallError("connection", f"vLLM's engine broke the request off ({broken or 'no reason given'})")
    return [
        Answer(
            text=sample.text,
            finish_reason=str(sample.finish_reason),
            # The prompt is read once for all samples, so it is counted once.
            input_tokens=len(output.prompt_token_ids or ()) if position == 0 else 0,
            output_tokens=len(sample.token_ids),
            cached_tokens=(output.num_cached_tokens or 0) if position == 0 else 0,
            logprobs=_logprobs(sample, unwritten),
        )
        for position, sample in enumerate(samples)
    ]


def _logprobs(sample: Completion, unwritten: Collection[int]) -> tuple[TokenLogprob, ...]:
    return tuple(
        TokenLogprob(place[token].decoded_token or "", place[token].logprob, _top(place))
        for token, place in zip(sample.token_ids, sample.logprobs or (), strict=False)
        if token not in unwritten
    )


def _top(place: Mapping[int, Likely]) -> tuple[tuple[str, float], ...]:
    """The likeliest tokens; the one that was written stands among them only if it is one."""
    asked = TOP_CHOICES if len(place) >= TOP_CHOICES else TOP_LOGPROBS
    likely = [token for token in place.values() if token.rank is not None and token.rank <= asked]
    likely.sort(key=lambda token: token.rank or 0)
    return tuple((token.decoded_token or "", token.logprob) for token in likely)
