"""Evidence by one question a sentence: Yes or No, read as the log-odds of one token."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from cases.records import Case, Sentence
from nodes.core.ballot import Ballot
from nodes.core.context import Context
from nodes.core.dry_run import DryCall, share_of
from nodes.core.facts import Fact, missing, plain
from nodes.core.fitting import demand_room
from nodes.core.records import Vote
from nodes.core.wording import case_variables, one_line
from nodes.core.yes_no import NO, ONE_TOKEN, YES, ask_yes_or_no, probability, yes_or_no
from nodes.evidence.settings import EvidenceSettings
from prompts import Contract, Prompt
from ranking.cutoffs import select
from serving.protocol.messages import Message

_OF_SENTENCE = frozenset({"sentence_id", "sentence"})
_ESSENTIAL_SHARE = 0.25
"""Assumed share of essential sentences in a dry run."""

CONTRACT = Contract(
    name="label_sentence",
    required=frozenset({"question"}),
    optional=_OF_SENTENCE | {"narrative", "sentences"},
)

REPLY = yes_or_no("sentence")

MISSING = {"missing_sentences": "the model gave no label to some sentences; they count as not essential"}
"""The flag of a note with sentences that could not be weighed."""

FACTS: Mapping[str, Fact] = {"missing_sentences": missing("sentence"), **plain("sentence_calls")}


async def weigh_sentences(context: Context, case: Case, question: str) -> Ballot[float]:
    """Log-odds of every sentence, for which the `label` model is asked at once.

    Raises:
        NodeFailure: As `ask_yes_or_no` does, or the note does not fit the context window.
    """
    variables = case_variables(case, question)
    longest = max(case.sentences, key=lambda sentence: len(sentence.text))
    await demand_room(context.client, "label", _messages(context, variables, longest), ONE_TOKEN)
    asked = {sentence.id: _messages(context, variables, sentence) for sentence in case.sentences}
    return await ask_yes_or_no(context, "label", case.id, asked, REPLY, "sentences with a label")


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


def _messages(context: Context, variables: Mapping[str, str], sentence: Sentence) -> tuple[Message, ...]:
    asked = {"sentence_id": sentence.id, "sentence": one_line(sentence.text)}
    return context.messages(CONTRACT.name, {**variables, **asked})


def prompt_fault(prompt: Prompt, version: str) -> str | None:
    """Fault of a prompt that does not ask for a sentence in its last turn, and there alone."""
    *earlier, last = [
        _OF_SENTENCE.intersection(Template(turn.text).get_identifiers())
        for turn in (*prompt.file.opening, *prompt.file.closing)
    ]
    if used := next((sorted(names) for names in earlier if names), None):
        return (
            f"evidence.reply is 'pointwise', but prompt {prompt.name} of {version!r} uses ${{{used[0]}}}"
            " before its last turn; all sentences of a case must share what comes before"
        )
    if not last:
        return (
            f"evidence.reply is 'pointwise', but the last turn of prompt {prompt.name} of {version!r} names"
            " no sentence; it needs ${sentence} or ${sentence_id}"
        )
    return None


def dry_reply(call: DryCall) -> str:
    """Yes for a quarter of the sentences."""
    return YES if share_of((call.case_id, call.messages[-1].text)) < _ESSENTIAL_SHARE else NO
