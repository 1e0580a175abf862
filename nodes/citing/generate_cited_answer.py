"""An answer from retrieved sentences whose sentences cite the note (heiDS 2025, section 2.4)."""

from __future__ import annotations

import itertools

from langgraph.runtime import Runtime

from nodes.answer.answer_rules import AnswerRules
from nodes.citing.answer_from_retrieved import (
    RetrievedAnswerInput,
    RetrievedAnswerUpdate,
    answer_from_retrieved,
    retrieved_answer_spec,
)
from nodes.citing.citations import attributes
from nodes.core.context import Context
from nodes.core.dry_run import DryCall, made_up_sentences
from serving.protocol.made_up_replies import numbered_ids
from serving.protocol.reply import CITED_TEXT

_CITED_SENTENCES = 2
"""Note sentences for each sentence of a made-up answer; 2.0 on average in the packaged cases."""


async def generate_cited_answer(
    state: RetrievedAnswerInput, runtime: Runtime[Context]
) -> RetrievedAnswerUpdate:
    """Ask for whole sentences with `|id|` behind each."""
    return await answer_from_retrieved("generate_cited_answer", CITED_TEXT, _numbered, state, runtime.context)


def _numbered(id_: str, text: str) -> str:
    return f"{id_}: '{text}'"


def _made_up(call: DryCall) -> str:
    rules = call.recipe.section(AnswerRules)
    ids = numbered_ids([message.text for message in call.messages])
    cited = itertools.cycle(ids)
    return "\n".join(
        f"{sentence} |{', '.join(itertools.islice(cited, _CITED_SENTENCES))}|" if ids else sentence
        for sentence in made_up_sentences(rules.max_words, rules.max_sentences, rules.min_sentences)
    )


GENERATE_CITED_ANSWER = retrieved_answer_spec(generate_cited_answer, CITED_TEXT, _made_up, attributes)
