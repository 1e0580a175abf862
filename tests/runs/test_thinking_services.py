"""Packaged recipes on emulated services whose models think before they write: no case is lost."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from serving.backends.backend import Backend, Server, exchange
from serving.batches.pool import Pool
from serving.protocol.budget import Price
from serving.protocol.messages import Answer
from serving.protocol.request import AnyRequest
from tests.goldens.outputs import WORDS, recipe_runs, write_inputs
from tests.goldens.recorder import evigraph
from tests.serving.batches.emulator import emulator
from tests.serving.batches.emulators.bookkeeping import Emulator
from tests.serving.batches.emulators.replies import note
from tests.serving.batches.emulators.thinking import RUMINATION

pytestmark = pytest.mark.slow

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "DEEPSEEK_API_KEY", "VLLM_API_KEY")


@dataclass(frozen=True)
class Service:
    """An emulated service and the model that is asked there.

    Attributes:
        emulator: Its name among the emulators.
        model: With `{url}` where an address belongs.
        settings: Attributes of the emulator.
        effort: Asked of the model, empty for the service's own.
        weighs: Whether it gives log-probabilities of a reply's first token, so that `pointwise` works.
    """

    emulator: str
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    effort: str = ""
    weighs: bool = False


SERVICES = {
    "gpt-5-mini": Service("openai", "openai:gpt-5-mini"),
    "gpt-5.1": Service("openai", "openai:gpt-5.1"),
    "gpt-5-mini-by-address": Service("openai", "openai:gpt-5-mini@{url}/v1"),
    "claude-opus-4-5": Service("anthropic", "anthropic:claude-opus-4-5"),
    "claude-sonnet-5": Service("anthropic", "anthropic:claude-sonnet-5"),
    "claude-opus-5-5": Service("anthropic", "anthropic:claude-opus-5-5"),
    "gemini-2.5-pro": Service("google_genai", "google_genai:gemini-2.5-pro"),
    "gemini-3.5-flash": Service("google_genai", "google_genai:gemini-3.5-flash"),
    "deepseek": Service("deepseek", "deepseek:deepseek-v4-pro"),
    "vllm": Service("vllm", "vllm:thinker@{url}/v1"),
    "vllm-without-parser": Service("vllm", "vllm:thinker@{url}/v1", {"parser": False}),
    "vllm-that-only-closes": Service("vllm", "vllm:thinker@{url}/v1", {"parser": False, "opens": False}),
}
BATCH = {"step": 3600.0}
"""A batch has ended by the first look at it."""
SERVICES |= {
    "gpt-5.1-at-high": Service("openai", "openai:gpt-5.1", effort="high"),
    "claude-opus-4-5-at-low": Service("anthropic", "anthropic:claude-opus-4-5", effort="low"),
    "gemini-3.5-flash-at-high": Service("google_genai", "google_genai:gemini-3.5-flash", effort="high"),
    "deepseek-at-max": Service("deepseek", "deepseek:deepseek-v4-pro", effort="max"),
    "gpt-5-mini-in-batches": Service("openai", "batch:openai:gpt-5-mini", BATCH),
    "gpt-5.1-in-batches": Service("openai", "batch:openai:gpt-5.1", BATCH, effort="high"),
    "claude-opus-5-5-in-batches": Service("anthropic", "batch:anthropic:claude-opus-5-5", BATCH),
    "gemini-2.5-pro-in-batches": Service("google_genai", "batch:google_genai:gemini-2.5-pro", BATCH),
}
POINTWISE = ("tamu-pointwise", "laptop")
RUNS = tuple(recipe_runs())
IN_EVERY_TEST_RUN = {
    ("gpt-5-mini", "archehr-2026"),
    ("gpt-5-mini", "tamu-pointwise"),
    ("gpt-5-mini-by-address", "direct"),
    ("claude-sonnet-5", "tamu"),
    ("claude-opus-5-5", "bioasq"),
    ("gemini-2.5-pro", "archehr-2026"),
    ("gemini-3.5-flash", "heids"),
    ("deepseek", "archehr-2026"),
    ("deepseek", "laptop"),
    ("vllm", "archehr-2026"),
    ("vllm-without-parser", "timeaware"),
    ("vllm-that-only-closes", "archehr-2026"),
    ("gpt-5.1-at-high", "direct"),
    ("claude-opus-4-5-at-low", "archehr-2026"),
    ("gemini-3.5-flash-at-high", "direct"),
    ("deepseek-at-max", "heids"),
    ("gpt-5-mini-in-batches", "archehr-2026"),
    ("gpt-5.1-in-batches", "archehr-2026"),
    ("claude-opus-5-5-in-batches", "tamu"),
    ("gemini-2.5-pro-in-batches", "direct"),
}


def marks(service: str, run: str) -> list[pytest.MarkDecorator]:
    """Of one recipe on one service."""
    return [] if (service, run) in IN_EVERY_TEST_RUN else [pytest.mark.matrix]


CELLS = [pytest.param(service, run, marks=marks(service, run)) for service in SERVICES for run in RUNS]


@contextmanager
def serving(one: Emulator) -> Iterator[None]:
    """Listen in another thread."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with one.serving():
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cases, recipes without weights, and what systems search in."""
    folder = tmp_path_factory.mktemp("services")
    write_inputs(folder)
    with pytest.MonkeyPatch.context() as moved:
        moved.chdir(folder)
        for name, documents in (("health", "health/literature"), ("bioasq", "bioasq/documents")):
            corpus = f"{name}-corpus"
            assert evigraph(("corpus", "build", f"samples/{documents}.jsonl", "--out", corpus), 200)[0] == 0
            index = ("index", "build", corpus, "--out", f"{name}-index", "--embedding", WORDS)
            assert evigraph(index, 200)[0] == 0
    return folder


@pytest.fixture
def understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the emulators know what each prompt asks for, which they cannot read: their replies have to fit."""

    async def noted(server: Server, request: AnyRequest, **more: Any) -> list[Answer]:
        note([message.text for message in request.messages], request.schema, request.reply.name)
        return await exchange(server, request, **more)

    ask = Pool.ask

    async def noted_in_a_batch(
        pool: Pool,
        backend: Backend,
        request: AnyRequest,
        shaped: Callable[[], AnyRequest],
        price: Price | None,
    ) -> NoReturn:
        note([message.text for message in request.messages], request.schema, request.reply.name)
        await ask(pool, backend, request, shaped, price)

    monkeypatch.setattr("serving.requests.dispatcher.exchange", noted)
    monkeypatch.setattr(Pool, "ask", noted_in_a_batch)


@pytest.fixture
def reach(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Turn every provider's class to an emulator."""

    @contextmanager
    def reached(service: Service) -> Iterator[str]:
        one = emulator(service.emulator)
        for name, value in service.settings.items():
            setattr(one, name, value)
        with serving(one):
            for name in KEYS:
                monkeypatch.setenv(name, "a-key")
            monkeypatch.setenv("OPENAI_BASE_URL", f"{one.url}/v1")
            monkeypatch.setenv("ANTHROPIC_BASE_URL", one.url)
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", one.url)
            monkeypatch.setenv("DEEPSEEK_API_BASE", f"{one.url}/v1")
            yield service.model.format(url=one.url)

    return reached


@pytest.mark.usefixtures("understood")
@pytest.mark.parametrize(("service", "run"), CELLS)
def test_no_case_is_lost(
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reach: Any,
    service: str,
    run: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(inputs)
    with reach(SERVICES[service]) as model:
        arguments = recipe_runs("--model", model)[run]
        out = tmp_path / "run"
        if SERVICES[service].effort:
            arguments = (*arguments, "--effort", SERVICES[service].effort)
        if model.startswith("batch:"):
            arguments = (*arguments, "--poll", "0.01")
        code, printed, said = evigraph((*arguments, "--allow-hosted", "--json", "--out", str(out)), 200)
    if run in POINTWISE and not SERVICES[service].weighs:
        assert code == 2 and not out.exists()
        *_, line = said.splitlines()
        assert line.startswith(f"evigraph: model {model!r} ")
        assert "thinks first" in line or "does not return log-probabilities" in line
        return
    summary = json.loads(printed) if printed else {}
    with capsys.disabled():
        told = {name: summary.get(name) for name in ("done", "failed", "calls", "widened", "thinking_tokens")}
        print(f"\n{service:24}{run:24}{told}")  # noqa: T201
    # One case of `weak_labels` has nothing to be labelled from.
    lost = 1 if run == "weak_labels" else 0
    assert (code, summary.get("failed")) == (min(lost, 1), lost), said
    # Thinking of the emulated models, which nobody may take for a reply.
    assert f"{RUMINATION} {RUMINATION}" not in (out / "cases.jsonl").read_text()


@pytest.mark.usefixtures("understood")
def test_what_a_batch_was_refused_for_is_left_out_of_the_next(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reach: Any
) -> None:
    monkeypatch.chdir(inputs)
    with reach(SERVICES["gpt-5.1-in-batches"]) as model:
        arguments = (*recipe_runs("--model", model)["archehr-2026"], "--effort", "high", "--poll", "0.01")
        code, printed, said = evigraph(
            (*arguments, "--allow-hosted", "--json", "--out", str(tmp_path / "run")), 200
        )
    assert code == 0
    summary = json.loads(printed)
    # All of the first batch were refused; those that thinking cuts off are asked once more.
    assert "ended: 4 failed" in said
    assert "temperature 0 not sent: this model has a fixed one" in said
    assert summary["calls"] == 6 + summary.get("widened", 0)


ASKED = [name for name, service in SERVICES.items() if not service.model.startswith("batch:")]


@pytest.mark.usefixtures("understood")
@pytest.mark.parametrize("service", ASKED)
def test_ask_answers_with_every_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reach: Any, service: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("note.txt").write_text("INR was 6.1 on arrival. Vitamin K was given. The bleeding stopped.")
    with reach(SERVICES[service]) as model:
        arguments = ("ask", "Why was vitamin K given?", "--note", "note.txt", "--model", model)
        code, printed, said = evigraph((*arguments, "--allow-hosted", "--json"), 200)
    assert code == 0, said
    answer = json.loads(printed)
    assert answer["answer"]
