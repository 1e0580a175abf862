"""`import evigraph`, as a Python program uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import BaseModel, Field

import evigraph
from cases.formats.plain_jsonl import case_of
from serving.journal.journal import Journal, JournalError
from tests.evigraph import write_cases, write_recipe
from tests.serving.fake_server import FakeServer, Obey, Say

CASE: dict[str, Any] = {
    "question": "Why was a tube placed?",
    "sentences": ["Large pneumothorax.", "Smoker.", "Tube placed."],
}
SETTINGS = {"embedding": "lexical:256"}


def opened(**more: Any) -> evigraph.Graph:
    given = {"recipe": "demo", "model": "scripted:auto", "settings": SETTINGS} | more
    return evigraph.open(**given)


@pytest.fixture(scope="module")
def graph() -> Any:
    with opened() as graph:
        yield graph


def fill(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: fill(field) for name, field in schema["properties"].items()}
    return [] if schema["type"] == "array" else ""


class FirstChoice(BaseChatModel):
    """Fills in each form with its first choice."""

    answer: str = "The note gives the reason."
    asked: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "first-choice"

    def bind_tools(self, tools: Any, *, tool_choice: str | None = None, **kwargs: Any) -> Any:
        return self.bind(tools=tools, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        tools: Any = (),
        **kwargs: Any,
    ) -> ChatResult:
        functions = [tool["function"] for tool in tools]
        calls = [{"name": one["name"], "args": fill(one["parameters"]), "id": "1"} for one in functions]
        self.asked.append(functions[0]["name"] if functions else "text")
        reply = AIMessage("" if calls else self.answer, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


@dataclass
class Question:
    question: str
    sentences: list[str]


class Plain:
    def __init__(self) -> None:
        self.question, self.note = CASE["question"], "Large pneumothorax. Smoker. Tube placed."


class Posted(BaseModel):
    question: str
    sentences: list[str]
    note: str | None = None


@pytest.mark.parametrize(
    "case",
    [
        CASE,
        Question(str(CASE["question"]), list(CASE["sentences"])),
        Plain(),
        Posted(**CASE),
        case_of({**CASE, "case_id": "c"}),
    ],
    ids=["dict", "dataclass", "object with a note", "model of pydantic", "case"],
)
def test_a_case_runs_from_a_dict_or_an_object(graph: evigraph.Graph, case: Any) -> None:
    result = graph.invoke(case)
    assert result.status == "done" and result.answer
    assert set(result.labels) == {"1", "2", "3"}
    assert result.essential == [id_ for id_, label in result.labels.items() if label == "essential"]
    steps = [one["node"] for one in result.decisions]
    assert {"classify_intent", "label_evidence", "generate_answer"} <= set(steps)
    assert all(one["because"] for one in result.decisions)
    assert result["usage"]["calls"] == sum(len(one["calls"]) for one in result.decisions)


def test_an_equal_case_gets_an_equal_id_and_result(graph: evigraph.Graph) -> None:
    one, other = graph.invoke(CASE), graph.invoke(dict(CASE))
    assert one.case_id == other.case_id and one.line == other.line
    assert graph.invoke({**CASE, "question": "Why?"}).case_id != one.case_id
    assert graph.invoke({**CASE, "case_id": "a1"}).case_id == "a1"


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        ({**CASE, "questoin": "Why?"}, "questoin: unknown field; did you mean 'question'"),
        ({**CASE, "note": "A note."}, "both a note and sentences"),
        ({**CASE, "labels": {"9": "essential"}}, "'9' is not the id of a sentence"),
        (7, "a int is not a case"),
    ],
)
def test_a_wrong_case_is_refused(graph: evigraph.Graph, case: Any, fault: str) -> None:
    with pytest.raises(evigraph.InputError, match=fault):
        graph.invoke(case)


async def test_coroutines_and_streams_tell_the_same(graph: evigraph.Graph) -> None:
    result = await graph.ainvoke(CASE)
    updates = [update async for update in graph.astream(CASE)]
    nodes = sorted(node for update in updates for node in update)
    assert nodes == sorted(one["node"] for one in result.decisions)
    decisions = [values["decisions"][0] for update in updates for values in update.values()]
    assert sorted(one["because"] for one in decisions) == sorted(one["because"] for one in result.decisions)
    modes = {mode async for mode, _ in graph.astream(CASE, stream_mode=["tasks", "values"])}
    assert modes == {"tasks", "values"}
    assert [list(update) for update in graph.stream(CASE)] == [list(update) for update in updates]


async def test_cases_run_side_by_side_from_several_loops(graph: evigraph.Graph) -> None:
    cases = [{**CASE, "case_id": f"k{number}"} for number in range(4)]
    here = await graph.abatch(cases)
    there = await asyncio.to_thread(lambda: asyncio.run(graph.ainvoke(cases[0])))
    assert [one.case_id for one in here] == ["k0", "k1", "k2", "k3"]
    assert there.line == here[0].line


async def test_a_stream_that_is_left_ends_its_case(graph: evigraph.Graph) -> None:
    stream = graph.astream(CASE)
    assert await anext(stream)
    await stream.aclose()
    assert (await graph.ainvoke(CASE)).status == "done"


def test_a_chat_model_goes_through_probe_gate_and_journal(tmp_path: Path) -> None:
    with pytest.raises(evigraph.PolicyError, match="shows no address"):
        opened(model=FirstChoice())
    model = FirstChoice()
    with opened(model=model, allow_hosted=True, folder=tmp_path / "kept") as graph:
        assert graph.models["label"].constraint == "tool"
        assert graph.models["label"].name.startswith("python:FirstChoice()#")
        result = graph.invoke(CASE)
    assert result.answer == "The note gives the reason."
    assert result.essential == ["1", "2", "3"]
    # The plainest request, and those that try a form.
    probed = 1 + model.asked.count("word")
    assert probed >= 1 and len(model.asked) - probed == result["usage"]["calls"]

    again = FirstChoice()
    with opened(model=again, allow_hosted=True, folder=tmp_path / "kept", probe=False) as graph:
        assert graph.invoke(CASE).line == result.line
    assert again.asked == []
    assert Journal(tmp_path / "kept" / "calls.sqlite", read_only=True).tokens()


def test_a_verified_answer_says_what_supports_it() -> None:
    with opened(recipe="direct", settings={"verification": "rules"}) as graph:
        result = graph.invoke(CASE)
        assert "verify_answer" in graph.compiled.get_graph().nodes
    assert (result.answer_status, result.flags) == ("unsupported", result.line["flags"])
    assert {one["support"] for one in result.answer_support} == {"not_stated"}


def test_a_journal_that_cannot_be_written_leaves_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[object] = []

    async def close(backends: Iterable[object]) -> None:
        closed.extend(backends)

    monkeypatch.setattr("evigraph.open_graph.close_backends", close)
    (tmp_path / "calls.sqlite").mkdir()
    with pytest.raises(JournalError):
        opened(folder=tmp_path)
    assert closed


def test_what_is_under_way_ends_with_its_graph() -> None:
    with opened() as graph:
        future = graph._background.start(asyncio.Event().wait())
    assert future.cancelled()


def test_models_are_given_by_role() -> None:
    models = {"label": FirstChoice(), "classify": "scripted:auto", "answer": "scripted:auto"}
    with opened(model=models, allow_hosted=True) as graph:
        names = {role: model.name.partition("#")[0] for role, model in graph.models.items()}
    assert names == {
        "classify": "scripted:auto",
        "label": "python:FirstChoice()",
        "reflect": "python:FirstChoice()",
        "answer": "scripted:auto",
        "verify": "scripted:auto",
    }


def test_a_failed_case_is_raised_with_what_was_done() -> None:
    server = FakeServer(default=Obey())
    server.start()
    try:
        with opened(model=f"vllm:tiny@{server.url}") as graph:
            server.default = Say(("no form at all",))
            with pytest.raises(evigraph.CaseFailed, match="invalid_output") as failed:
                graph.invoke(CASE)
    finally:
        server.stop()
    assert failed.value.error_class == "invalid_output"
    assert "label_evidence" in failed.value.result["degraded"]


def test_nothing_is_left_of_a_graph_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(evigraph.ModelError, match="no model for"):
        evigraph.open("tamu")
    with pytest.raises(evigraph.RecipeError, match=r"evidence\.vote"):
        opened(settings={"evidence.vote": 3})


def test_a_batch_of_objects_is_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    said: list[str] = []
    cases = [{**CASE, "case_id": f"k{number}"} for number in range(3)]
    recipe = str(write_recipe(tmp_path))
    with evigraph.run(
        cases, tmp_path / "run", recipe, FirstChoice(), allow_hosted=True, report=said.append
    ) as run:
        assert (run.manifest.status, run.manifest.counts.done) == ("finished", 3)
        assert {line["case_id"] for line in run.lines()} == {"k0", "k1", "k2"}
        assert run.trace("k0") and run.manifest.hosted == ()
        assert (tmp_path / "run.cases.jsonl").is_file()
    assert any("schema tool" in line for line in said)
    with pytest.raises(evigraph.RunError, match="changed since this run began: model of"):
        evigraph.resume(tmp_path / "run", FirstChoice(answer="Another."), allow_hosted=True)
    with evigraph.resume(tmp_path / "run", FirstChoice(), allow_hosted=True) as resumed:
        assert resumed.manifest.sessions[-1].calls == 0
    with evigraph.open_run(tmp_path / "run") as read:
        assert read.totals().statuses == {"done": 3}


def test_a_batch_of_a_file_keeps_going_only_if_told(tmp_path: Path) -> None:
    file = write_cases(tmp_path / "cases.jsonl", 7)
    (tmp_path / "useless.py").write_text("def reply(call):\n    return 'no form at all'\n")
    recipe, model = str(write_recipe(tmp_path)), f"scripted:{tmp_path / 'useless.py'}:reply"
    with evigraph.run(file, tmp_path / "run", recipe, model, concurrency=1) as run:
        assert (run.manifest.status, run.manifest.counts.failed) == ("interrupted", 5)
    with evigraph.resume(tmp_path / "run", keep_going=True) as run:
        assert (run.manifest.status, run.manifest.counts.failed) == ("finished", 7)


async def test_a_batch_starts_within_an_event_loop(tmp_path: Path) -> None:
    file = write_cases(tmp_path / "cases.jsonl", 1)
    with evigraph.run(file, tmp_path / "run", str(write_recipe(tmp_path)), "scripted:auto") as run:
        assert run.manifest.counts.done == 1
