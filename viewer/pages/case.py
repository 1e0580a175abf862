"""The page of a case, what every node decided on it, and the page of one of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases.records import Case
from cases.texts import quoted
from graph.system import find_system
from nodes.verification.support import finding_words
from runs import Run, RunError
from runs.fork.forks import forks
from runs.record.folder import RunFolder
from runs.record.manifest import WAITING, ForkedFrom
from runs.record.trace_file import Line
from runs.review.reviewers import Standing
from serving.journal.journal import JournalError
from serving.protocol.messages import Message
from viewer.addresses import Addresses
from viewer.case_parts.answers import read_answers
from viewer.case_parts.ballots import read_ballots, read_rule, read_threshold
from viewer.case_parts.demonstrations import read_demonstrations
from viewer.case_parts.graph import draw_graph
from viewer.case_parts.note import mark_phrases, read_note
from viewer.case_parts.question import read_question
from viewer.case_parts.review import CHOICES, Visit, read_review
from viewer.case_parts.timeline import executions, explain, read_call, read_route, read_steps, total_seconds
from viewer.case_parts.verdict import read_verdict
from viewer.rendering import render

# Results that every page reads; the lines of a system only have its own.
_NO_RESULTS: Line = dict.fromkeys(
    ("interpreted_question", "intent", "usable_votes", "evidence", "label_source", "answer", "retrieved")
)

_NOT_REVIEWED = Standing((), ())

NameOf = Callable[[Path], str | None]
"""The name under which a run folder is shown; None if it is not shown."""


def case_page(
    run: Run,
    name: str,
    case_id: str,
    addresses: Addresses,
    standing: Standing = _NOT_REVIEWED,
    visit: Visit | None = None,
    name_of: NameOf = lambda _: None,
) -> str:
    """The page of a case as HTML.

    Raises:
        RunError: The case has not ended in this run, or a file of the run is damaged.
    """
    return render("case.html", **case_values(run, name, case_id, addresses, standing, visit, name_of))


def case_values(
    run: Run,
    name: str,
    case_id: str,
    addresses: Addresses,
    standing: Standing = _NOT_REVIEWED,
    visit: Visit | None = None,
    name_of: NameOf = lambda _: None,
    prefix: str = "",
) -> dict[str, Any]:
    """Values of the templates of a case; `prefix` tells cases on one page apart in ids of elements.

    Raises:
        RunError: The case has not ended in this run, or a file of the run is damaged.
    """
    line = _NO_RESULTS | run.line(case_id)
    trace = run.trace(case_id)
    case = run.case(case_id)
    steps = executions(trace)
    known = {call["key"] for step in steps for call in step["calls"]}
    links = {key: addresses.call(name, case_id, key) for key in known}
    ids = case.sentence_ids if case else tuple(line["labels"])
    answers = read_answers(line, case, {id_: index for index, id_ in enumerate(ids)})
    verifiable = line["answer"] and line.get("answer_status") != "not_stated" and case and case.sentences
    ballots, judged = read_ballots(steps), read_rule(steps)
    graph = run.manifest.graph
    route = read_route(steps, graph)
    before, after = run.neighbours(case_id)
    texts_fault = run.texts_fault
    if case is None and not texts_fault:
        texts_fault = "no readable case file has this id"
    visit = visit or Visit()
    models = ", ".join(dict.fromkeys(model.name for model in run.manifest.models.values()))
    resume = None
    if run.manifest.status != "running":
        resume = f"evigraph resume {quoted(run.path)} --reviewed"
    return dict(
        addresses=addresses,
        prefix=prefix,
        name=name,
        case_id=case_id,
        line=line,
        case=case,
        texts_fault=texts_fault,
        textless=case is not None and run.texts_fault is not None,
        flags=explain(line["flags"], find_system(run.manifest.system).flags),
        seconds=total_seconds(trace),
        before=before and addresses.case(name, before),
        after=after and addresses.case(name, after),
        message=mark_phrases(case.narrative, case.phrases) if case else None,
        adopted=_adopted(steps, case),
        note=read_note(line, case, ballots, answers, links.get, judged),
        by_rule=judged is not None,
        threshold=read_threshold(steps),
        ballots=ballots,
        answers=answers,
        verify=addresses.verify(name, case_id) if verifiable else None,
        verdict=read_verdict(line, case),
        asked=read_question(line, case, steps),
        drafts=_drafts(steps, run, links),
        demonstrations=read_demonstrations(steps),
        route=route,
        drawing=draw_graph(graph, route) if graph and steps else None,
        steps=read_steps(trace, links.get),
        forks=_forks(run.folder, name, case_id, name_of, addresses),
        origin=_origin(run.folder, name, name_of, addresses),
        review=read_review(line, standing, addresses.review(name, case_id), visit),
        going=visit.going,
        state=addresses.state(name, case_id) if visit.going else None,
        asked_on_save=models if visit.resumes and line["status"] == WAITING else None,
        choices=CHOICES,
        places={id_: place for place, id_ in enumerate(ids)},
        goes_on_with=resume,
    )


def call_page(run: Run, name: str, case_id: str, key: str, addresses: Addresses) -> str:
    """Prompt and reply of a call as HTML.

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


@dataclass(frozen=True, slots=True)
class Draft:
    """A rejected draft of the answer.

    Attributes:
        number: From 1.
        text: None where the journal does not have it.
        address: Prompt and reply of the call that wrote it; None where they are left out.
    """

    number: int
    faults: list[str]
    step: int
    text: str | None
    address: str | None


def _drafts(steps: Sequence[Line], run: Run, links: Mapping[str, str | None]) -> list[Draft]:
    """Drafts that were sent back, in the order of writing."""
    found: list[Draft] = []
    for index, step in enumerate(steps):
        facts = step["facts"]
        if facts.get("verdict") != "sent_back":
            continue
        writers = step["reads"].get("draft_answer")
        calls = steps[writers[-1]]["calls"] if writers else []
        key = calls[-1]["key"] if calls else ""
        address, text = links.get(key), None
        if address is not None:
            messages, _ = _conversation(run, key)
            text = messages[-1].text if messages else None
        found.append(Draft(len(found) + 1, _faults(facts), index, text, address))
    return found


def _faults(facts: Mapping[str, Any]) -> list[str]:
    """The reasons for sending a draft back: broken rules, or sentences that the note does not support."""
    if "findings" not in facts:
        return [str(fault) for fault in facts["faults"]]
    return [
        f"sentence {one['id']}: {finding_words(one)}"
        for one in facts["findings"]
        if one["support"] != "supported"
    ]


def _adopted(steps: Sequence[Line], case: Case | None) -> str | None:
    """Question used in place of a missing clinician question; None without one."""
    for step in steps:
        found_in = step["facts"].get("found_in")
        if found_in == "focus phrases" and case is not None:
            return " ".join(" ".join(phrase.text.split()) for phrase in case.phrases)
        if found_in is not None:
            because: str = step["because"]
            return because
    return None


@dataclass(frozen=True, slots=True)
class ForkLink:
    """A fork of a case, or the run that was forked.

    Attributes:
        changes: Differences of the fork, in words.
        compare: The page of differences; None without one.
    """

    name: str
    node: str
    step: int
    changes: tuple[str, ...]
    address: str
    compare: str | None


def _forks(run: RunFolder, name: str, case_id: str, name_of: NameOf, addresses: Addresses) -> list[ForkLink]:
    """Forks of a case that are shown too, oldest first."""
    found = []
    for fork in forks(run):
        made, fork_name = fork.manifest.forked_from, name_of(fork.path)
        if made is not None and made.case_id == case_id and fork_name is not None:
            compare = addresses.compare_case(name, fork_name, case_id)
            found.append(_link(fork_name, made, addresses.case(fork_name, case_id), compare))
    return found


def _origin(run: RunFolder, name: str, name_of: NameOf, addresses: Addresses) -> ForkLink | None:
    """The run that was forked; None for a run that is not a fork, or whose origin is not shown."""
    made = run.manifest.forked_from
    if made is None:
        return None
    # A run is two folders above its forks, wherever they were moved together.
    origin = name_of(run.path.resolve().parents[1])
    if origin is None:
        return None
    compare = addresses.compare_case(origin, name, made.case_id)
    return _link(origin, made, addresses.case(origin, made.case_id), compare)


def _link(name: str, made: ForkedFrom, address: str, compare: str | None) -> ForkLink:
    changes = tuple(f"{what}: {before} → {after}" for what, (before, after) in made.changes.items())
    return ForkLink(name, made.node, made.step, changes, address, compare)
