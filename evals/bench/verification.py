"""How well statements without support, and questions without an answer, are recognised.

Three sets: sentences of the packaged clinicians' answers against wrong versions of them that rules make;
claims of SciFact against the sentences that support or contradict them, and against abstracts on something
else; and the questions of the packaged `batch.xml` against each other's notes. Rules and thresholds are
chosen on one half of the cases and claims and reported on the other. The model replies with one token, whose
log-odds are its signal, or with a label in JSON. Replies are kept in `--out`, so that a second run asks
nothing twice.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import aclosing, closing, nullcontext
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from cases.load import packaged_cases
from cases.records import Case
from cases.texts import plural
from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import scratch_folder
from evals.bench.workload import repeated_cases
from evals.statements.measures import Separation, balanced, fit_weights, separation, threshold
from evals.statements.sets import (
    RIGHT,
    UNRELATED,
    Item,
    SetName,
    first_half,
    invented_statements,
    scifact_statements,
    unanswerable_questions,
)
from nodes.core.choice_confidence import choice_log_odds
from nodes.core.wording import one_line
from nodes.core.yes_no import NO, ONE_TOKEN, YES
from nodes.question.judge_answerability import (
    JUDGE_ANSWERABILITY,
    NEUTRAL_RECORD,
    STATED,
    AnswerabilitySettings,
    Answerable,
    answerability_reply,
)
from nodes.verification.support import Support
from nodes.verification.text_checks import check_text
from nodes.verification.verify_answer import VERIFY_ANSWER, WEIGHED, VerificationSettings, label_reply
from prompts import PromptSet
from prompts.loader import load_prompts
from ranking.rankers.load import load_ranker
from ranking.rankers.ranker import Ranker, rank_queries
from runs.record.folder import CALLS
from serving.backends import connect
from serving.journal.journal import Journal
from serving.protocol.limits import Limits
from serving.protocol.messages import Message
from serving.protocol.model_name import parse_model_name
from serving.protocol.reply import ReplyFormat
from serving.protocol.request import Reply, Request
from serving.requests.client import ModelClient

T = TypeVar("T")

_CONTRAST = 0.75
"""Of recipe `laptop`: the share of the log-odds for a neutral record that is taken off."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured.

    Attributes:
        data: SciFact's folder, with claims and abstracts; without it that set is left out.
        out: Folder that keeps the replies.
        cases: Packaged cases whose answers are used, and claims that are drawn from SciFact.
        prompts: Version whose questions are asked.
        ranker: Whose scores are a signal.
        reply: `token` for Yes or No by log-probability, `json` for a label.
    """

    model: str
    data: str | None = None
    out: str | None = None
    cases: int = 40
    claims: int = 200
    prompts: str = "laptop"
    ranker: str = "support"
    reply: str = "token"


TINY = {"cases": 2, "claims": 4}

_SIGNALS = ("model", "ranker", "unstated", "contradicting")
"""The columns of the rule, as in `SupportRule`: log-odds of both, and numbers of faults, negative."""

_SUPPORT_SIGNALS: Mapping[Support, float] = {"supported": 1.0, "not_stated": 0.0, "contradicted": -1.0}
_ANSWERABLE_SIGNALS: Mapping[Answerable, float] = {"yes": 1.0, "partly": 0.0, "no": -1.0}
"""Labels in place of log-odds; statements with the same label tie."""


def measure(options: Options, report: Report) -> Result:
    """Ask the model about every statement and question that `--out` does not know yet.

    Raises:
        BenchError: The model failed, or does not return the log-probabilities that were requested.
        InputError: SciFact cannot be read.
    """
    if options.reply not in _SIGNAL_OF:
        raise BenchError(f"no reply {options.reply!r}; there are {', '.join(_SIGNAL_OF)}")
    ranker = load_ranker(options.ranker)
    items = _items(options, ranker)
    report(f"{plural(len(items), 'statement')} and questions")
    with scratch_folder() if options.out is None else nullcontext(Path(options.out)) as folder:
        folder.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(_ask(items, options, folder / CALLS, report))
    return result(items, found, ranker)


def _items(options: Options, ranker: Ranker) -> list[Item]:
    def nearest(text: str, sentences: Sequence[str]) -> list[int]:
        return [int(place) for place in np.argsort(-np.asarray(ranker.rank(text, sentences).scores))]

    cases = repeated_cases(options.cases)
    batch = [case for case in packaged_cases("batch.xml") if isinstance(case, Case)]
    items = [*invented_statements(cases), *unanswerable_questions(batch[: options.cases])]
    if options.data is not None:
        items += scifact_statements(Path(options.data), options.claims, nearest)
    # Of most use first, if the run is interrupted.
    return sorted(items, key=lambda one: one.set == "scifact" and one.kind == UNRELATED)


async def _ask(items: Sequence[Item], options: Options, journal: Path, report: Report) -> list[float]:
    """The model's signal for each; questions on one record together, so that it is read once."""
    contracts = (*VERIFY_ANSWER.prompts, *JUDGE_ANSWERABILITY.prompts)
    prompts = load_prompts(options.prompts, contracts)
    backend = connect(parse_model_name(options.model))
    if options.reply == "token" and not backend.weighs_choices:
        raise BenchError(f"{options.model} returns no log-probabilities; measure labels: --reply json")
    signal = _SIGNAL_OF[options.reply]
    found: list[float] = []
    with closing(Journal(journal)) as calls:
        async with aclosing(ModelClient({"verify": backend}, calls, Limits())) as client:
            for (name, _), same in groupby(items, lambda one: (one.set, one.cited or one.note)):
                found += await asyncio.gather(*(signal(client, prompts, one) for one in same))
                report(f"{len(found)} of {len(items)}: {name}")
    return found


async def _log_odds(client: ModelClient, prompts: PromptSet, item: Item) -> float:
    """Of Yes."""

    async def weigh(name: str, form: ReplyFormat[str], record: str) -> float:
        reply = await _reply(client, prompts, item, name, form, record, ONE_TOKEN)
        token = next((token for token in reply.logprobs if token.token.strip()), None)
        found = None if token is None else choice_log_odds(token, YES, NO)
        if found is None:
            raise BenchError(f"{item.set} {item.group}: neither {YES} nor {NO} is among the likeliest tokens")
        return found

    if item.set != "unanswerable":
        return await weigh("verify_statement", WEIGHED, _record(item))
    stated = await weigh("answer_stated", STATED, _record(item))
    return stated - _CONTRAST * await weigh("answer_stated", STATED, NEUTRAL_RECORD)


class _UnusableReply(BenchError):
    """The model replied, but with no label."""


async def _label(client: ModelClient, prompts: PromptSet, item: Item) -> float:
    """Of a label in JSON; NaN if there is none."""
    record, ids = _record(item), [one.id for one in item.cited or item.note]
    try:
        if item.set != "unanswerable":
            limit = VerificationSettings().max_tokens
            form = label_reply(ids)
            label = await _reply(client, prompts, item, "label_statement", form, record, limit)
            return _SUPPORT_SIGNALS[label.value.support]
        limit, answer = AnswerabilitySettings().max_tokens, answerability_reply(ids)
        found = await _reply(client, prompts, item, "judge_answerability", answer, record, limit)
        return _ANSWERABLE_SIGNALS[found.value.answerable]
    except _UnusableReply:
        return math.nan


_SIGNAL_OF = {"token": _log_odds, "json": _label}


def _record(item: Item) -> str:
    return "\n".join(f"{one.id}: {one_line(one.text)}" for one in item.cited or item.note)


async def _reply(
    client: ModelClient,
    prompts: PromptSet,
    item: Item,
    name: str,
    form: ReplyFormat[T],
    record: str,
    max_tokens: int,
) -> Reply[T]:
    text = one_line(item.text)
    if item.set == "unanswerable":
        variables = {"question": text, "sentences": record}
    else:
        variables = {"question": "", "record": record, "statement": text}
    turns = prompts[name].render({"narrative": "", **variables})
    messages = tuple(Message(role, its) for role, its in turns)
    (outcome,) = await client.ask(Request("verify", item.group, messages, form, max_tokens=max_tokens))
    if not isinstance(outcome, Reply):
        kind = _UnusableReply if outcome.error.error_class == "invalid_output" else BenchError
        raise kind(f"{item.set} {item.group}: {outcome.error}")
    return outcome


def result(items: Sequence[Item], replies: Sequence[float], ranker: Ranker) -> Result:
    """Compare the signals, alone and added up. A reply without a label ties with those in the middle."""
    ranked = _ranked(items, ranker)
    usable = np.nan_to_num(np.array(replies)).tolist()
    table = np.array(
        [(model, best, *_faults(one)) for one, model, best in zip(items, usable, ranked, strict=True)]
    )
    first = {name: first_half(one for one in items if one.set == name) for name in {one.set for one in items}}
    chosen_on = [one.group in first[one.set] for one in items]
    statements = [one.set != "unanswerable" for one in items]
    fitted = [place for place, one in enumerate(items) if statements[place] and chosen_on[place]]
    weights, intercept = fit_weights(
        table[fitted],
        [items[place].is_right for place in fitted],
        balanced([(items[place].set, items[place].is_right) for place in fitted]),
    )
    combined = np.where(statements, table @ weights + intercept, table[:, 0])
    scores = {
        "model": table[:, 0],
        "ranker": table[:, 1],
        "text checks": table[:, 2] + table[:, 3],
        "combined": combined,
    }
    rows: list[tuple[str, ...]] = [("set", "signal", "AUC", "right ones marked", "caught", "AUC by kind")]
    found: dict[SetName, dict[str, Separation]] = {}
    for name in dict.fromkeys(one.set for one in items):
        places = [place for place, one in enumerate(items) if one.set == name]
        for signal, values in scores.items():
            if name == "unanswerable" and signal in ("text checks", "combined"):
                continue
            one = separation(
                [items[place].kind for place in places],
                [float(values[place]) for place in places],
                [chosen_on[place] for place in places],
                RIGHT,
            )
            found.setdefault(name, {})[signal] = one
            rows.append((name, signal, *_cells(one)))
    least = {
        "statement": _least(items, combined, chosen_on, "invented"),
        "question": _least(items, table[:, 0], chosen_on, "unanswerable"),
    }
    rule = dict(zip(_SIGNALS, (round(float(one), 4) for one in weights), strict=True))
    return Result(
        "verification",
        Part("AUC of all signals, invented statements", "", (found["invented"]["combined"].auc,)),
        Part("AUC of the model alone", "", (found["invented"]["model"].auc,)),
        details={
            "statements": len(items),
            "unusable_replies": int(np.isnan(np.array(replies)).sum()),
            "rule": {**rule, "intercept": round(intercept, 4)},
            "least": {name: round(float(1 / (1 + np.exp(-value))), 4) for name, value in least.items()},
            "sets": {
                name: {signal: _as_json(one) for signal, one in its.items()} for name, its in found.items()
            },
        },
        rows=tuple(rows),
    )


def _ranked(items: Sequence[Item], ranker: Ranker) -> list[float]:
    """The highest score over the record of each; statements on one record together."""
    found: list[float] = []
    for record, same in groupby(items, lambda one: one.cited or one.note):
        rankings = rank_queries(ranker, [one.text for one in same], [one.text for one in record])
        found += [float(max(ranked.scores)) for ranked in rankings]
    return found


def _faults(item: Item) -> tuple[float, float]:
    """Faults that are merely not stated, and contradictions, as numbers that grow with support."""
    if item.set == "unanswerable":
        return 0.0, 0.0
    faults = check_text(item.text, item.cited, item.note)
    contradicting = sum(fault["contradicts"] for fault in faults)
    return float(contradicting - len(faults)), float(-contradicting)


def _least(items: Sequence[Item], scores: Any, chosen_on: Sequence[bool], name: SetName) -> float:
    rows = zip(items, scores, chosen_on, strict=True)
    right = [float(score) for one, score, first in rows if first and one.set == name and one.is_right]
    return threshold(right)


def _cells(one: Separation) -> tuple[str, ...]:
    caught = ", ".join(f"{kind} {share:.0%}" for kind, share in one.caught.items())
    by_kind = ", ".join(f"{kind} {value:.2f}" for kind, value in one.auc_of.items())
    return f"{one.auc:.3f}", f"{one.marked:.0%}", caught, by_kind


def _as_json(one: Separation) -> Mapping[str, Any]:
    def rounded(values: Mapping[str, float]) -> dict[str, float]:
        return {kind: round(value, 4) for kind, value in values.items()}

    return {
        "auc": round(one.auc, 4),
        "auc_by_kind": rounded(one.auc_of),
        "right_marked": round(one.marked, 4),
        "caught": rounded(one.caught),
    }
