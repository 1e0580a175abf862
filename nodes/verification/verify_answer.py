"""Is each sentence of the answer stated in the note? One that is not goes back, then is removed or marked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, NotRequired, TypedDict

from langgraph.runtime import Runtime
from pydantic import Field

from cases.records import Case, Sentence
from cases.texts import plural
from nodes.answer.answer_rules import numbered_sentences
from nodes.core.ballot import Ballot
from nodes.core.context import Context, Tool
from nodes.core.facts import Fact, Row, missing, plain, whole, withheld
from nodes.core.fitting import fit_sentences
from nodes.core.json_reply import as_id, choice_schema, ids_schema, object_schema, read_choice
from nodes.core.node import Column, NodeSpec
from nodes.core.recipe import Recipe, RecipeSection
from nodes.core.records import AlignedAnswer, AnswerEvidence, AnswerLine, Decision, decision
from nodes.core.wording import one_line
from nodes.core.written_text import Attempt
from nodes.core.yes_no import ONE_TOKEN, YES, ask_yes_or_no, yes_or_no
from nodes.retrieval.document_records import ChosenSnippet, numbered_snippets
from nodes.verification.negations import repeats_denial
from nodes.verification.support import (
    SUPPORT_WORDS,
    AnswerStatus,
    Finding,
    Signals,
    Support,
    SupportRule,
    finding_words,
    judge,
    quotable_fault,
    without_texts,
)
from nodes.verification.text_checks import check_text, named_drugs, nearest
from prompts import Contract
from ranking.rankers.load import gives_logits
from ranking.rankers.ranker import Ranker, rank_queries
from serving.protocol.messages import Message
from serving.protocol.reply import ReplyFormat, first_json_object
from serving.protocol.request import CallRecord

VERIFIER: Tool[Ranker] = Tool("verifier")
"""A ranker that adds its scores to what the model says of a statement."""

WEIGHED = yes_or_no("statement")
LABELLED = "statement_support"
"""Name of the reply's format of a model without log-probabilities."""

_DECIDING = 2
"""Sentences that are named as those that decide, where the model names none."""


class VerificationSettings(RecipeSection):
    """Whether each sentence of an answer is compared with its record, and the consequence for one that fails.

    `verification: model` is short for `verification: {check: model}`.

    Attributes:
        check: `none`; `rules` for deterministic checks of numbers and negations alone; `model` for these and
            one question a sentence to the `verify` model.
        ranker: Adds a ranker's scores, such as `support`, by the weight of `rule`; None asks no ranker.
        rewrites: How often an answer goes back to the model that wrote it, with the faults quoted.
        on_unsupported: What is done with a sentence that is still unsupported: `remove` takes it out of the
            answer, and a case whose answer has none left ends as not stated; `flag` keeps and marks it.
        rule: From all signals to the support of a sentence.
        max_tokens: Of a label in JSON, for a model without log-probabilities.
    """

    word_for: ClassVar[str | None] = "check"

    check: Literal["none", "rules", "model"] = "none"
    ranker: str | None = None
    rewrites: int = Field(1, ge=0, le=3)
    on_unsupported: Literal["remove", "flag"] = "flag"
    rule: SupportRule = SupportRule()
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(128, ge=16)

    @property
    def unused_prompts(self) -> frozenset[str]:
        return frozenset() if self.check == "model" else frozenset({"verify_statement", "label_statement"})


def verifies(recipe: Recipe) -> bool:
    """Whether a recipe writes answers and verifies them."""
    settings = recipe.find_section(VerificationSettings)
    return recipe.answers and settings is not None and settings.check != "none"


class VerifyAnswerInput(TypedDict):
    """The accepted answer, and everything that may say what it was built on."""

    case_id: str
    patient_question: NotRequired[str]
    answer: str
    draft_answer: NotRequired[str]
    rejected_answers: NotRequired[list[Attempt]]
    answer_evidence: NotRequired[list[str]]
    evidence: NotRequired[dict[AnswerEvidence, list[str]]]
    answer_sentences: NotRequired[list[AnswerLine]]
    alignment: NotRequired[dict[str, list[str]]]
    aligned_answer: NotRequired[AlignedAnswer]
    snippets: NotRequired[list[ChosenSnippet]]


class VerifyAnswerUpdate(TypedDict):
    """What the node owns.

    `answer` is empty if it was sent back, or if none of its sentences is left; `answer_status` is there once
    the answer stays as it is. Lines and links are those of the sentences that are left.
    """

    answer: NotRequired[str]
    answer_sentences: NotRequired[list[AnswerLine]]
    alignment: NotRequired[dict[str, list[str]]]
    rejected_answers: NotRequired[list[Attempt]]
    answer_status: NotRequired[AnswerStatus]
    answer_support: list[Finding]
    decisions: list[Decision]


class Record(NamedTuple):
    """The record that an answer is compared with.

    Attributes:
        note: Every sentence, or every snippet with its number.
        cited: Ids of the sentences that the answer was built on, or cites, in the order of the record.
        links: The same for single sentences of the answer, if the answer cites.
    """

    note: tuple[Sentence, ...]
    cited: list[str]
    links: Mapping[str, Sequence[str]]


def record_of(case: Case, state: VerifyAnswerInput) -> Record:
    """The note with the sentences that the answer rests on, or the snippets."""
    if "snippets" in state:
        snippets = numbered_snippets(state["snippets"])
        return Record(snippets, [one.id for one in snippets], {})
    links: Mapping[str, Sequence[str]] = {}
    if state.get("aligned_answer") == "generated":
        links = state["alignment"]
    named = {id_ for ids in links.values() for id_ in ids}
    if not named:
        evidence = state["evidence"]["threshold"] if "evidence" in state else []
        named = set(state.get("answer_evidence") or evidence)
    return Record(case.sentences, [id_ for id_ in case.sentence_ids if id_ in named], links)


class Label(NamedTuple):
    """A reply of a model without log-probabilities."""

    support: Support
    sentences: list[str]


def label_reply(sentence_ids: Sequence[str]) -> ReplyFormat[Label]:
    """The format `{"support": "not_stated", "sentences": []}` for the ids of a record."""
    fields = {"support": choice_schema(SUPPORT_WORDS), "sentences": ids_schema(sentence_ids)}
    return ReplyFormat(LABELLED, object_schema(fields), partial(parse_label, sentence_ids=sentence_ids))


def parse_label(text: str, sentence_ids: Sequence[str]) -> Label:
    """Read a label; ids that the record does not have are left out, as they decide nothing.

    Raises:
        InvalidReply: No JSON, or another label.
    """
    reply = first_json_object(text)
    named = reply.get("sentences")
    ids = {as_id(item) for item in named} if isinstance(named, list) else set()
    support = read_choice(reply, "support", SUPPORT_WORDS)
    return Label(support, [id_ for id_ in sentence_ids if id_ in ids])


class _Asked(NamedTuple):
    """What the model said of statements: log-odds or labels by id, and what is missing."""

    log_odds: dict[str, float]
    labels: dict[str, Label]
    failed: dict[str, str]
    calls: list[CallRecord]


async def verify_answer(state: VerifyAnswerInput, runtime: Runtime[Context]) -> VerifyAnswerUpdate:
    """Hold each sentence against the cited sentences and the whole record, then accept, send back or mark."""
    context = runtime.context
    settings = context.section(VerificationSettings)
    case = context.cases[state["case_id"]]
    record = record_of(case, state)
    lines = state["answer_sentences"] if record.links else numbered_sentences(state["answer"])
    statements = [
        AnswerLine(id=line["id"], text=text)
        for line, text in zip(lines, named_drugs([line["text"] for line in lines]), strict=True)
    ]
    faults = {
        line["id"]: check_text(line["text"], _cited(record, line["id"]), record.note) for line in statements
    }
    texts = [one.text for one in record.note]
    repeated = {line["id"] for line in statements if repeats_denial(line["text"], texts)}
    ranked = await asyncio.to_thread(_ranked, context.find(VERIFIER), statements, record.note)
    question = state.get("patient_question", case.question)

    def signals(id_: str, cited: _Asked | None, note: _Asked | None) -> Signals:
        labels = [one.labels[id_] for one in (cited, note) if one is not None and id_ in one.labels]
        return Signals(
            faults=faults[id_],
            cited=None if cited is None else cited.log_odds.get(id_),
            note=None if note is None else note.log_odds.get(id_),
            # The record has the last word; a cited sentence suffices.
            label=next((one.support for one in labels if one.support == "supported"), None)
            or (labels[-1].support if labels else None),
            ranker=ranked.get(id_),
            missing=any(id_ in one.failed for one in (cited, note) if one is not None),
            repeated=id_ in repeated,
        )

    first = second = None
    if settings.check == "model" and record.note:
        if record.cited:
            first = await _ask(context, case, question, state["answer"], statements, record, record.cited)
        open_ = [
            line
            for line in statements
            if judge(signals(line["id"], first, None), settings.rule)[0] != "supported" or first is None
        ]
        ids = [one.id for one in record.note]
        if open_ and record.cited != ids:
            second = await _ask(context, case, question, state["answer"], open_, record, ids)
    asked = [one for one in (first, second) if one is not None]
    findings = [
        _finding(line, signals(line["id"], first, second), settings.rule, record, asked) for line in lines
    ]
    return _update(state, settings, lines, findings, asked)


def _cited(record: Record, id_: str) -> list[Sentence]:
    ids = set(record.links.get(id_, record.cited))
    return [one for one in record.note if one.id in ids]


def _ranked(ranker: Ranker | None, lines: Sequence[AnswerLine], note: Sequence[Sentence]) -> dict[str, float]:
    """The highest log-odds of each line over the record; nothing from a ranker without log-odds."""
    if ranker is None or not lines or not note or not gives_logits(ranker.identity):
        return {}
    rankings = rank_queries(ranker, [line["text"] for line in lines], [one.text for one in note])
    return {line["id"]: float(max(one.scores)) for line, one in zip(lines, rankings, strict=True)}


async def _ask(
    context: Context,
    case: Case,
    question: str,
    answer: str,
    lines: Sequence[AnswerLine],
    record: Record,
    ids: Sequence[str],
) -> _Asked:
    """One question a line on a part of the record; of one that does not fit, the sentences most alike."""
    settings = context.section(VerificationSettings)
    weighs = context.client.backends["verify"].weighs_choices
    prompt = "verify_statement" if weighs else "label_statement"
    texts = {one.id: one_line(one.text) for one in record.note}

    def render(shown: Sequence[str], statement: str) -> tuple[Message, ...]:
        chosen = set(shown)
        sentences = "\n".join(f"{id_}: {texts[id_]}" for id_ in ids if id_ in chosen)
        return context.messages(
            prompt,
            {"question": one_line(question), "record": sentences, "statement": one_line(statement)},
        )

    longest = max((line["text"] for line in lines), key=len)
    alike = nearest(answer, [one for one in record.note if one.id in set(ids)], len(ids))
    fitted = await fit_sentences(
        context.client,
        "verify",
        [*alike, *(id_ for id_ in ids if id_ not in set(alike))],
        lambda shown: render(shown, longest),
        reply_tokens=ONE_TOKEN if weighs else settings.max_tokens,
        later_tokens=0,
        what="sentence of its record",
    )
    questions = {line["id"]: render(fitted.shown, line["text"]) for line in lines}
    if weighs:
        ballot = await ask_yes_or_no(
            context, "verify", case.id, questions, WEIGHED, "sentences of the answer with a reply", at_least=0
        )
        log_odds = {id_: reply.value for id_, reply in ballot.replies.items()}
        return _Asked(log_odds, {}, ballot.failed, ballot.calls)
    shown = [id_ for id_ in ids if id_ in set(fitted.shown)]
    reply = label_reply(shown)
    labelled = await Ballot.gathered(
        {id_: context.ask("verify", case.id, one, reply, settings) for id_, one in questions.items()}
    )
    labelled.demand_final()
    labels = {id_: reply.value for id_, reply in labelled.replies.items()}
    return _Asked({}, labels, labelled.failed, labelled.calls)


def _finding(
    line: AnswerLine, signals: Signals, rule: SupportRule, record: Record, asked: Sequence[_Asked]
) -> Finding:
    support, share = judge(signals, rule)
    deciding = {id_ for fault in signals.faults for id_ in fault["sentence_ids"]}
    for one in asked:
        if line["id"] in one.labels:
            deciding.update(one.labels[line["id"]].sentences)
    if not deciding:
        cited = _cited(record, line["id"]) if support == "supported" else []
        deciding.update(nearest(line["text"], cited or record.note, _DECIDING))
    return Finding(
        id=line["id"],
        text=line["text"],
        support=support,
        sentence_ids=[one.id for one in record.note if one.id in deciding],
        probability=share,
        faults=list(signals.faults),
    )


def _update(
    state: VerifyAnswerInput,
    settings: VerificationSettings,
    lines: Sequence[AnswerLine],
    findings: list[Finding],
    asked: Sequence[_Asked],
) -> VerifyAnswerUpdate:
    """What follows from the findings."""
    bad = [one for one in findings if one["support"] != "supported"]
    rewritten = sum(one.get("unsupported", False) for one in state.get("rejected_answers", ()))
    left = [one for one in findings if one["support"] == "supported"]
    update = VerifyAnswerUpdate(answer_support=findings, decisions=[])
    flags: list[str] = []
    if not bad:
        verdict, because = "accepted", f"{plural(len(findings), 'sentence')} of the answer supported"
        update["answer_status"] = "answered"
    elif rewritten < settings.rewrites:
        verdict, because = "sent_back", f"sent back: {'; '.join(map(quotable_fault, bad))}"
        update["answer"] = ""
        text = state.get("draft_answer") or state["answer"]
        faults = [quotable_fault(one) for one in bad]
        update["rejected_answers"] = [Attempt(text=text, faults=faults, unsupported=True)]
    elif settings.on_unsupported == "flag":
        verdict, because = "flagged", f"{len(bad)} of {plural(len(findings), 'sentence')} not supported"
        update["answer_status"] = "unsupported"
        flags.append("unsupported_answer")
    else:
        verdict = "removed" if left else "not_stated"
        because = f"{len(bad)} of {plural(len(findings), 'sentence')} not supported, and removed"
        update["answer_status"] = "answered" if left else "not_stated"
        update["answer"] = " ".join(one["text"] for one in left)
        update["answer_support"] = left
        flags.append("removed_sentences")
        if state.get("aligned_answer") == "generated":
            ids = {one["id"] for one in left}
            update["answer_sentences"] = [line for line in lines if line["id"] in ids]
            update["alignment"] = {id_: cited for id_, cited in state["alignment"].items() if id_ in ids}
    failed = {id_: fault for one in asked for id_, fault in one.failed.items()}
    if failed:
        flags.append("unverified_sentences")
    update["decisions"] = decision(
        "verify_answer",
        because,
        {"verdict": verdict, "findings": findings, "missing_replies": failed},
        [call for one in asked for call in one.calls],
        flags=flags,
    )
    return update


def _rows(findings: Sequence[Finding], _: Mapping[str, Any]) -> list[Row]:
    return [
        (f"answer sentence {one['id']}", ": ".join(filter(None, (finding_words(one), one.get("text")))))
        for one in findings
    ]


VERIFY_ANSWER = NodeSpec(
    run=verify_answer,
    sections=(VerificationSettings,),
    tools=(VERIFIER,),
    prompts=tuple(
        Contract(name=name, required=frozenset({"record", "statement"}), optional=frozenset({"question"}))
        for name in ("verify_statement", "label_statement")
    ),
    results={
        "answer": withheld,
        "answer_status": whole,
        "answer_support": without_texts,
    },
    columns={"answer": Column(lambda line: line.get("answer_status") or "", counted=True)},
    facts={
        "findings": Fact(keep=without_texts, rows=_rows),
        "missing_replies": missing("answer sentence"),
        **plain("verdict"),
    },
    flags={
        "unsupported_answer": "a sentence of the answer is not supported by the note, and is marked",
        "removed_sentences": "sentences of the answer that the note does not support were removed",
        "unverified_sentences": "the model did not judge some sentences of the answer",
    },
    impairs=("unverified_sentences",),
    kind="EVALUATOR",
    is_off=lambda recipe: not verifies(recipe),
    dry_replies={
        WEIGHED.name: lambda _: YES,
        LABELLED: lambda _: '{"support": "supported", "sentences": []}',
    },
)
