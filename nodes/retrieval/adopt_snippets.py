"""Phase B of BioASQ begins with the snippets that a question comes with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

from langgraph.runtime import Runtime

from cases.biomedical import Snippet
from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import plain
from nodes.core.node import Column, NodeSpec
from nodes.core.records import Decision, decision
from nodes.core.wording import one_line
from nodes.retrieval.document_records import ChosenSnippet
from nodes.retrieval.document_settings import DocumentSettings


class AdoptSnippetsInput(TypedDict):
    case_id: str


class AdoptSnippetsUpdate(TypedDict):
    snippets: list[ChosenSnippet]
    decisions: list[Decision]


class Adopted(NamedTuple):
    """Snippets of use, and how many are not."""

    snippets: list[ChosenSnippet]
    empty: int
    repeated: int


async def adopt_snippets(state: AdoptSnippetsInput, runtime: Runtime[Context]) -> AdoptSnippetsUpdate:
    """Adopt the case's snippets.

    Without any, models answer from their own knowledge, as their system line allows.
    """
    case = runtime.context.cases[state["case_id"]]
    given = case.biomedical.snippets if case.biomedical else ()
    adopted = adopt(given)
    kept = adopted.snippets
    return {
        "snippets": kept,
        "decisions": decision(
            "adopt_snippets",
            _because(len(given), adopted),
            {
                "given": len(given),
                "empty": adopted.empty,
                "repeated": adopted.repeated,
                "sources": list(dict.fromkeys(one["document"] for one in kept)),
            },
            flags=[] if kept else ["no_snippets"],
        ),
    }


def adopt(given: Sequence[Snippet]) -> Adopted:
    """Snippets in their order, without empty ones and without the same text of the same document again."""
    found: dict[tuple[str, str], ChosenSnippet] = {}
    empty = 0
    for one in given:
        text = one_line(one.text)
        if not text:
            empty += 1
            continue
        found.setdefault(
            (one.document, text),
            ChosenSnippet(
                document=one.document, section=one.section, begin=one.begin, end=one.end, text=one.text
            ),
        )
    return Adopted(list(found.values()), empty, len(given) - empty - len(found))


def _because(given: int, adopted: Adopted) -> str:
    if not adopted.snippets:
        reason = (
            f"none of {plural(given, 'snippet')} has a text"
            if given
            else "the question comes without snippets"
        )
        return f"{reason}: answering from the models' own knowledge"
    counted = ((adopted.empty, "empty"), (adopted.repeated, "repeated"))
    left_out = [f"{count} {word}" for count, word in counted if count]
    without = f", {' and '.join(left_out)} left out" if left_out else ""
    return f"the question comes with {plural(given, 'snippet')}{without}"


def without_text(snippets: Sequence[ChosenSnippet]) -> object:
    """Snippets by their places alone."""
    return [{**one, "text": ""} for one in snippets]


SNIPPET_COUNT = Column(lambda line: str(len(line["snippets"] or ())))
"""How many the answer had."""

NO_SNIPPETS = {"no_snippets": "no snippets; answers are from the models' own knowledge"}
"""The flag of a node that looks for snippets."""

ADOPT_SNIPPETS = NodeSpec(
    run=adopt_snippets,
    sections=(DocumentSettings,),
    results={"snippets": without_text},
    columns={"snippets": SNIPPET_COUNT},
    facts=plain("given", "empty", "repeated", "sources"),
    flags=NO_SNIPPETS,
    is_off=lambda recipe: recipe.section(DocumentSettings).finds,
)
