"""Documents in the order of a language model that sees many at once (Verma et al. 2025, section 3.2.3).

More candidates than a prompt shows are ordered in windows that slide from the end to the front, so that a
document from the end can come up all the way (Sun et al. 2023; Pradeep et al. 2023).
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import Fact, fault_class, plain
from nodes.core.failure import NodeFailure
from nodes.core.fitting import Fitted, fit_prompt
from nodes.core.json_reply import as_id, object_schema
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision, raised
from nodes.core.wording import one_line
from nodes.retrieval.document_records import FoundDocument, RankedDocument
from nodes.retrieval.document_settings import DocumentSettings
from nodes.retrieval.document_texts import passage, ranked, shortened
from prompts import Contract
from serving.protocol.errors import InvalidReply
from serving.protocol.messages import Message
from serving.protocol.reply import ReplyFormat, first_json_object
from serving.protocol.request import CallRecord, Failure

RANKING_REPLY = "ranking"
"""Name of the reply's format, and of its field."""

_LIST = re.compile(r"\[[^\[\]{}]*\]")


class Permutation(NamedTuple):
    """Order in a reply, and the reply's faults.

    Attributes:
        ids: Ids of candidates, best first, without repetitions.
        unknown: Items that match no candidate's number or id, shortened for people.
        repeated: How often a candidate was named once more.
    """

    ids: list[str]
    unknown: list[str]
    repeated: int


def ranking_reply(ids: Sequence[str], wanted: int) -> ReplyFormat[Permutation]:
    """The format `{"ranking": [3, 1]}` for candidates that are numbered from 1.

    The schema does not ask for different numbers: the grammars of local models write such lists in the order
    of the schema, which would be no ranking at all.
    """
    count = min(wanted, len(ids))
    numbers = {"type": "integer", "enum": list(range(1, len(ids) + 1))}
    ranking = {"type": "array", "items": numbers, "minItems": count, "maxItems": count}
    parse = partial(read_permutation, ids=ids, wanted=wanted)
    return ReplyFormat(RANKING_REPLY, object_schema({RANKING_REPLY: ranking}), parse)


def read_permutation(text: str, ids: Sequence[str], wanted: int) -> Permutation:
    """Read numbers or document ids; unknown and repeated ones are dropped and counted.

    A number that could be both is the number of a candidate.

    Raises:
        InvalidReply: No list, or one that names no candidate.
    """
    places = {str(number): id_ for number, id_ in enumerate(ids, start=1)}
    known = frozenset(ids)
    chosen: dict[str, None] = {}
    unknown: list[str] = []
    repeated = 0
    for item in _items(text):
        name = (as_id(item) or "").strip().strip("[]")
        id_ = places.get(name, name if name in known else None)
        if id_ is None:
            unknown.append(reprlib.repr(item))
        elif id_ in chosen:
            repeated += 1
        else:
            chosen[id_] = None
    if not chosen:
        raise InvalidReply(f"{RANKING_REPLY!r} must be a list of numbers from 1 to {len(ids)}, best first")
    return Permutation(list(chosen)[:wanted], unknown, repeated)


def _items(text: str) -> list[Any]:
    try:
        found = first_json_object(text).get(RANKING_REPLY)
    except InvalidReply:
        # A bare list says as much.
        found = _bare_list(text)
    if not isinstance(found, list):
        raise InvalidReply(f"{RANKING_REPLY!r} must be a list of numbers, best first")
    return found


def _bare_list(text: str) -> object:
    match = _LIST.search(text)
    if match is None:
        return None
    try:
        return json.loads(match[0])
    except (ValueError, RecursionError):
        return None


class RerankByModelInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    found_documents: list[FoundDocument]
    cross_encoder_ranking: list[RankedDocument]


class RerankByModelUpdate(TypedDict):
    """A ranking of positions."""

    llm_ranking: list[RankedDocument]
    decisions: list[Decision]


@dataclass(slots=True)
class _Outcome:
    """Results of the windows, from the last documents to the first."""

    calls: list[CallRecord] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    repeated: int = 0
    padded: int = 0
    failed: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


async def rerank_by_model(state: RerankByModelInput, runtime: Runtime[Context]) -> RerankByModelUpdate:
    """Ask the `label` model for the best documents of each window, best first.

    Documents it leaves out follow in the order of the cross-encoder; without any order from the model, the
    cross-encoder's is kept.
    """
    context = runtime.context
    settings = context.section(DocumentSettings)
    documents = {one["id"]: one for one in state["found_documents"]}
    before = [one["id"] for one in state["cross_encoder_ranking"]]
    question = state.get("patient_question", context.cases[state["case_id"]].question)
    texts = {id_: _candidate(documents[id_], settings.passage_words) for id_ in before}
    order = list(before)
    result = _Outcome()
    starts = window_starts(len(order), settings.window, settings.step)
    for start in starts:
        window = order[start : start + settings.window]
        best = await _ask(context, state["case_id"], question, window, texts, result)
        order[start : start + settings.window] = list(dict.fromkeys([*best, *window]))
    kept = order[: settings.kept]
    return {
        "llm_ranking": ranked(kept, [None] * len(kept)),
        "decisions": decision(
            "rerank_by_model",
            _because(result, settings.first_ranker, len(before), len(starts), len(kept)),
            {
                "order": kept,
                "before": before,
                "windows": len(starts),
                "unknown_ids": result.unknown,
                "repeated": result.repeated,
                "padded": result.padded,
                "failed_windows": result.failed,
                "dropped_documents": result.dropped,
            },
            result.calls,
            flags=raised(
                failed_ranking=result.failed,
                mended_ranking=result.unknown or result.repeated,
                dropped_documents=result.dropped,
            ),
        ),
    }


def window_starts(candidates: int, window: int, step: int) -> list[int]:
    """Starts of the windows in the order of requests: the last one first, 0 at the end."""
    if candidates < 2:
        return []
    starts = list(range(max(candidates - window, 0), 0, -step))
    return [*starts, 0]


async def _ask(
    context: Context,
    case_id: str,
    question: str,
    window: Sequence[str],
    texts: Mapping[str, str],
    result: _Outcome,
) -> list[str]:
    """The best of a window; empty if the model does not return an order."""
    settings = context.section(DocumentSettings)
    try:
        prompt = await _prompt(context, question, window, texts)
    except NodeFailure as failure:
        result.failed.append(f"{failure.error_class}: {failure}")
        return []
    result.dropped += prompt.dropped
    if len(prompt.kept) < 2:
        result.failed.append("context_length: the prompt has no room for two documents")
        return []
    outcome = await context.ask(
        "label", case_id, prompt.messages, ranking_reply(prompt.kept, settings.kept), settings
    )
    result.calls += outcome.calls
    if isinstance(outcome, Failure):
        result.failed.append(f"{outcome.error.error_class}: {outcome.error}")
        return []
    said: Permutation = outcome.value
    result.unknown += said.unknown
    result.repeated += said.repeated
    result.padded += min(settings.kept, len(prompt.kept)) - len(said.ids)
    return said.ids


async def _prompt(context: Context, question: str, window: Sequence[str], texts: Mapping[str, str]) -> Fitted:
    settings = context.section(DocumentSettings)

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        return context.messages(
            "rerank_by_model",
            {
                "question": one_line(question),
                "documents": "\n\n".join(
                    f"[{number}] {texts[id_]}" for number, id_ in enumerate(ids, start=1)
                ),
                "count": str(min(settings.kept, len(ids))),
                "last": str(len(ids)),
            },
        ), list(ids)

    return await fit_prompt(context.client, "label", window, render, reply_tokens=settings.max_tokens)


def _candidate(document: FoundDocument, words: int) -> str:
    """On one line, so that no text can look like a further candidate."""
    return passage(document["title"], shortened(document["text"], words))


def _because(result: _Outcome, first: str, candidates: int, windows: int, kept: int) -> str:
    if not windows:
        return f"nothing to order in {plural(candidates, 'document')}"
    if len(result.failed) == windows:
        return f"kept the order of {first}: the model returned none for {plural(candidates, 'document')}"
    parts = [f"the best {kept} of {plural(candidates, 'document')}, asked for in {plural(windows, 'prompt')}"]
    if result.unknown or result.repeated:
        parts.append(f"{len(result.unknown)} unknown and {result.repeated} repeated ones were dropped")
    if result.padded:
        parts.append(f"{result.padded} places were filled in the order of {first}")
    if result.failed:
        parts.append(f"{len(result.failed)} prompts gave no order")
    return "; ".join(parts)


RERANK_BY_MODEL = NodeSpec(
    run=rerank_by_model,
    sections=(DocumentSettings,),
    prompts=(
        Contract(
            name="rerank_by_model",
            required=frozenset({"question", "documents"}),
            optional=frozenset({"count", "last"}),
        ),
    ),
    facts={
        "order": Fact(rows=lambda order, _: [("order", ", ".join(order))] if order else []),
        # Invented ids may contain text.
        "unknown_ids": Fact(keep=len),
        "failed_windows": Fact(keep=lambda faults: [fault_class(fault) or "" for fault in faults]),
        **plain("before", "windows", "repeated", "padded", "dropped_documents"),
    },
    flags={
        "failed_ranking": "the model returned no order for some documents; their previous order was kept",
        "mended_ranking": "the model's order named unknown or repeated documents; those were dropped",
        "dropped_documents": "the model was not shown some documents, as the prompt was too long",
    },
    impairs=("failed_ranking",),
    is_off=lambda recipe: not recipe.section(DocumentSettings).reranks_by_model,
)
