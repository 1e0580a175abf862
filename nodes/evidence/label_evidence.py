"""R votes on which sentences of the note are essential (TAMU 2026, stage 1 of section 4.1.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from cases.texts import plural
from nodes.core.ballot import Ballot
from nodes.core.context import Context
from nodes.core.facts import BALLOT, DROPPED_DEMONSTRATIONS, SHOWN_DEMONSTRATIONS, VOTE_FLAGS, whole
from nodes.core.failure import NodeFailure, demand_sentences
from nodes.core.fitting import Fitted, fit_prompt
from nodes.core.node import NodeSpec
from nodes.core.recipe import Recipe
from nodes.core.records import Decision, Shown, Vote, decision
from nodes.core.wording import CASE_VARIABLES
from nodes.evidence import pointwise
from nodes.evidence.reply_forms import lacks_reply_form
from nodes.evidence.settings import EvidenceSettings
from nodes.evidence.voting import ask_for_votes, labelling_prompt, vote_tokens
from nodes.question.adopt_patient_question import patient_question
from nodes.retrieval.demonstration_search import POOL
from nodes.retrieval.retrieve_evidence_demonstrations import choose_by_similarity, compared_text
from prompts import Contract, PromptSet
from ranking.cutoffs import cutoff_text
from retrieval.pools.pool import DemonstrationPool
from serving.protocol.messages import Message

CaseKey = tuple[str, ...]
CaseKeys = Callable[[Sequence[Case]], Awaitable[list[CaseKey]]]
"""Cases to keys: prompts of cases with equal keys begin alike, and run near one another for prefix caches."""


class LabelEvidenceInput(TypedDict):
    """The last four are only present for further votes."""

    case_id: str
    patient_question: NotRequired[str]
    evidence_demonstrations: list[Shown]
    votes: NotRequired[list[Vote]]
    asked_votes: NotRequired[int]
    more_votes: NotRequired[int]
    shown_demonstrations: NotRequired[list[str]]


class LabelEvidenceUpdate(TypedDict):
    """What the node owns.

    `votes` are the new ones, `asked_votes` counts those of earlier rounds too, `shown_demonstrations` are
    the ids that fitted, in prompt order. `model_scores` are the log-odds of a model that was asked for each
    sentence by itself.
    """

    votes: list[Vote]
    asked_votes: int
    shown_demonstrations: list[str]
    model_scores: NotRequired[dict[str, float]]
    decisions: list[Decision]


def prompt_order(ids: Sequence[str], order: Literal["canonical", "similar_last"]) -> list[str]:
    """Ids of demonstrations, given nearest first, in the order that the prompt shows them."""
    return sorted(ids) if order == "canonical" else list(reversed(ids))


async def label_evidence(state: LabelEvidenceInput, runtime: Runtime[Context]) -> LabelEvidenceUpdate:
    """Ask the `label` model for the next votes; those that fail are missing, and counted as such."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    demand_sentences(case)
    settings = context.section(EvidenceSettings)
    question = state.get("patient_question", case.question)
    if settings.pointwise:
        return _from_sentences(await pointwise.weigh_sentences(context, case, question), settings)

    asked = state.get("asked_votes", 0)
    new = state.get("more_votes", 0) if asked else settings.first_votes
    prompt = await _prompt(state, context, case, question)
    earlier = len(state.get("votes", ()))
    votes, ballot = await ask_for_votes(context, case, prompt.messages, range(asked, asked + new), earlier)
    return {
        "votes": votes,
        "asked_votes": asked + new,
        "shown_demonstrations": prompt.kept,
        "decisions": decision(
            "label_evidence",
            _because(len(votes), new, bool(asked), len(prompt.kept), prompt.dropped),
            {"votes": votes, **ballot.facts, **prompt.facts},
            ballot.calls,
            flags=[*ballot.flags, *prompt.flags],
        ),
    }


def _from_sentences(ballot: Ballot[float], settings: EvidenceSettings) -> LabelEvidenceUpdate:
    vote = pointwise.vote_of(ballot, settings)
    because = f"{len(ballot.replies)} of {plural(len(ballot.outcomes), 'sentence')} weighed one by one"
    if settings.rule is None:
        because += f", {len(vote['essential'])} of them essential by {cutoff_text(settings.model_rule)}"
    return {
        "votes": [vote],
        "asked_votes": 1,
        "shown_demonstrations": [],
        "model_scores": vote["log_odds"],
        "decisions": decision(
            "label_evidence",
            because,
            {
                "votes": [vote],
                "missing_sentences": ballot.failed,
                "sentence_calls": {id_: len(one.calls) for id_, one in ballot.outcomes.items()},
            },
            ballot.calls,
            flags=["missing_sentences"] if ballot.failures else [],
        ),
    }


async def _prompt(state: LabelEvidenceInput, context: Context, case: Case, question: str) -> Fitted:
    """The prompt of the first votes, and the very same for further ones."""
    settings = context.section(EvidenceSettings)
    reply_tokens = vote_tokens(context, case)
    if state.get("asked_votes"):
        shown = state["shown_demonstrations"]
        return Fitted(labelling_prompt(context, case, question, shown), shown, [])

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        ordered = prompt_order(ids, settings.order)
        return labelling_prompt(context, case, question, ordered), ordered

    return await fit_prompt(
        context.client,
        "label",
        [one["case_id"] for one in state["evidence_demonstrations"]],
        render,
        reply_tokens=reply_tokens,
        # A reflection continues this conversation with its instruction and a second reply.
        later_tokens=reply_tokens + 256 if settings.reflection else 0,
    )


def _because(got: int, wanted: int, further: bool, demonstrations: int, dropped: Sequence[str]) -> str:
    left_out = f"; {len(dropped)} left out, the context window is full" if dropped else ""
    votes = f"{got} of {plural(wanted, 'further vote' if further else 'vote')}"
    return f"{votes} on one prompt with {plural(demonstrations, 'demonstration')}{left_out}"


def demonstration_keys(recipe: Recipe, tools: Mapping[str, Any]) -> CaseKeys | None:
    """How to foresee the demonstrations of cases, in prompt order; None where the order cannot matter.

    Demonstrations that depend on the intent are not known before a model has been asked, and those that
    are ordered by similarity hardly ever begin with the same one.
    """
    evidence = recipe.section(EvidenceSettings)
    pool: DemonstrationPool | None = tools.get(POOL.name)
    if pool is None or len(pool) == 0 or evidence.demonstrations == 0 or not evidence.asks_model:
        return None
    if not recipe.labels_evidence or evidence.intent_aware or evidence.order != "canonical":
        return None

    async def keys(cases: Sequence[Case]) -> list[CaseKey]:
        asked = [_question(case) for case in cases]
        await pool.embed_ahead(
            [compared_text(case, question) for case, question in zip(cases, asked, strict=True)]
        )
        found = []
        for case, question in zip(cases, asked, strict=True):
            chosen = await choose_by_similarity(pool, case, question, recipe)
            found.append(tuple(prompt_order(chosen.ids, evidence.order)))
            # Requests that are under way must not wait for a whole window.
            await asyncio.sleep(0)
        return found

    return keys


def _question(case: Case) -> str:
    if case.question.strip():
        return case.question
    try:
        return patient_question(case)[0]
    except NodeFailure:
        return ""


def fault_of_prompts(recipe: Recipe, prompts: PromptSet) -> str | None:
    """Fault of prompts that cannot request votes and reflections in the recipe's form; None if they can."""
    settings = recipe.find_section(EvidenceSettings)
    if settings is None:
        return None
    if settings.pointwise:
        return pointwise.prompt_fault(prompts[pointwise.CONTRACT.name], prompts.version)
    asked = ["label_evidence", *(["reflect_on_labels"] if settings.reflection else [])]
    faults = (lacks_reply_form(settings, prompts[name], prompts.version) for name in asked)
    return next((fault for fault in faults if fault is not None), None)


LABEL_EVIDENCE = NodeSpec(
    run=label_evidence,
    role="votes",
    sections=(EvidenceSettings,),
    tools=(POOL,),
    prompts=(
        Contract(
            name="label_evidence",
            required=CASE_VARIABLES,
            optional=frozenset({"reply_form"}),
            demonstration=CASE_VARIABLES | {"labels"},
        ),
        pointwise.CONTRACT,
    ),
    results={"asked_votes": whole, "model_scores": whole},
    facts={**BALLOT, **pointwise.FACTS, **SHOWN_DEMONSTRATIONS},
    flags={**VOTE_FLAGS, **pointwise.MISSING, **DROPPED_DEMONSTRATIONS},
    impairs=("missing_votes", *pointwise.MISSING),
    dry_replies={pointwise.REPLY.name: pointwise.dry_reply},
)
