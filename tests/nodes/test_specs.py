"""What nodes declare is what they do, in every system and with every packaged recipe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

import numpy as np
import pytest

from cases.biomedical import QuestionType
from cases.load import packaged_path
from cases.records import AnswerSentence, Case, Gold
from graph import document_resources, note_resources
from graph.recipe import RECIPES, load_recipe
from graph.resource import ResourceRequest, open_resources
from graph.system import System, find_system, systems
from nodes.answer.question_prompt import ANSWERED_QUESTIONS
from nodes.core.context import VECTORS, Context, Tool
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision
from nodes.reading.read_passages import ENTAILMENT
from nodes.retrieval.document_texts import CORPUS, DOCUMENT_RERANKER, INDEX
from nodes.retrieval.retrieve_sentences import ACRONYMS, RETRIEVER
from prompts import load_prompts
from prompts.versions import own_prompts, packaged_versions
from ranking.encoding.vectors import Embedded
from ranking.rankers.bm25 import Bm25Ranker
from retrieval.corpus.build import build
from retrieval.index.build import BuildOptions, build_index
from retrieval.pools.pool import DemonstrationPool
from runs.execute.case_run import run_case
from serving.backends.scripted import Script, ScriptedCall, made_up_reply
from tests.nodes.biomedical_builders import answered, asking
from tests.nodes.builders import NOTE, Bench, case, failing, gold, labels, script, undeclared
from tests.nodes.literature_builders import ChosenVerdicts, InMemory, document, question
from tests.nodes.search_builders import ChosenScores, Neighbours

SYSTEMS = [pytest.param(find_system(name), id=name) for name in systems()]
NODES = [
    pytest.param(system, node, id=f"{system.name}-{node.name}")
    for system in map(find_system, systems())
    for node in system.nodes
]
HEALTH = Path(__file__).parents[2] / "cases" / "samples" / "health"


@pytest.mark.parametrize(("system", "node"), NODES)
def test_a_node_has_a_file_of_its_name(system: System, node: NodeSpec) -> None:
    assert node.run.__module__.rpartition(".")[2] == node.name


@pytest.mark.parametrize(("system", "node"), NODES)
def test_sections_that_a_node_reads_are_in_the_systems_recipe(system: System, node: NodeSpec) -> None:
    recipe = system.recipe.model_validate({})
    assert [kind.__name__ for kind in node.sections if recipe.find_section(kind) is None] == []


@pytest.mark.parametrize(("system", "node"), NODES)
def test_results_of_a_node_are_keys_of_its_update_and_of_the_state(system: System, node: NodeSpec) -> None:
    update = get_type_hints(get_type_hints(node.run)["return"])
    assert set(node.results) <= set(update)
    assert set(node.results) <= set(get_type_hints(system.state))


@pytest.mark.parametrize(("system", "node"), NODES)
def test_prompts_of_a_node_come_with_the_package(system: System, node: NodeSpec) -> None:
    packaged = resources.files("prompts").joinpath("default")
    for contract in node.prompts:
        assert packaged.joinpath(f"{contract.name}.yaml").is_file()
        assert load_prompts("default", (contract,))[contract.name].version == "default"


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_packaged_prompt_is_one_that_nodes_fill_once(system: System) -> None:
    names = [contract.name for contract in system.contracts]
    assert len(names) == len(set(names))
    everywhere = {one.name for name in systems() for one in find_system(name).contracts}
    for version in packaged_versions():
        assert set(own_prompts(version)) <= everywhere


@pytest.mark.parametrize(("system", "node"), NODES)
def test_flags_have_a_meaning_in_words(system: System, node: NodeSpec) -> None:
    assert [flag for flag, meaning in node.flags.items() if not meaning.strip()] == []


def test_a_flag_of_several_nodes_means_the_same() -> None:
    meanings: dict[str, set[str]] = {}
    for name in systems():
        for node in find_system(name).nodes:
            for flag, meaning in node.flags.items():
                meanings.setdefault(flag, set()).add(meaning)
    assert {flag: found for flag, found in meanings.items() if len(found) > 1} == {}


class AnyVectors:
    """Texts that all point the same way."""

    identity = "any@1"

    def embed(self, texts: list[str]) -> Embedded:
        return Embedded(np.ones((len(texts), 1), dtype=np.float32), np.zeros(len(texts), dtype=np.bool_))


OPENING_ALL: dict[str, dict[str, Any]] = {
    "tamu": {
        "embedding": "lexical:256",
        "evidence": {"voters": "both", "ranker": "bm25"},
        "verification": {"check": "rules", "ranker": "bm25"},
    },
    "heids": {
        "retrieval": {"retriever": "bm25", "reranker": "bm25", "expand_acronyms": True},
        "citation": {"method": "post_generation"},
        "verification": {"check": "rules", "ranker": "bm25"},
    },
    "timeaware": {"reading": {"reader": "classifier", "doc_mode": "top3"}},
    "bioasq": {
        "documents": {"phase": "both", "reranker": "bm25"},
        "verification": {"check": "rules", "ranker": "bm25"},
    },
    "direct": {
        "embedding": "lexical:256",
        "answer": {"demonstrations": 2},
        "verification": {"check": "rules", "ranker": "bm25"},
    },
}
"""Recipes that want every resource of their system, where its defaults do not."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("places")
    build([HEALTH / "literature.jsonl"], folder / "corpus")
    asyncio.run(build_index(folder / "corpus", folder / "index", BuildOptions(embedding="lexical:64")))
    return {"corpus": folder / "corpus", "index": folder / "index"}


@pytest.mark.parametrize("system", SYSTEMS)
async def test_tools_of_nodes_are_provided_by_resources_of_their_system(
    system: System, places: dict[str, Path], pool: DemonstrationPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (note_resources, document_resources):
        monkeypatch.setattr(module, "shared_vectors", AnyVectors)
    monkeypatch.setattr("ranking.rankers.entailment.EntailmentReader", lambda *_: ChosenVerdicts())
    recipe = system.recipe.model_validate(OPENING_ALL.get(system.name, {}))
    taken = {place for resource in system.resources for place in resource.places}
    given = {"demos": pool.folder, **places}
    if system.name == "timeaware":
        del given["index"]
    if system.name == "bioasq":
        given["demos"] = packaged_path(system.samples)
    request = ResourceRequest(recipe, "r", {name: given[name] for name in given if name in taken})
    opened = await open_resources(system.resources, request)
    assert set(opened) == set(system.resources), "the recipe wants them all"
    provided = {name: tool for one in opened.values() for name, tool in one.tools.items()}
    for node in system.nodes:
        missing = [tool.name for tool in node.tools if provided.get(tool.name) is None]
        assert (node.name, missing) == (node.name, [])
    asked_for = {tool.name for node in system.nodes for tool in node.tools}
    open_tools = {name for name, tool in provided.items() if tool is not None}
    assert open_tools <= asked_for, "a tool is opened that no node asks for"


DOCUMENTS = [
    document("mint", "Mint tea supports a cough. It relieves at night."),
    document("honey", "Honey refutes a cough.", 1990, None, "Systematic Review"),
    document("tea", "Black tea keeps awake.", None),
]
ANSWERED_BY = Gold(
    answer="Heparin was stopped.", answer_sentences=(AnswerSentence("1", "Heparin was stopped.", None),)
)
TYPES: tuple[QuestionType, ...] = ("yesno", "factoid", "list", "summary")


def cases_of(system: str) -> list[Case]:
    if system == "bioasq":
        plain = [asking(f"q-{type_}", type_) for type_ in TYPES]
        return [*plain, asking("bare", None, snippets=()), asking("none", snippets=())]
    if system == "timeaware":
        return [question("q"), question("past", as_of=1980), Case("own", "Does mint help a cough?", "", ())]
    notes = [
        case("q", gold=gold()),
        case("asked", question="", gold=ANSWERED_BY),
        case("silent", narrative=""),
        case("bare", question="", narrative="", note=[]),
        case("long", note=[*NOTE, "x " * 400]),
    ]
    return notes


def tools_of(system: str) -> dict[Tool[Any], Any]:
    shots = {type_: [answered(f"s-{type_}", type_)] for type_ in TYPES}
    tools: dict[str, dict[Tool[Any], Any]] = {
        "heids": {RETRIEVER: Bm25Ranker(), VECTORS: AnyVectors(), ACRONYMS: {"PLT": "platelet count"}},
        "timeaware": {CORPUS: InMemory(DOCUMENTS), VECTORS: AnyVectors(), ENTAILMENT: ChosenVerdicts()},
        "bioasq": {
            CORPUS: InMemory(DOCUMENTS),
            INDEX: Neighbours(DOCUMENTS),
            DOCUMENT_RERANKER: ChosenScores({"Mint": 2.0, "Honey": 1.0}, cut=(1,)),
            ANSWERED_QUESTIONS: shots,
        },
    }
    return tools.get(system, {})


def unusable(call: ScriptedCall) -> str:
    """No reply of it can be used as it is."""
    return "no" if call.schema_ is not None else "So w" + " w" * 300 + " [99] |99|"


def half_usable(call: ScriptedCall) -> str:
    """Labels that leave most open, links to nothing, rankings of one, and texts that break their rules."""
    if call.schema_ is None:
        return "Short"
    if call.format in ("labels", ""):
        return labels("1", of=["1", "77"])
    fields = call.schema_.get("properties", {})
    return json.dumps({name: ["99"] if part.get("type") == "array" else "x" for name, part in fields.items()})


def at_times(call: ScriptedCall) -> str:
    """Only first samples are answered, and no reflection is."""
    if call.sample or call.role == "reflect":
        return failing("timeout")(call)
    return made_up_reply(call)


SCRIPTS: dict[str, Script] = {
    "made-up": made_up_reply,
    "unusable": unusable,
    "half-usable": half_usable,
    "at-times": at_times,
    "written": script(),
}
CHANGES: dict[str, list[dict[str, Any]]] = {
    "tamu": [
        {"evidence": {"voters": "both", "votes": "3..9", "threshold": 5, "confidence": True}},
        {"evidence": {"reply": "ids", "intent_aware": True, "minimum_votes": 1}},
        {"question": {"interpret": "always"}, "alignment": {"answer": "generated"}},
        {"question": {"interpret": "missing"}, "alignment": {"answer": "clinician"}},
        {"answer": {"selection": "similarity"}, "evidence": {"demonstrations": 0}},
        {"stop_after": "evidence", "evidence": {"minimum_votes": 1}, "negation": {"check": True}},
        {"verification": {"check": "model", "on_unsupported": "remove"}, "answerability": "auto"},
        {"relevance": {"least": 0.1}},
        {"verification": {"check": "rules"}, "alignment": {"answer": "generated"}},
    ],
    "heids": [
        {"stop_after": "evidence"},
        {"citation": {"method": "post_generation"}},
        {"retrieval": {"expand_acronyms": True}},
        {"verification": {"check": "model", "on_unsupported": "remove"}},
    ],
    "timeaware": [
        {"verdict": {"explain": True}, "reading": {"doc_mode": "top3"}},
        {"reading": {"reader": "classifier"}, "verdict": {"weighting": "probability"}},
        {"literature": {"refill": True, "k": 1, "minimum_year": 2000}, "verdict": {"classes": 2}},
    ],
    "bioasq": [
        {"documents": {"phase": "both", "reformulations": 2, "reranker": "chosen", "llm_rerank": True}},
        {"documents": {"phase": "b"}, "exact": {"votes": 3, "default_yes": True}},
        {"documents": {"phase": "b"}, "exact": {"style": 3, "max_snippet_characters": 500}},
        {"documents": {"phase": "a", "retriever": "words"}},
        {"documents": {"phase": "b"}, "verification": {"check": "model", "on_unsupported": "remove"}},
    ],
    "weak_labels": [{"evidence": {"votes": 3, "threshold": 2, "reply": "ids"}}],
    "direct": [
        {"answer": {"demonstrations": 2}},
        {"answer": {"corrections": 0}},
        {"verification": {"check": "model", "on_unsupported": "remove"}},
    ],
}
"""Values that lead to nodes and branches which packaged recipes leave out."""

RECIPES_TO_RUN = [
    *(pytest.param(None, name, id=name) for name in RECIPES.packaged_names()),
    *(
        pytest.param(system, values, id=f"{system}-{number}")
        for system, changes in CHANGES.items()
        for number, values in enumerate(changes)
    ),
]


def recipe_values(system: str | None, given: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The system, and values of a packaged recipe or those that are given."""
    if isinstance(given, str):
        recipe = load_recipe(given)
        return recipe.system, recipe.model_dump(mode="json", exclude={"system", "prompts", "models"})
    assert system is not None
    return system, dict(given)


async def faults_of_runs(context: Context, system: System) -> tuple[set[str], set[str]]:
    """Every undeclared fact and flag of runs over all cases of a context; and the nodes that ran."""
    graph = system.build()
    faults: set[str] = set()
    ran: set[str] = set()
    for one in context.cases.values():
        result = await run_case(system, graph, context, one)
        assert (result.line["error"] or {}).get("class") != "internal", result.line["error"]
        for line in result.trace[:-1]:
            node = system.node(line["node"])
            assert node is not None
            faults |= set(undeclared(node, line))
            ran.add(node.name)
    return faults, ran


def context_of(bench: Bench, system: str, values: dict[str, Any], replies: Script) -> Context:
    cases = cases_of(system)
    return bench.context(*cases, system=system, replies=replies, tools=tools_of(system), **values)


RUNS = [
    pytest.param(*recipe.values, replies, id=f"{recipe.id}-{replies}")
    for recipe in RECIPES_TO_RUN
    for replies in SCRIPTS
    # Packaged recipes differ in values more than in routes.
    if recipe.values[0] is not None or replies in ("made-up", "unusable")
]


@pytest.mark.parametrize(("system", "recipe", "replies"), RUNS)
async def test_facts_and_flags_of_a_run_are_declared_by_their_node(
    bench: Bench, system: str | None, recipe: str | dict[str, Any], replies: str
) -> None:
    name, values = recipe_values(system, recipe)
    faults, _ = await faults_of_runs(context_of(bench, name, values, SCRIPTS[replies]), find_system(name))
    assert sorted(faults) == []


async def test_these_runs_reach_every_node_that_asks_no_person(bench: Bench) -> None:
    ran: set[str] = set()
    for name, values in ((one, values) for one in systems() for values in CHANGES.get(one, [{}])):
        ran |= (await faults_of_runs(context_of(bench, name, values, made_up_reply), find_system(name)))[1]
        if name == "tamu":
            # Without a label there is nothing to answer from.
            nothing = context_of(bench, name, values, script(label=labels(), reflect=labels()))
            ran |= (await faults_of_runs(nothing, find_system(name)))[1]
    everywhere = {node.name for name in systems() for node in find_system(name).nodes}
    assert everywhere - ran == {"await_review"}


class Update(TypedDict):
    decisions: list[Decision]


async def quiet(state: Any, runtime: Any) -> Update:
    return {"decisions": decision("quiet", "because", {"size": 1, "words": "few"}, flags=["short"])}


async def test_a_node_that_declares_nothing_of_what_it_produces_is_found() -> None:
    spec = NodeSpec(run=quiet)
    (made,) = (await quiet(None, None))["decisions"]
    assert undeclared(spec, made) == ["quiet: fact 'size'", "quiet: fact 'words'", "quiet: flag 'short'"]
