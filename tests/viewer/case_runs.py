"""Run folders with one case each, made without a model; journal, trace and index are the real ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases.load import find_cases
from runs.record.folder import CALLS, RunWriter
from runs.record.manifest import Edge, GraphShape, Inputs, Manifest
from serving.journal.journal import Journal
from serving.protocol.messages import Answer, Message
from tests.serving.asks import as_sent
from viewer.bundle import BundledAddresses

GRAPH = GraphShape(
    nodes=[
        "__start__",
        "label_evidence",
        "reflect_on_labels",
        "aggregate_votes",
        "widen_evidence",
        "__end__",
    ],
    edges=[
        Edge(source="__start__", target="label_evidence"),
        Edge(source="label_evidence", target="reflect_on_labels", conditional=True),
        Edge(source="label_evidence", target="aggregate_votes", conditional=True),
        Edge(source="reflect_on_labels", target="aggregate_votes"),
        Edge(source="aggregate_votes", target="widen_evidence", conditional=True),
        Edge(source="aggregate_votes", target="__end__", conditional=True),
        Edge(source="widen_evidence", target="__end__"),
    ],
)

RESULTS = (
    *("error", "interpreted_question", "intent", "retrieved", "ranker_scores", "ranker_vote", "vote_counts"),
    *("usable_votes", "asked_votes", "label_confidence", "evidence", "label_source", "answer_evidence"),
    *("answer", "answer_sentences", "alignment", "aligned_answer"),
)


class FileAddresses(BundledAddresses):
    """Adjacent files of any run; calls by the beginning of their key."""

    def __init__(self) -> None:
        super().__init__({}, "", with_calls=True)

    def asset(self, name: str) -> str:
        return name

    def run(self, run: str) -> str:
        return "run.html"

    def case(self, run: str, case_id: str) -> str:
        return f"case-{case_id.encode().hex()}.html"

    def call(self, run: str, case_id: str, key: str) -> str | None:
        return f"call-{key[:16]}.html"


def line(case_id: str, **fields: Any) -> dict[str, Any]:
    """A line of `cases.jsonl`, of a case that failed before anything unless the fields say otherwise."""
    nothing = dict.fromkeys(RESULTS)
    usage = {"calls": 0, "input_tokens": 0, "output_tokens": 0}
    made = {"case_id": case_id, "status": "done", "labels": {}, "flags": [], "usage": usage}
    return made | nothing | fields


def step(node: str, facts: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A node execution; case, number and time are filled in by `write_run`."""
    made = {"node": node, "seconds": 0.5, "reads": {}, "writes": [], "because": "", "facts": facts or {}}
    return made | {"flags": [], "calls": [], "next": [], "error": None} | fields


def call(journal: Path, role: str, sample: int, prompt: str, reply: str) -> dict[str, Any]:
    """A call as a trace shows it; its prompt and reply go into the journal."""
    asked = as_sent(messages=(Message("user", prompt),), role=role, case_id="", samples=(sample,))
    opened = Journal(journal)
    opened.store(asked, {sample: Answer(reply, "stop", 10, 2)})
    opened.close()
    counts = {"input_tokens": 10, "output_tokens": 2, "cached_tokens": 0, "retries": 0}
    made = {"key": asked.key(sample), "role": role, "sample": sample, "model": "scripted:auto", "prompt": []}
    return made | counts | {"seconds": 0.1, "replayed": False, "fault": None, "server": "scripted"}


def write_run(
    folder: Path,
    case: dict[str, Any],
    ended: dict[str, Any],
    steps: Sequence[dict[str, Any]] = (),
    graph: GraphShape | None = GRAPH,
    system: str = "tamu",
) -> Path:
    """A run over one case, which ended so."""
    path = folder / "cases.jsonl"
    path.write_text(json.dumps(case) + "\n", "utf-8")
    manifest = Manifest(
        evigraph="0",
        system=system,
        graph=graph,
        recipe={},
        recipe_sha256="",
        recipe_origin="tamu",
        prompts={},
        inputs=Inputs(paths=[str(path)], sha256=find_cases([path]).digest(), cases=1),
        models={},
        versions={},
    )
    id_ = ended["case_id"]
    trace = [
        {"case_id": id_, "step": number, "started": 0.5 * number} | one for number, one in enumerate(steps)
    ]
    end = {"node": "__end__", "seconds": 0.5 * len(trace), "started_at": 1.0, "status": ended["status"]}
    with RunWriter.create(folder / "run", manifest) as run:
        run.append(ended, [*trace, {"case_id": id_, "step": len(trace), "error": None} | end])
    return folder / "run"


def voted_run(folder: Path) -> Path:
    """Three sentences; two votes, of which reflection changes one; an answer aligned with the note."""
    journal = folder / CALLS
    first = [call(journal, "label", vote, "Which are essential?", f"reply {vote}") for vote in (0, 1)]
    second = [call(journal, "reflect", vote, "Sure?", f"reflection {vote}") for vote in (0, 1)]
    votes = [{"vote": 0, "essential": ["1", "3"]}, {"vote": 1, "essential": ["1"]}]
    counts = {"1": 2, "2": 1, "3": 0}
    steps = [
        step("label_evidence", {"votes": votes}, calls=first, writes=["votes"], next=["reflect_on_labels"]),
        step(
            "reflect_on_labels",
            {"vote": 0, "before": ["1", "3"], "after": ["1", "2"], "added": ["2"], "removed": ["3"]},
            calls=[second[0]],
            next=["aggregate_votes"],
        ),
        step(
            "reflect_on_labels",
            {"vote": 1, "before": ["1"], "after": ["1"], "added": [], "removed": []},
            calls=[second[1]],
            next=["aggregate_votes"],
        ),
        step("aggregate_votes", {"counts": counts, "threshold": 2}, reads={"votes": [0]}),
    ]
    case = {
        "case_id": "c",
        "narrative": "Why did it hurt?",
        "question": "Why pain?",
        "sentences": ["He fell.", "It was cold.", "He drank tea."],
        "labels": {"1": "essential", "2": "essential", "3": "not-relevant"},
        "answer": "He fell.",
    }
    ended = line(
        "c",
        labels={"1": "essential", "2": "not-essential", "3": "not-essential"},
        vote_counts=counts,
        usable_votes=2,
        evidence={"threshold": ["1"], "high_recall": ["1", "2"], "low_recall": ["1"]},
        answer="He fell. It was cold.",
        answer_evidence=["1"],
        aligned_answer="generated",
        answer_sentences=[{"id": "1", "text": "He fell."}, {"id": "2", "text": "It was cold."}],
        alignment={"1": ["1"], "2": ["2"]},
    )
    run = write_run(folder, case, ended, steps)
    journal.rename(run / CALLS)
    return run


def weighed_run(folder: Path, **judged: dict[str, float]) -> Path:
    """Three sentences, each asked for by itself; the second one, asked twice, has no label."""
    journal = folder / CALLS
    calls = [
        call(journal, "label", 0, f"Is sentence {number} needed?", reply)
        for number, reply in ((1, "Yes"), (2, "<b>Maybe</b>"), (2.5, "?"), (3, "No"))
    ]
    log_odds, confidence = {"1": 2.5, "3": -1.25}, {"1": 0.924142, "3": 0.222700}
    vote = {"vote": 0, "essential": ["1"], "confidence": confidence, "log_odds": log_odds}
    facts = {
        "votes": [vote],
        "missing_sentences": {"2": "refusal: <b>no</b>"},
        "sentence_calls": {"1": 1, "2": 2, "3": 1},
    }
    counted = {"counts": {"1": 1, "2": 0, "3": 0}, "threshold": 1, "usable_votes": 1, "essential": ["1"]}
    counted |= judged
    steps = [
        step("label_evidence", facts, calls=calls, flags=["missing_sentences"], next=["aggregate_votes"]),
        step("aggregate_votes", counted, next=["__end__"]),
    ]
    ended = line(
        "c",
        labels={"1": "essential", "2": "not-essential", "3": "not-essential"},
        vote_counts=counted["counts"],
        usable_votes=1,
        model_scores=log_odds,
        label_confidence={**confidence, "2": None},
        evidence={"threshold": ["1"]},
        flags=["missing_sentences"],
    )
    note = ["Pain fell.", "He smokes.", "He ate."]
    return write_run(folder, {"case_id": "c", "question": "Why?", "sentences": note}, ended, steps)
