"""The spans of a run, one trace a pass of a case, in the order of the run's trace."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from evals.spans import names
from evals.spans.call_span import call_span
from evals.spans.ids import run_id, span_id, trace_id
from evals.spans.intervals import call_intervals, nanoseconds
from evals.spans.node_span import node_span
from evals.spans.span import Attributes, Span, Value
from runs.folder import CALLS, Line, RunFolder
from runs.manifest import Manifest
from serving.journal import Journal

_END = "__end__"


def resource(run: RunFolder) -> Attributes:
    """What all spans of a run have in common. Phoenix makes a project of each run."""
    manifest = run.manifest
    name = run.path.resolve().name
    return {
        "service.name": "evigraph",
        "service.version": manifest.evigraph,
        names.PROJECT: name,
        "evigraph.run": name,
        "evigraph.run.id": run_id(manifest),
        "evigraph.system": manifest.system,
        "evigraph.recipe_sha256": manifest.recipe_sha256,
    }


def traces(run: RunFolder, *, payloads: bool) -> Iterator[list[Span]]:
    """The spans of each pass of each case: the root, then each node with its calls. One pass is in memory.

    A pass whose last line is missing was torn by a kill; its case has run again since, or will.

    Args:
        run: The run.
        payloads: Whether to add prompts, replies, answers and what quotes them. Answers are then in memory.

    Raises:
        JournalError: Payloads are wanted and the journal cannot be read.
    """
    identity = run_id(run.manifest)
    numbers: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        journal = _open_journal(run, stack) if payloads else None
        answers = _answers(run) if payloads else {}
        for case_id, lines in run.passes():
            *steps, end = lines
            if end["node"] != _END:
                continue
            one = _Pass(run.manifest, identity, case_id, numbers[case_id], steps, end)
            numbers[case_id] += 1
            answer = answers.get(case_id) if end["status"] == "done" else None
            yield one.spans(journal, answer)


def _open_journal(run: RunFolder, stack: contextlib.ExitStack) -> Journal:
    journal = Journal(run.path / CALLS, read_only=True)
    stack.callback(journal.close)
    return journal


def _answers(run: RunFolder) -> dict[str, str]:
    return {line["case_id"]: line["answer"] for line in run.cases() if line.get("answer")}


@dataclass(frozen=True, slots=True)
class _Pass:
    manifest: Manifest
    run: str
    case_id: str
    number: int
    steps: list[Line]
    end: Line

    def spans(self, journal: Journal | None, answer: str | None) -> list[Span]:
        root = self._root(answer, payloads=journal is not None)
        spans = [root]
        for step in self.steps:
            node = node_span(step, root, payloads=journal is not None)
            calls = step.get("calls", ())
            intervals = call_intervals(calls, (node.start_ns, node.end_ns))
            spans += [
                node,
                *(
                    call_span(call, node=node, number=number, interval=interval, journal=journal)
                    for number, (call, interval) in enumerate(zip(calls, intervals, strict=True))
                ),
            ]
        return spans

    def _root(self, answer: str | None, *, payloads: bool) -> Span:
        trace = trace_id(self.run, self.case_id, self.number, self.end["started_at"])
        start = self._start_ns()
        attributes: dict[str, Value] = {
            names.OPERATION: "invoke_agent",
            names.AGENT_NAME: self.manifest.system,
            names.AGENT_VERSION: self.manifest.evigraph,
            names.KIND: "AGENT",
            names.INPUT: self.case_id,
            "evigraph.case_id": self.case_id,
            "evigraph.pass": self.number,
            "evigraph.status": self.end["status"],
            "evigraph.flags": sorted({flag for step in self.steps for flag in step.get("flags", ())}),
            "evigraph.route": [step["node"] for step in self.steps],
        }
        error = self.end["error"]
        if error:
            attributes[names.ERROR_TYPE] = error["class"]
        if answer:
            attributes[names.OUTPUT] = answer
        return Span(
            trace_id=trace,
            span_id=span_id(trace, "root"),
            parent_id=None,
            name=f"invoke_agent {self.manifest.system}",
            kind="internal",
            start_ns=start,
            end_ns=start + nanoseconds(self.end["seconds"]),
            attributes=attributes,
            failed=bool(error),
            message=error["message"] if error and payloads else "",
        )

    def _start_ns(self) -> int:
        """A case that could not be read never began: it stands at the begin of the run."""
        started_at = self.end["started_at"]
        if started_at is None:
            started_at = datetime.fromisoformat(self.manifest.sessions[0].started).timestamp()
        return nanoseconds(started_at)
