"""The page of a case, what every node decided on it, and the page of one of its calls."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from cases.records import Case
from runs import Run, RunError
from runs.reviews import Reviews
from runs.trace_file import Line
from serving.journal import JournalError
from serving.messages import Message
from viewer.addresses import Addresses
from viewer.case_parts.answers import read_answers
from viewer.case_parts.ballots import read_ballots, read_threshold
from viewer.case_parts.demonstrations import read_demonstrations
from viewer.case_parts.drafts import Draft, read_drafts
from viewer.case_parts.forks import NameOf, forks_of, origin_of
from viewer.case_parts.graph_drawing import draw_graph
from viewer.case_parts.narrative import mark_phrases
from viewer.case_parts.note import read_note
from viewer.case_parts.question import read_question
from viewer.case_parts.review import CHOICES, Visit, read_review
from viewer.case_parts.route import read_route
from viewer.case_parts.timeline import executions, read_call, read_steps, total_seconds
from viewer.case_parts.verdict import read_verdict
from viewer.flags import explain
from viewer.rendering import render

# What lines of older runs may lack.
_UNKNOWN: Line = dict.fromkeys(
    ("interpreted_question", "intent", "usable_votes", "evidence", "label_source", "answer", "retrieved")
)


@dataclass(frozen=True, slots=True)
class ShownDraft:
    """A rejected draft with its text, where the journal has it."""

    draft: Draft
    text: str | None
    address: str | None


def case_page(
    run: Run,
    name: str,
    case_id: str,
    addresses: Addresses,
    reviews: Reviews | None = None,
    visit: Visit | None = None,
    name_of: NameOf = lambda _: None,
) -> str:
    """The page of a case as HTML.

    Args:
        run: Where the case has ended.
        name: Of the run, as its addresses have it.
        case_id: Of the case.
        addresses: Where links lead.
        reviews: Of this run, where they have been read.
        visit: How the page is asked for, where that is more than to read it.
        name_of: Names of the other runs that are shown, for forks.

    Raises:
        RunError: The case has not ended in this run, or a file of the run is damaged.
    """
    line = _UNKNOWN | run.line(case_id)
    trace = run.trace(case_id)
    case = run.case(case_id)
    steps = executions(trace)
    known = {call["key"] for step in steps for call in step["calls"]}
    links = {key: addresses.call(name, case_id, key) for key in known}
    ids = case.sentence_ids if case else tuple(line["labels"])
    answers = read_answers(line, case, {id_: index for index, id_ in enumerate(ids)})
    ballots = read_ballots(steps)
    graph = run.manifest.graph
    route = read_route(steps, graph)
    before, after = run.neighbours(case_id)
    history = (reviews or Reviews(run.path)).history(case_id)
    return render(
        "case.html",
        addresses=addresses,
        name=name,
        case_id=case_id,
        line=line,
        case=case,
        texts_fault=run.texts_fault if case else run.texts_fault or "no readable case file has this id",
        textless=case is not None and run.texts_fault is not None,
        flags=explain(line["flags"]),
        seconds=total_seconds(trace),
        before=before and addresses.case(name, before),
        after=after and addresses.case(name, after),
        message=mark_phrases(case.narrative, case.phrases) if case else None,
        adopted=_adopted(steps, case),
        note=read_note(line, case, ballots, answers, links.get),
        threshold=read_threshold(steps),
        ballots=ballots,
        answers=answers,
        verify=addresses.verify(name, case_id) if line["answer"] and case and case.sentences else None,
        verdict=read_verdict(line, case),
        asked=read_question(line, case, steps),
        drafts=[_shown(draft, run, links) for draft in read_drafts(steps)],
        demonstrations=read_demonstrations(steps),
        route=route,
        drawing=draw_graph(graph, route) if graph and steps else None,
        steps=read_steps(trace, links.get),
        forks=forks_of(run.folder, name, case_id, name_of, addresses),
        origin=origin_of(run.folder, name, name_of, addresses),
        review=read_review(line, history, addresses.review(name, case_id), visit or Visit()),
        choices=CHOICES,
        places={id_: place for place, id_ in enumerate(ids)},
        goes_on_with=None
        if run.manifest.status == "running"
        else f"evigraph resume {shlex.quote(str(run.path))}",
    )


def call_page(run: Run, name: str, case_id: str, key: str, addresses: Addresses) -> str:
    """Prompt and reply of a call as HTML.

    Args:
        run: Where the case has ended.
        name: Of the run, as its addresses have it.
        case_id: Of the case.
        key: Of the call, as the trace has it.
        addresses: Where links lead.

    Raises:
        RunError: The case has not ended in this run, or it has no such call.
    """
    run.line(case_id)
    found = [
        (index, step["node"], call)
        for index, step in enumerate(executions(run.trace(case_id)))
        for call in step["calls"]
        if call["key"] == key
    ]
    if not found:
        raise RunError(f"{run.path}: case {case_id!r} has no call {key!r}; see its time line")
    index, node, call = found[0]
    messages, fault = _conversation(run, key)
    return render(
        "call.html",
        addresses=addresses,
        name=name,
        case_id=case_id,
        index=index,
        node=node,
        call=read_call(call, None),
        messages=messages,
        fault=fault,
    )


def _conversation(run: Run, key: str) -> tuple[list[Message], str]:
    try:
        return run.conversation(key), ""
    except KeyError:
        return [], "The call journal has no such call: the case was asked anew, or the journal was replaced."
    except JournalError as error:
        return [], f"The call journal cannot be read: {error}"


def _shown(draft: Draft, run: Run, links: dict[str, str | None]) -> ShownDraft:
    address = None if draft.key is None else links[draft.key]
    # Without an address prompts and replies are left out of the pages.
    if draft.key is None or address is None:
        return ShownDraft(draft, None, None)
    messages, _ = _conversation(run, draft.key)
    return ShownDraft(draft, messages[-1].text if messages else None, address)


def _adopted(steps: list[Line], case: Case | None) -> str | None:
    """What was asked in the place of a missing clinician question, in words; None where nothing was."""
    for step in steps:
        if step["node"] == "adopt_patient_question":
            phrases = step["facts"].get("found_in") == "focus phrases" and case is not None
            if phrases and case is not None:
                return " ".join(" ".join(phrase.text.split()) for phrase in case.phrases)
            because: str = step["because"]
            return because
    return None
