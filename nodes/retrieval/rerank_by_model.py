"""Documents in the order of a language model that sees many at once (Verma et al. 2025, section 3.2.3).

More candidates than a prompt shows are ordered in windows that slide from the end to the front, so that a
document from the end can come up all the way (Sun et al. 2023; Pradeep et al. 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from nodes.answer.biomedical_records import RankedDocument
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.fitting import Fitted, fit_prompt
from nodes.core.records import Decision, decision
from nodes.core.wording import one_line
from nodes.reading.literature_records import FoundDocument
from nodes.retrieval.document_texts import passage, ranked, shortened
from nodes.retrieval.ranking_reply import Permutation, ranking_reply
from serving.ask import Ask, CallRecord, Failure
from serving.messages import Message


class RerankByModelInput(TypedDict):
    """What the node reads."""

    case_id: str
    patient_question: NotRequired[str]
    found_documents: list[FoundDocument]
    cross_encoder_ranking: list[RankedDocument]


class RerankByModelUpdate(TypedDict):
    """What the node owns; a ranking of places."""

    llm_ranking: list[RankedDocument]
    decisions: list[Decision]


@dataclass(slots=True)
class _Told:
    """What came of the windows, from the last documents to the first."""

    calls: list[CallRecord] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    repeated: int = 0
    padded: int = 0
    failed: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


async def rerank_by_model(state: RerankByModelInput, runtime: Runtime[Context]) -> RerankByModelUpdate:
    """Ask the `label` model for the best documents of each window, best first.

    What it leaves out stays behind in the order of the cross-encoder; where it gives no order at all, that
    order stands.
    """
    context = runtime.context
    settings = context.settings.documents
    documents = {one["id"]: one for one in state["found_documents"]}
    before = [one["id"] for one in state["cross_encoder_ranking"]]
    question = state.get("patient_question", context.cases[state["case_id"]].question)
    texts = {id_: _candidate(documents[id_], settings.passage_words) for id_ in before}
    order = list(before)
    told = _Told()
    starts = window_starts(len(order), settings.window, settings.step)
    for start in starts:
        window = order[start : start + settings.window]
        best = await _ask(context, state["case_id"], question, window, texts, told)
        order[start : start + settings.window] = list(dict.fromkeys([*best, *window]))
    kept = order[: settings.kept]
    return {
        "llm_ranking": ranked(kept, [None] * len(kept)),
        "decisions": decision(
            "rerank_by_model",
            _because(told, len(before), len(starts), len(kept)),
            {
                "order": kept,
                "before": before,
                "windows": len(starts),
                "unknown_ids": told.unknown,
                "repeated": told.repeated,
                "padded": told.padded,
                "failed_windows": told.failed,
                "dropped_documents": told.dropped,
            },
            told.calls,
            flags=[
                *(["failed_ranking"] if told.failed else []),
                *(["mended_ranking"] if told.unknown or told.repeated else []),
                *(["dropped_documents"] if told.dropped else []),
            ],
        ),
    }


def window_starts(candidates: int, window: int, step: int) -> list[int]:
    """Where windows begin, in the order in which they are asked for: the last one first, 0 at the end."""
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
    told: _Told,
) -> list[str]:
    """The best of a window; none where the model gives no order."""
    settings = context.settings.documents
    try:
        prompt = await _prompt(context, question, window, texts)
    except NodeFailure as failure:
        told.failed.append(f"{failure.error_class}: {failure}")
        return []
    told.dropped += prompt.dropped
    if len(prompt.kept) < 2:
        told.failed.append("context_length: the prompt has no room for two documents")
        return []
    (outcome,) = await context.client.ask(
        Ask(
            role="label",
            case_id=case_id,
            messages=prompt.messages,
            reply=ranking_reply(prompt.kept, settings.kept),
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=context.settings.seed,
        )
    )
    told.calls += outcome.calls
    if isinstance(outcome, Failure):
        told.failed.append(f"{outcome.error.error_class}: {outcome.error}")
        return []
    said: Permutation = outcome.value
    told.unknown += said.unknown
    told.repeated += said.repeated
    told.padded += min(settings.kept, len(prompt.kept)) - len(said.ids)
    return said.ids


async def _prompt(context: Context, question: str, window: Sequence[str], texts: Mapping[str, str]) -> Fitted:
    settings = context.settings.documents

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        turns = context.prompts["rerank_by_model"].render(
            {
                "question": one_line(question),
                "documents": "\n\n".join(
                    f"[{number}] {texts[id_]}" for number, id_ in enumerate(ids, start=1)
                ),
                "count": str(min(settings.kept, len(ids))),
                "last": str(len(ids)),
            }
        )
        return tuple(Message(role, text) for role, text in turns), list(ids)

    return await fit_prompt(
        context.client, "label", window, render, reply_tokens=settings.max_tokens, later_tokens=0
    )


def _candidate(document: FoundDocument, words: int) -> str:
    """On one line, so that no text can look like a further candidate."""
    return passage(document["title"], shortened(document["text"], words))


def _because(told: _Told, candidates: int, windows: int, kept: int) -> str:
    if not windows:
        return f"{candidates} documents leave nothing to order"
    if len(told.failed) == windows:
        return f"the order of the cross-encoder stands: the model gave none for {candidates} documents"
    prompts = "1 prompt" if windows == 1 else f"{windows} prompts"
    parts = [f"the best {kept} of {candidates} documents, asked for in {prompts}"]
    if told.unknown or told.repeated:
        parts.append(f"{len(told.unknown)} unknown and {told.repeated} repeated ones were dropped")
    if told.padded:
        parts.append(f"{told.padded} places were filled in the order of the cross-encoder")
    if told.failed:
        parts.append(f"{len(told.failed)} prompts gave no order")
    return "; ".join(parts)
