"""Evidence by one question a sentence: Yes or No, read as the log-odds of one token.

All sentences of a note share the conversation up to the sentence in its last turn, byte for byte, so a prefix
cache serves them; nothing is decoded beyond the first token and nothing is drawn. Pointwise relevance
from the probability of one word is that of Nogueira et al. (2020, section 3) and Sachan et al. (2022).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from string import Template

from cases.records import Case, Sentence
from cases.texts import plural
from nodes.core.ballot import Ballot
from nodes.core.choice_confidence import choice_log_odds
from nodes.core.context import Context
from nodes.core.dry_run import DryCall, share_of
from nodes.core.facts import Fact, missing, plain
from nodes.core.failure import NodeFailure
from nodes.core.fitting import fit_prompt
from nodes.core.records import Vote
from nodes.core.wording import case_variables, one_line
from nodes.evidence.settings import EvidenceSettings
from prompts import Contract, Prompt
from ranking.cutoffs import select
from serving.protocol.errors import CallError
from serving.protocol.messages import Message
from serving.protocol.reply import ReplyFormat
from serving.protocol.request import Failure, Reply, Request

YES, NO = "Yes", "No"

_OF_SENTENCE = frozenset({"sentence_id", "sentence"})
_ONE_TOKEN = 1
_DIGITS = 4
_ESSENTIAL_SHARE = 0.25
"""Of the sentences of a note, in a dry run."""

CONTRACT = Contract(
    name="label_sentence",
    required=frozenset({"question"}),
    optional=_OF_SENTENCE | {"narrative", "sentences"},
)

REPLY: ReplyFormat[str] = ReplyFormat("sentence", None, str, may_be_cut=True, choices=(YES, NO))
"""The text says less than the probabilities, so any will do."""

MISSING = {"missing_sentences": "the model gave no label to some sentences; they count as not essential"}
"""The flag of a note with sentences that could not be weighed."""

FACTS: Mapping[str, Fact] = {"missing_sentences": missing("sentence"), **plain("sentence_calls")}


async def weigh_sentences(context: Context, case: Case, question: str) -> Ballot[float]:
    """Log-odds of every sentence, for which the `label` model is asked at once.

    A sentence is missing where the model refuses, or where neither word is among the tokens that it says:
    asking again would not help. Any other failure is the case's own, because sentences without a label would
    look like sentences that were found not essential; a retry asks only for those that have no reply.

    Raises:
        NodeFailure: A call failed for another reason, the note does not fit the context window, or no
            sentence has a label.
    """
    variables = case_variables(case, question)
    longest = max(case.sentences, key=lambda sentence: len(sentence.text))
    await fit_prompt(
        context.client,
        "label",
        (),
        lambda _: (_messages(context, variables, longest), []),
        reply_tokens=_ONE_TOKEN,
    )
    outcomes = await asyncio.gather(
        *(_ask(context, case, _messages(context, variables, sentence)) for sentence in case.sentences)
    )
    ballot = Ballot(dict(zip(case.sentence_ids, map(_weighed, outcomes), strict=True)))
    errors = [one.error for one in ballot.failures.values()]
    fatal = [one for one in errors if one.error_class not in ("refusal", "invalid_output")]
    if fatal or not ballot.replies:
        error = (fatal or errors)[0]
        counted = f"{len(ballot.replies)} of {plural(len(case.sentences), 'sentence')}"
        raise NodeFailure(error.error_class, f"{counted} with a label: {error}", ballot.calls)
    return ballot


def vote_of(ballot: Ballot[float], settings: EvidenceSettings) -> Vote:
    """The vote that the recipe's rule makes of the log-odds of sentences."""
    log_odds = {id_: reply.value for id_, reply in ballot.replies.items()}
    ids = list(log_odds)
    chosen = select(settings.model_rule, list(log_odds.values()))
    return Vote(
        vote=0,
        essential=[ids[position] for position in chosen],
        confidence={id_: probability(score) for id_, score in log_odds.items()},
        log_odds=log_odds,
    )


def probability(log_odds: float) -> float:
    """P(Yes) to eight digits, so that sentences tie no more often than their log-odds do."""
    return float(f"{1 / (1 + math.exp(-log_odds)):.8g}")


async def _ask(context: Context, case: Case, messages: tuple[Message, ...]) -> Reply[str] | Failure:
    (outcome,) = await context.client.ask(
        Request("label", case.id, messages, REPLY, max_tokens=_ONE_TOKEN, seed=context.settings.seed)
    )
    return outcome


def _messages(context: Context, variables: Mapping[str, str], sentence: Sentence) -> tuple[Message, ...]:
    asked = {"sentence_id": sentence.id, "sentence": one_line(sentence.text)}
    return context.messages(CONTRACT.name, {**variables, **asked})


def _weighed(outcome: Reply[str] | Failure) -> Reply[float] | Failure:
    if isinstance(outcome, Failure):
        return outcome
    token = next((token for token in outcome.logprobs if token.token.strip()), None)
    found = None if token is None else choice_log_odds(token, YES, NO)
    if found is not None:
        return Reply(round(found, _DIGITS) + 0.0, outcome.text, outcome.calls)
    fault = (
        "the reply came without log-probabilities"
        if token is None
        else f"neither {YES} nor {NO} is among the likeliest tokens"
    )
    return Failure(CallError("invalid_output", fault), outcome.calls)


def prompt_fault(prompt: Prompt, version: str) -> str | None:
    """What is wrong with a prompt that does not ask for a sentence in its last turn, and there alone."""
    *earlier, last = [*prompt.file.opening, *prompt.file.closing]
    for turn in earlier:
        if named := sorted(_OF_SENTENCE.intersection(Template(turn.text).get_identifiers())):
            return (
                f"evidence.reply is 'pointwise', but prompt {prompt.name} of {version!r} uses ${{{named[0]}}}"
                " before its last turn; all sentences of a note must share what comes before"
            )
    if not _OF_SENTENCE.intersection(Template(last.text).get_identifiers()):
        return (
            f"evidence.reply is 'pointwise', but the last turn of prompt {prompt.name} of {version!r} names"
            " no sentence; it needs ${sentence} or ${sentence_id}"
        )
    return None


def dry_reply(call: DryCall) -> str:
    """Yes for a quarter of the sentences."""
    return YES if share_of((call.case_id, call.messages[-1].text)) < _ESSENTIAL_SHARE else NO
