"""One case, node by node: decisions, reasons, and next nodes."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from cases.records import Case
from cases.texts import plural, quoted
from cli.looking.show_fork import list_forks
from cli.looking.show_question import print_question, question_rows
from cli.looking.show_verdict import print_evidence, verdict_rows
from cli.terminal import duration, output, print_facts, print_rows, safe
from graph.system import find_node
from nodes.verification.support import marked_sentence, marked_text
from runs.record.folder import CALLS, Line, RunFolder
from runs.record.manifest import WAITING, recorded_cases
from runs.review.reviewers import ReviewedRun, Standing
from serving.journal.journal import Journal
from storage.errors import InputError
from viewer.case_parts.ballots import read_rule

_LONG_NOTE = 1_000
"""Number of sentences above which only those with a label or vote are shown."""

_LABEL_COLOURS = {"essential": "green", "supplementary": "yellow"}


def show_case(folder: RunFolder, case_id: str, *, with_calls: bool) -> None:
    """Print the case's texts, its nodes in order and its answer."""
    line = folder.require_case(case_id)
    trace = folder.trace(case_id)
    case = _find(folder, case_id)
    console = output()
    console.print(Rule(safe(f"case {case_id}: {line['status']}", "bold"), align="left"))
    if case is not None:
        _texts(console, case)
    journal = Journal(folder.path / CALLS, read_only=True) if with_calls else None
    for step in trace[:-1]:
        _node(console, step)
        if journal is not None:
            _calls(console, step, journal)
    if journal is not None:
        journal.close()
    if case is not None and line["labels"]:
        _sentences(console, case, line, trace)
    if line.get("evidence_passages"):
        print_evidence(line)
    print_question(console, line, case, trace[:-1])
    if line.get("alignment"):
        _alignment(console, case, line)
    _end(console, folder, case, line, trace)
    list_forks(console, folder, case_id)


def review_command(folder: RunFolder, case_id: str, standing: Standing | None, reviewer: str = "NAME") -> str:
    """The command that shows a case to a reviewer: blind until all have labelled an assigned case."""
    command = f"evigraph review {quoted(folder.path)} {quoted(case_id)}"
    hidden = standing is not None and standing.missing
    return f"{command} --blind --by {quoted(reviewer)}" if hidden else command


def _find(folder: RunFolder, case_id: str) -> Case | None:
    try:
        return next((case for case in recorded_cases(folder.manifest) if case.id == case_id), None)
    except InputError as error:
        # The trace is complete without them; only the texts are missing.
        output().print(safe(f"(texts not shown: {error})", "yellow"))
        return None


def _texts(console: Console, case: Case) -> None:
    facts = [("patient", " ".join(case.narrative.split())[:1500])] if case.narrative else []
    facts.append(("question", case.question or "(none)"))
    if case.biomedical is not None:
        facts.append(("type", case.biomedical.type or "(none)"))
    if case.as_of is not None:
        facts.append(("as of", str(case.as_of)))
    print_facts(facts)
    console.print()


def _node(console: Console, step: Line) -> None:
    head = Text()
    head.append(f"{step['step']} ", style="dim")
    head.append(f"{step['node']}", style="bold cyan" if not step["error"] else "bold red")
    head.append(f"  {duration(step['seconds'])}", style="dim")
    if step["calls"]:
        head.append(f"  {_call_counts(step)}", style="dim")
    if step.get("inherited"):
        head.append("  inherited", style="dim")
    if step["next"]:
        head.append(f"  -> {', '.join(step['next'])}", style="dim")
    console.print(head)
    console.print(Padding(safe(step["because"]), (0, 0, 0, 2)))
    error = step["error"]
    if error and error.partition(": ")[2] not in step["because"]:
        console.print(Padding(safe(f"error: {error}", "red"), (0, 0, 0, 2)))
    for name, value in _details(step):
        console.print(Padding(safe(f"{name}: {value}", "dim"), (0, 0, 0, 2)))


def _call_counts(step: Line) -> str:
    calls = step["calls"]
    read = sum(call["input_tokens"] for call in calls)
    written = sum(call["output_tokens"] for call in calls)
    cached = sum(call["cached_tokens"] for call in calls)
    parts = [f"{plural(len(calls), 'call')}, {plural(read, 'token')} read"]
    if cached:
        parts.append(f"{cached:,} of them cached")
    thought = sum(call.get("thinking_tokens", 0) for call in calls)
    parts.append(f"{written:,} written" + (f" ({thought:,} of them thinking)" if thought else ""))
    if widened := sum(call.get("widened", False) for call in calls):
        parts.append(f"{widened} with a wider limit")
    replayed = sum(call["replayed"] for call in calls)
    if replayed:
        parts.append(f"{replayed} replayed")
    return ", ".join(parts)


def _details(step: Line) -> list[tuple[str, str]]:
    """The facts of a decision that its sentence does not say already."""
    node = find_node(step["node"])
    found = node.rows(step["facts"]) if node is not None else []
    if step["flags"]:
        found.append(("flags", ", ".join(step["flags"])))
    return found


def _ids(ids: list[str]) -> str:
    return f"[{' '.join(ids)}]"


def _calls(console: Console, step: Line, journal: Journal) -> None:
    for call in step["calls"]:
        try:
            turns = journal.conversation(call["key"])
        except KeyError:
            missing = "(the journal has no such call: it was asked anew since)"
            console.print(Padding(safe(missing, "yellow"), (0, 0, 0, 4)))
            continue
        for turn in turns:
            console.print(Padding(safe(f"{turn.role}:", "bold"), (0, 0, 0, 4)))
            console.print(Padding(safe(turn.text), (0, 0, 0, 6)))


def _sentences(console: Console, case: Case, line: Line, trace: list[Line]) -> None:
    labels = case.gold.labels or {}
    # A calibrated rule decides from its own sum: a count of votes next to its label would only contradict it.
    judged = read_rule(trace[:-1])
    by_rule = judged.get("probabilities") if judged else None
    retrieved = {one["id"]: place for place, one in enumerate(line.get("retrieved") or (), start=1)}
    sure, scored = line.get("label_confidence"), line.get("ranker_scores")
    counts = None if judged else line.get("vote_counts")
    optional = {
        "P by rule": by_rule,
        "P by model" if judged else "P(essential)": sure,
        "ranker": scored,
        "found": retrieved,
        "weak key" if case.gold.label_source == "weak" else "key": labels,
    }
    votes_head = () if judged else ("votes",)
    heads = ("id", *votes_head, "label", *(name for name, there in optional.items() if there), "sentence")
    rows: list[list[Text | str]] = []
    shown = [one for one in case.sentences if len(case.sentences) <= _LONG_NOTE or _matters(one.id, line)]
    for sentence in shown:
        label = line["labels"][sentence.id]
        row: list[Text | str] = [sentence.id]
        if not judged:
            row.append(f"{counts[sentence.id]}/{line['usable_votes']}" if counts else "-")
        row.append(safe(label, _LABEL_COLOURS.get(label, "dim")))
        if by_rule:
            row.append(f"{_bar(by_rule[sentence.id])} {by_rule[sentence.id]:.2f}")
        if sure:
            share = sure.get(sentence.id)
            bar = "" if by_rule or share is None else f"{_bar(share)} "
            row.append("-" if share is None else f"{bar}{share:.2f}")
        if scored:
            row.append(_score(sentence.id, line))
        if retrieved:
            row.append(str(retrieved.get(sentence.id, "-")))
        if labels:
            key = labels.get(sentence.id, "")
            row.append(safe(key, _LABEL_COLOURS.get(key, "dim")))
        rows.append([*row, sentence.text])
    console.print()
    print_rows(
        heads,
        rows,
        right=("id", "P(essential)", "P by rule", "P by model", "ranker", "found"),
        below=True,
    )
    if len(shown) < len(case.sentences):
        console.print(
            f"(not shown: {plural(len(case.sentences) - len(shown), 'sentence')} that nothing came of)"
        )


def _bar(share: float) -> str:
    """A probability as a bar of ten characters."""
    full = round(10 * share)
    return "█" * full + "░" * (10 - full)


def _matters(id_: str, line: Line) -> bool:
    return line["labels"][id_] == "essential" or id_ in (line.get("answer_evidence") or ())


def _score(id_: str, line: Line) -> str:
    """The ranker's score; a star where it votes for the sentence."""
    return f"{'* ' if id_ in line['ranker_vote']['essential'] else ''}{line['ranker_scores'][id_]:.2f}"


def _alignment(console: Console, case: Case | None, line: Line) -> None:
    """Each sentence of the aligned answer with its support, and the key's citations if any."""
    known = {one.id: one.citations for one in (case.gold.answer_sentences if case else None) or ()}
    of_clinician = line["aligned_answer"] == "clinician"
    marks = {} if of_clinician else {one["id"]: one for one in line.get("answer_support") or ()}
    rows = []
    for sentence in line["answer_sentences"]:
        row = [sentence["id"], _ids(line["alignment"][sentence["id"]])]
        if of_clinician:
            cited = known.get(sentence["id"])
            row.append("" if cited is None else _ids(list(cited)))
        found = marks.get(sentence["id"])
        rows.append([*row, sentence["text"] if found is None else marked_sentence(found).words])
    heads = ("answer", "supported by", *(["key"] if of_clinician else []))
    console.print()
    print_rows((*heads, f"sentence ({line['aligned_answer']})"), rows, right=("answer",))


def _end(console: Console, folder: RunFolder, case: Case | None, line: Line, trace: list[Line]) -> None:
    console.print()
    if line["error"]:
        console.print(safe(f"failed: {line['error']['class']}: {line['error']['message']}", "red"))
    if line["status"] == WAITING:
        standing = ReviewedRun(folder.path).standing(line["case_id"])
        how = " --essential IDS" if standing.missing else " --by NAME --confirm (or --essential IDS)"
        command = review_command(folder, line["case_id"], standing) + how
        console.print(safe(f"waits for a person: {command}", "yellow"), soft_wrap=True)
    facts: list[tuple[str, Text | str]] = []
    if line.get("interpreted_question"):
        facts.append(("interpreted", line["interpreted_question"]))
    if line.get("answer"):
        facts.append(("answer", marked_text(line)))
        if line.get("answer_status") == "not_stated":
            facts.append(("nearest", _ids(line["nearest_sentences"])))
        elif line.get("answer_evidence") is not None:
            facts.append(("built on", _ids(line["answer_evidence"])))
    if line.get("verdict"):
        facts += verdict_rows(line)
    facts += question_rows(line, case, trace[:-1])
    if case is not None and case.gold.verdict:
        facts.append(("key", case.gold.verdict))
    if case is not None and case.gold.answer:
        facts.append(("reference", case.gold.answer))
    if trace:
        facts.append(("time", duration(trace[-1]["seconds"])))
    print_facts(facts)
