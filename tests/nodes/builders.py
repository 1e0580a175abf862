"""Small cases, scripted models and contexts for tests of nodes and graphs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
from langgraph.runtime import Runtime

from cases.records import AnswerSentence, Case, Gold, Intent, Label, Phrase, Sentence
from graph.note_resources import PoolRecipe
from graph.system import find_system, systems
from nodes.core.context import Context, Tool
from nodes.core.node import NodeSpec
from nodes.core.records import Shown
from nodes.evidence.rank_evidence import RANK_EVIDENCE, RANKER
from nodes.retrieval.demonstration_search import POOL as POOL_TOOL
from prompts import load_prompts
from ranking.cutoffs import TopK
from ranking.encoding.vectors import Vectors
from ranking.rankers.bm25 import Bm25Ranker
from ranking.rankers.ranker import Ranker
from retrieval.embeddings import Embedder, connect_embedder
from retrieval.pools.folder import build_pool
from retrieval.pools.pool import DemonstrationPool
from serving.backends.backend import Server
from serving.backends.scripted import Script, ScriptedCall, ScriptedModel, connect_scripted
from serving.journal.journal import Journal
from serving.protocol.errors import CallError, ErrorClass
from serving.protocol.limits import Limits
from serving.protocol.messages import Message
from serving.protocol.model_name import ROLES, Role, parse_model_name
from serving.requests.client import ModelClient

Update = TypeVar("Update", bound=Mapping[str, Any])
Answering = str | Callable[[ScriptedCall], str]

NOTE = ("Heparin was stopped on day 3.", "The platelet count fell to 40.", "Diet was regular.")
TWO_SENTENCES = "Heparin was stopped on day 3. The platelet count had fallen to 40."
CITED_TEXT = "Heparin was stopped on day 3. |1|\nThe platelet count had fallen to 40. |2, 1|"
QUESTION = "Why was the heparin infusion discontinued?"
PRIMARY = "medication_safety"
SECONDARY = "lab_abnormal_concern"


def case(
    case_id: str = "q",
    *,
    question: str = "Why was heparin stopped?",
    narrative: str = "I was on a heparin drip and it was stopped.",
    note: Sequence[str] = NOTE,
    phrases: Sequence[str] = (),
    gold: Gold | None = None,
) -> Case:
    return Case(
        case_id,
        narrative,
        question,
        tuple(Sentence(str(number), text) for number, text in enumerate(note, start=1)),
        phrases=tuple(Phrase(str(number), text) for number, text in enumerate(phrases)),
        gold=gold or Gold(),
    )


CITED = (
    AnswerSentence("1", "Heparin was stopped on day 3.", ("1",)),
    AnswerSentence("2", "The platelet count had fallen to 40.", ("2", "1")),
)


def gold(
    intent: str | None = PRIMARY,
    *,
    labelled: bool = True,
    answered: bool = True,
    cited: tuple[AnswerSentence, ...] | None = CITED,
) -> Gold:
    labels: dict[str, Label] = {"1": "essential", "2": "not-relevant", "3": "supplementary"}
    return Gold(
        labels=labels if labelled else None,
        answer=TWO_SENTENCES if answered else None,
        answer_sentences=cited,
        intent=Intent(intent) if intent else None,
    )


POOL = (
    # The nearest to the case "q" come last by id, so that no order is another's by chance.
    case(
        "p1", narrative="My knee swells.", question="How long will it last?", gold=gold("recovery_duration")
    ),
    case("p2", narrative="My platelet count fell.", question="Is it bad?", gold=gold(SECONDARY)),
    case("p3", narrative="My drip was stopped.", question="Why was it stopped?", gold=gold()),
    case("p4", narrative="I was on a heparin drip.", question="Why was heparin stopped?", gold=gold()),
)
NEAREST_FIRST = ["p4", "p3", "p2", "p1"]


def labels(*essential: str, of: Iterable[str] = ("1", "2", "3")) -> str:
    return json.dumps({id_: "essential" if id_ in essential else "not-essential" for id_ in of})


def essential(*ids: str) -> str:
    """The same in the form of ids alone."""
    return json.dumps({"essential": list(ids)})


def links(**cited: Sequence[str]) -> str:
    """Links by answer sentence, as `links(s1=["2"], s2=[])`."""
    return json.dumps({name.removeprefix("s"): list(ids) for name, ids in cited.items()})


def first_sentence_supports_all(call: ScriptedCall) -> str:
    assert call.schema_ is not None
    return json.dumps({id_: ["1"] for id_ in call.schema_["required"]})


def intent(primary: str = PRIMARY, secondary: str | None = SECONDARY, risk_level: str = "low") -> str:
    return json.dumps({"primary": primary, "secondary": secondary, "risk_level": risk_level})


def by_sample(*replies: str) -> Callable[[ScriptedCall], str]:
    """Each sample has its own reply, the last one serves the rest."""
    return lambda call: replies[min(call.sample, len(replies) - 1)]


def in_turn(*replies: str) -> Callable[[ScriptedCall], str]:
    """The first reply, then those after each correction turn."""

    def reply(call: ScriptedCall) -> str:
        sent_back = sum(
            "Your reply cannot be used" in text or "breaks its rules" in text for _, text in call.prompt
        )
        return replies[min(sent_back, len(replies) - 1)]

    return reply


def failing(error_class: ErrorClass, *samples: int, otherwise: str = "") -> Callable[[ScriptedCall], str]:
    """These samples fail, or all of them if none is named."""

    def reply(call: ScriptedCall) -> str:
        if call.sample in samples or not samples:
            raise CallError(error_class, f"scripted {error_class}")
        return otherwise

    return reply


def never(call: ScriptedCall) -> str:
    raise AssertionError(f"role {call.role} was asked")


def script(
    *,
    classify: Answering | None = None,
    label: Answering | None = None,
    reflect: Answering | None = None,
    answer: Answering | None = None,
    verify: Answering = "Yes",
    question: Answering = QUESTION,
    alignment: Answering = first_sentence_supports_all,
    cited_answer: Answering = CITED_TEXT,
) -> Script:
    """Usable replies for every role and every task of the role `answer`, but for those that are given."""
    answering: dict[str, Answering] = {
        "classify": classify if classify is not None else intent(),
        "label": label if label is not None else labels("1"),
        "reflect": reflect if reflect is not None else labels("1", "2"),
        "answer": answer if answer is not None else TWO_SENTENCES,
        "verify": verify,
        "question": question,
        "alignment": alignment,
        "cited_answer": cited_answer,
    }

    def reply(call: ScriptedCall) -> str:
        chosen = answering[call.format if call.format in answering else call.role]
        return chosen if isinstance(chosen, str) else chosen(call)

    return reply


async def count_words(messages: Sequence[Message]) -> int:
    return sum(len(message.text.split()) for message in messages)


@dataclass
class Bench:
    """Makes contexts with a real journal each, and closes them."""

    folder: Path
    pool: DemonstrationPool
    _journals: list[Journal] = field(default_factory=list)

    def context(
        self,
        *cases: Case,
        system: str = "tamu",
        replies: Script | None = None,
        pool: DemonstrationPool | None = None,
        prompts: str = "default",
        one_by_one: bool = False,
        weighs: bool = True,
        context_length: int | None = None,
        ranker: Ranker | None = None,
        tools: Mapping[Tool[Any], Any] | None = None,
        **values: Any,
    ) -> Context:
        """A context of `cases`, else of the case "q"; the rest are values of a recipe of the system.

        Recipes that can show demonstrations are given the pool. Without a `ranker` a recipe that wants one is
        given BM25 with its best two. A model that `weighs` gives log-probabilities of choices.
        """
        journal = Journal(self.folder / f"{len(self._journals)}.sqlite")
        self._journals.append(journal)
        backend = replace(
            connect_scripted(parse_model_name("scripted:auto")),
            servers=(Server("scripted", ScriptedModel(replies or script())),),
            many_samples=not one_by_one,
            scores_choices=weighs,
            context_length=context_length,
            count_tokens=count_words,
        )
        found = find_system(system)
        recipe = found.recipe.model_validate(values)
        given: dict[Tool[Any], Any] = {}
        if isinstance(recipe, PoolRecipe):
            given[POOL_TOOL] = pool or self.pool
        if RANK_EVIDENCE in found.nodes and not RANK_EVIDENCE.is_off(recipe):
            given[RANKER] = ranker or Bm25Ranker(TopK(k=2))
        context = Context(
            cases={one.id: one for one in cases or [case()]},
            client=ModelClient(dict.fromkeys(ROLES, backend), journal, Limits(max_retries=0)),
            prompts=load_prompts(prompts, found.contracts),
            settings=recipe,
        )
        return with_tools(context, {**given, **(tools or {})})

    def close(self) -> None:
        for journal in self._journals:
            journal.close()


def with_tools(context: Context, tools: Mapping[Tool[Any], Any]) -> Context:
    """The same context with these tools added or replaced."""
    return replace(context, tools={**context.tools, **{tool.name: one for tool, one in tools.items()}})


def asked(context: Context, role: Role | None = None, form: str | None = None) -> list[ScriptedCall]:
    """What the model was asked, in order; of a role, or in a format of reply."""
    complete = context.client.backends["label"].servers[0].complete
    assert isinstance(complete, ScriptedModel)
    return [call for call in complete.history if role in (None, call.role) and form in (None, call.format)]


def flags(state: Mapping[str, Any]) -> set[str]:
    return {flag for one in state["decisions"] for flag in one.get("flags", [])}


def facts(update: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = update["decisions"][-1]["facts"]
    return found


def shown(*case_ids: str) -> list[Shown]:
    return [
        Shown(case_id=case_id, distance=0.1, intent=None, source="gold", tier="similarity")
        for case_id in case_ids
    ]


async def run_node(
    node: Callable[[Any, Runtime[Context]], Awaitable[Update]], state: Mapping[str, Any], context: Context
) -> Update:
    """The node's real update: all its keys are of the state, all its facts and flags are declared."""
    update = await node(state, Runtime(context=context))
    for system in map(find_system, systems()):
        spec = system.node(getattr(node, "__name__", ""))
        if spec is not None:
            assert set(update) <= set(get_type_hints(system.state))
            assert [undeclared(spec, one) for one in update["decisions"]] == [[]]
    return update


def undeclared(node: NodeSpec, decided: Mapping[str, Any]) -> list[str]:
    """What a decision of a node holds that the node does not declare, in words."""
    facts_, flags_ = decided.get("facts") or {}, decided.get("flags") or ()
    return [
        *(f"{node.name}: fact {name!r}" for name in facts_ if name not in node.facts),
        *(f"{node.name}: flag {name!r}" for name in flags_ if name not in node.flags),
    ]


def system_of(node: Callable[..., Any]) -> str:
    """The first system that has a node, for tests of what is the same in all of them."""
    return next(name for name in systems() if find_system(name).node(node.__name__) is not None)


@dataclass(frozen=True)
class ChosenSimilarities:
    """An embedder that puts each demonstration at a chosen cosine from every case that is not one."""

    similarities: Mapping[str, float]
    identity: str = "chosen:2"

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        """The last word of a text names the demonstration."""
        cosines = [self.similarities.get(text.split()[-1], 1.0) for text in texts]
        return np.array([[cosine, (1 - cosine**2) ** 0.5] for cosine in cosines], dtype=np.float32)


async def pool_of(folder: Path, *cases: Case, embedder: Embedder | None = None) -> DemonstrationPool:
    """A real pool of these cases alone."""
    chosen = embedder or connect_embedder("lexical:256")
    await build_pool(folder / "pool", cases, chosen)
    return DemonstrationPool(folder / "pool", chosen)
