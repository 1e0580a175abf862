"""An answer that cites the retrieved sentences that it was shown (heiDS 2025, section 2.4)."""

from __future__ import annotations

import itertools

from langgraph.runtime import Runtime

from nodes.answer.answer_conversation import (
    RETRIEVED_ANSWER_FACTS,
    RETRIEVED_ANSWER_FLAGS,
    RetrievedAnswerInput,
    RetrievedAnswerUpdate,
    answer_from_retrieved,
)
from nodes.answer.answer_rules import AnswerRules, all_faults
from nodes.answer.citations import CitationSettings, attributes
from nodes.core.context import Context
from nodes.core.dry_run import CorrectedReply, DryCall, made_up_sentences
from nodes.core.facts import whole
from nodes.core.node import NodeSpec
from nodes.core.wording import CASE_VARIABLES
from prompts import Contract
from serving.made_up_replies import numbered_ids
from serving.reply import CITED_TEXT

CITED_ANSWER_REPLY = CITED_TEXT
"""Name of the reply's format."""


async def generate_cited_answer(
    state: RetrievedAnswerInput, runtime: Runtime[Context]
) -> RetrievedAnswerUpdate:
    """Ask for whole sentences with `|id|` behind each."""
    return await answer_from_retrieved(
        "generate_cited_answer", CITED_ANSWER_REPLY, _numbered, state, runtime.context
    )


def _numbered(id_: str, text: str) -> str:
    return f"{id_}: '{text}'"


_CITED_SENTENCES = 2
"""Note sentences for each sentence of a made-up answer; 2.0 on average in the packaged cases."""


def _made_up(call: DryCall) -> str:
    rules = call.recipe.section(AnswerRules)
    ids = numbered_ids([message.text for message in call.messages])
    cited = itertools.cycle(ids)
    return "\n".join(
        f"{sentence} |{', '.join(itertools.islice(cited, _CITED_SENTENCES))}|" if ids else sentence
        for sentence in made_up_sentences(rules.max_words, rules.max_sentences, rules.min_sentences)
    )


GENERATE_CITED_ANSWER = NodeSpec(
    run=generate_cited_answer,
    sections=(AnswerRules, CitationSettings),
    prompts=(
        Contract(
            name="generate_cited_answer",
            required=CASE_VARIABLES,
            optional=frozenset({"max_words"}),
            correction=True,
        ),
    ),
    results={"answer_evidence": whole},
    facts=RETRIEVED_ANSWER_FACTS,
    flags=RETRIEVED_ANSWER_FLAGS,
    dry_replies={CITED_ANSWER_REPLY: _made_up},
    corrected=CorrectedReply(
        CITED_ANSWER_REPLY,
        "generate_cited_answer",
        lambda recipe: recipe.section(AnswerRules),
        lambda recipe: all_faults(recipe.section(AnswerRules)),
    ),
    is_off=lambda recipe: not recipe.answers or attributes(recipe),
)
